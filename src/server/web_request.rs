//! The request of a call by gRPC-Web: text, and waited for.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use tokio::time::{Instant, Sleep, sleep};
use tonic::Status;
use tonic::body::Body;

/// The letters of base64 that are read together: three bytes, or fewer with
/// padding.
const GROUP: usize = 4;

/// A body in base64, read as what it says. It may be of several pieces, each
/// with its own padding (gRPC-Web, "Protocol differences"), and is cut anywhere.
pub(super) struct TextBody {
    inner: Body,
    /// The start of a group that is not whole.
    rest: Vec<u8>,
}

impl TextBody {
    pub(super) fn new(inner: Body) -> TextBody {
        TextBody {
            inner,
            rest: Vec::new(),
        }
    }

    /// What the next letters say, as far as they make whole groups.
    fn decode(&mut self, letters: &[u8]) -> Result<Vec<u8>, Status> {
        self.rest.extend_from_slice(letters);
        let whole = self.rest.len() / GROUP * GROUP;
        let mut decoded = Vec::with_capacity(whole / GROUP * 3);
        let (mut groups, _) = self.rest.split_at(whole);
        while !groups.is_empty() {
            // Padding ends a piece; the next begins with the next group.
            let end = memchr::memchr(b'=', groups).map_or(whole, |at| (at / GROUP + 1) * GROUP);
            let (piece, after) = groups.split_at(end.min(groups.len()));
            STANDARD
                .decode_vec(piece, &mut decoded)
                .map_err(|error| Status::internal(format!("the request is not base64: {error}")))?;
            groups = after;
        }
        self.rest.drain(..whole);
        Ok(decoded)
    }
}

impl HttpBody for TextBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            let frame = match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                None if !self.rest.is_empty() => {
                    self.rest.clear();
                    let cut = "the request is not base64: it ends within a group of four";
                    return Poll::Ready(Some(Err(Status::internal(cut))));
                }
                end => return Poll::Ready(end),
            };
            let letters = match frame.into_data() {
                Ok(letters) => letters,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            };
            match self.decode(&letters) {
                Ok(decoded) if decoded.is_empty() => {}
                decoded => {
                    let frame = decoded.map(|decoded| Frame::data(decoded.into()));
                    return Poll::Ready(Some(frame));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }
}

/// A body that may keep its reader waiting for so long in all. Time in which
/// nobody asks for more does not count: the client can't send on meanwhile.
pub(super) struct AwaitedBody {
    inner: Body,
    timeout: Duration,
    left: Duration,
    /// Since when it is waited for, and until when that may be.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl AwaitedBody {
    pub(super) fn new(inner: Body, timeout: Duration) -> AwaitedBody {
        AwaitedBody {
            inner,
            timeout,
            left: timeout,
            waiting: None,
        }
    }
}

impl HttpBody for AwaitedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if polled.is_ready() {
            if let Some((since, _)) = self.waiting.take() {
                self.left = self.left.saturating_sub(since.elapsed());
            }
            return polled;
        }
        let left = self.left;
        let (_, expiry) = self
            .waiting
            .get_or_insert_with(|| (Instant::now(), Box::pin(sleep(left))));
        ready!(expiry.as_mut().poll(context));
        Poll::Ready(Some(Err(Status::deadline_exceeded(format!(
            "the request did not come whole: it was waited for {:?}",
            self.timeout
        )))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a body of these pieces says, cut into frames of this length.
    fn read(text: &str, cut: usize) -> Result<Vec<u8>, Status> {
        let mut body = TextBody::new(Body::empty());
        let mut said = Vec::new();
        for letters in text.as_bytes().chunks(cut) {
            said.extend(body.decode(letters)?);
        }
        if body.rest.is_empty() {
            Ok(said)
        } else {
            Err(Status::internal("cut"))
        }
    }

    #[test]
    fn pieces_with_their_own_padding_are_read_however_they_are_cut() {
        let text = "AAAAAAM=CAEQAg==/+8=YWJjYWJj";
        let said = b"\0\0\0\0\x03\x08\x01\x10\x02\xff\xefabcabc";
        for cut in 1..=text.len() {
            assert_eq!(read(text, cut).unwrap(), said, "{cut}");
        }
    }

    #[test]
    fn what_is_no_base64_is_refused() {
        for text in [
            "AAA",
            "AAAA====AAA",
            "A===",
            "AA=A",
            "AAA-",
            "AAAA AAA",
            "=AAA",
        ] {
            for cut in 1..=text.len() {
                assert!(read(text, cut).is_err(), "{text} {cut}");
            }
        }
    }
}
