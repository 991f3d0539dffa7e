//! Small answers wait a moment for company.
//!
//! A client that is built on h2 charges every frame under 256 bytes that it
//! has not read as if it had as many, and ends its connection, with all of its
//! calls, when they are too many (`too_many_data_frames`): a client with
//! tonic's windows that pauses survives about 12,000 answers of one board that
//! come one by one. So an answer waits up to a millisecond for the next.
//!
//! A client that waits for its answers before it asks again would only be
//! slowed down by that. It gives itself away: not enough comes while its answer
//! is held back. Then answers are not held back for a while.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame};
use tokio::time::{Instant, Sleep, sleep};
use tonic::Status;
use tonic::body::Body;

/// What h2 charges a frame at least: one that has as many bytes waits no more.
const ENOUGH: usize = 256;

/// The longest wait for company.
const WAIT: Duration = Duration::from_millis(1);

/// How many answers go out alone before it is tried whether company comes; at
/// first, and at most. Few, so that what is sent alone stays far below what a
/// client survives; and many, so that one that waits for each answer hardly
/// notices the tries.
const FIRST_ALONE: u32 = 16;
const MOST_ALONE: u32 = 1024;

type Polled = Option<Result<Frame<Bytes>, Status>>;

/// A response's body whose small frames are joined.
pub(super) struct Company {
    inner: Body,
    /// What waits.
    held: BytesMut,
    /// What comes after it.
    next: Option<Polled>,
    /// So many frames still go out alone.
    alone: u32,
    /// And so many after the next try that fails.
    alone_next: u32,
    /// Created by the first wait.
    timer: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl Company {
    pub(super) fn new(inner: Body) -> Company {
        Company {
            inner,
            held: BytesMut::new(),
            next: None,
            alone: FIRST_ALONE,
            alone_next: FIRST_ALONE,
            timer: None,
            waiting: false,
        }
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.held.is_empty() && self.next.is_none() && self.inner.is_end_stream()
    }

    pub(super) fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Polled> {
        if let Some(next) = self.next.take() {
            return Poll::Ready(next);
        }
        loop {
            let frame = match Pin::new(&mut self.inner).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => frame.into_data(),
                Poll::Ready(end) => return Poll::Ready(self.before(end)),
                Poll::Pending if self.held.is_empty() => return Poll::Pending,
                Poll::Pending => {
                    ready!(self.poll_wait(context));
                    // In vain: that is not tried again for a while.
                    self.alone = self.alone_next;
                    self.alone_next = (self.alone_next * 2).min(MOST_ALONE);
                    return Poll::Ready(self.send());
                }
            };
            match frame {
                Ok(data) if self.held.is_empty() && (data.len() >= ENOUGH || self.goes_alone()) => {
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Ok(data) => {
                    self.held.extend_from_slice(&data);
                    if self.held.len() >= ENOUGH {
                        self.alone_next = FIRST_ALONE;
                        return Poll::Ready(self.send());
                    }
                }
                Err(trailers) => return Poll::Ready(self.before(Some(Ok(trailers)))),
            }
        }
    }

    /// What is held, where there is something, and `next` after it.
    fn before(&mut self, next: Polled) -> Polled {
        if self.held.is_empty() {
            return next;
        }
        self.next = Some(next);
        self.send()
    }

    fn send(&mut self) -> Polled {
        self.waiting = false;
        Some(Ok(Frame::data(self.held.split().freeze())))
    }

    /// Whether the next small frame goes out as it is.
    fn goes_alone(&mut self) -> bool {
        let left = self.alone.checked_sub(1);
        self.alone = left.unwrap_or(0);
        left.is_some()
    }

    /// Resolves when what is held has waited long enough.
    fn poll_wait(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(WAIT)));
        if !self.waiting {
            self.waiting = true;
            timer.as_mut().reset(Instant::now() + WAIT);
        }
        timer.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::future::poll_fn;
    use std::sync::{Arc, Mutex};
    use std::task::Waker;

    use hyper::HeaderMap;

    use super::*;

    /// A body of what is put there.
    #[derive(Clone, Default)]
    struct Sent(Arc<Mutex<VecDeque<Frame<Bytes>>>>);

    impl Sent {
        fn put(&self, frame: Frame<Bytes>) {
            self.0.lock().unwrap().push_back(frame);
        }
    }

    impl HttpBody for Sent {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            let frame = self.0.lock().unwrap().pop_front();
            frame.map_or(Poll::Pending, |frame| Poll::Ready(Some(Ok(frame))))
        }
    }

    fn company() -> (Sent, Company) {
        let sent = Sent::default();
        (sent.clone(), Company::new(Body::new(sent)))
    }

    fn answer(bytes: usize) -> Frame<Bytes> {
        Frame::data(vec![7; bytes].into())
    }

    /// The bytes of the next frame, where it comes at once.
    fn at_once(company: &mut Company) -> Option<usize> {
        match company.poll_frame(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(frame) => Some(frame.unwrap().unwrap().into_data().unwrap().len()),
            Poll::Pending => None,
        }
    }

    async fn in_time(company: &mut Company) -> usize {
        let frame = poll_fn(|context| company.poll_frame(context)).await;
        frame.unwrap().unwrap().into_data().unwrap().len()
    }

    #[tokio::test]
    async fn who_waits_for_each_answer_is_hardly_held_up() {
        let (sent, mut company) = company();
        let mut held_up = 0;
        for _ in 0..1_000 {
            sent.put(answer(40));
            if at_once(&mut company).is_none() {
                held_up += 1;
                assert_eq!(in_time(&mut company).await, 40);
            }
            assert_eq!(at_once(&mut company), None);
        }
        assert!((3..=8).contains(&held_up), "{held_up}");
    }

    #[tokio::test]
    async fn answers_that_come_one_by_one_are_joined() {
        let (sent, mut company) = company();
        let mut frames = Vec::new();
        for _ in 0..1_000 {
            sent.put(answer(40));
            frames.extend(at_once(&mut company));
        }
        let (alone, joined) = frames.split_at(FIRST_ALONE as usize);
        assert!(alone.iter().all(|bytes| *bytes == 40));
        assert!(joined.len() > 100 && joined.iter().all(|bytes| *bytes == 280));
    }

    #[tokio::test]
    async fn a_few_that_wait_for_their_answers_are_hardly_held_up() {
        let (sent, mut company) = company();
        let mut held_up = 0;
        for _ in 0..1_000 {
            sent.put(answer(40));
            sent.put(answer(40));
            let mut bytes = 0;
            while bytes < 80 {
                bytes += match at_once(&mut company) {
                    Some(bytes) => bytes,
                    None => {
                        held_up += 1;
                        in_time(&mut company).await
                    }
                };
            }
            assert_eq!(at_once(&mut company), None);
        }
        assert!((3..=8).contains(&held_up), "{held_up}");
    }

    #[tokio::test]
    async fn large_answers_and_the_end_wait_for_nothing() {
        let (sent, mut company) = company();
        for _ in 0..100 {
            sent.put(answer(ENOUGH));
            assert_eq!(at_once(&mut company), Some(ENOUGH));
        }
        company.alone = 0;
        sent.put(answer(9));
        assert_eq!(at_once(&mut company), None);
        sent.put(Frame::trailers(HeaderMap::new()));
        assert_eq!(at_once(&mut company), Some(9));
        let end = poll_fn(|context| company.poll_frame(context)).await;
        assert!(end.unwrap().unwrap().is_trailers());
    }
}
