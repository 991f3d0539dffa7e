//! A response on its way out, whose service hears how much of it was sent.
//!
//! h2 keeps what a client's window has no room for, and says nothing of it to
//! who made it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::Response;
use tonic::Status;
use tonic::body::Body;

use crate::service::Sent;

/// A response's body as it is sent.
pub(super) struct Outgoing {
    inner: Body,
    sent: Option<Sent>,
}

impl Outgoing {
    /// A body that is sent as its service made it.
    pub(super) fn counted(mut response: Response<Body>) -> Response<Outgoing> {
        let sent = response.extensions_mut().remove::<Sent>();
        if let Some(sent) = &sent {
            sent.begin();
        }
        response.map(|inner| Outgoing { inner, sent })
    }

    /// A body that was made something else since.
    pub(super) fn uncounted(response: Response<Body>) -> Response<Outgoing> {
        response.map(|inner| Outgoing { inner, sent: None })
    }
}

impl HttpBody for Outgoing {
    type Data = Piece;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, Status>>> {
        let this = &mut *self;
        let polled = Pin::new(&mut this.inner).poll_frame(context);
        polled.map_ok(|frame| {
            frame.map_data(|bytes| Piece {
                bytes,
                sent: this.sent.clone(),
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The bytes of a frame, which are counted as they are written.
pub(super) struct Piece {
    bytes: Bytes,
    sent: Option<Sent>,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(sent) = &self.sent {
            sent.add(count);
        }
    }
}
