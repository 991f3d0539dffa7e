//! A drain, as connections and calls see it.
//!
//! From its beginning a request's body is read a little longer and then ends
//! with `UNAVAILABLE`, whatever its client still means to send: so a stream
//! gets the answers to all that was received and then a status that says to go
//! on elsewhere, and a call whose request is not all here ends as well.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tonic::Status;
use tonic::body::Body;

/// How long requests are read on as if nothing had happened: calls that were
/// begun before the client heard of the drain arrive meanwhile.
const GRACE: Duration = Duration::from_millis(250);

/// How long a request that a drain ended is read on, and thrown away. Dropped
/// at once it would end by a reset right behind the answer, and HAProxy (2.6)
/// passes on the reset alone: its client would not be told `UNAVAILABLE`.
/// Clients end their half as soon as they are.
const LINGER: Duration = Duration::from_secs(1);

/// Whether the server drains.
#[derive(Clone)]
pub(super) struct Drain(watch::Receiver<bool>);

impl Drain {
    /// A drain that begins when true is sent.
    pub(super) fn new() -> (watch::Sender<bool>, Drain) {
        let (sender, receiver) = watch::channel(false);
        (sender, Drain(receiver))
    }

    fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the beginning.
    pub(super) async fn begins(&mut self) {
        // An error means that the server is gone, which is a drain too.
        let _ = self.0.wait_for(|draining| *draining).await;
    }
}

/// A request's body, which a drain ends.
pub(super) struct RequestBody {
    inner: Body,
    drain: Drain,
    /// The most bytes that may have been received and are not read.
    most_unread: usize,
    /// The end of the grace. Made when it is first needed: most requests are
    /// here at once, and need none.
    grace_ends: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Once the grace is over: how many bytes more are read, if they are here.
    left: Option<usize>,
}

impl RequestBody {
    pub(super) fn new(inner: Body, drain: Drain, most_unread: usize) -> RequestBody {
        RequestBody {
            inner,
            drain,
            most_unread,
            grace_ends: None,
            left: None,
        }
    }

    /// Whether the grace is over. Where it is not, the task is woken then.
    fn is_grace_over(&mut self, context: &mut Context<'_>) -> bool {
        if self.left.is_some() {
            return true;
        }
        let drain = &self.drain;
        let grace_ends = self.grace_ends.get_or_insert_with(|| {
            let mut drain = drain.clone();
            Box::pin(async move {
                drain.begins().await;
                tokio::time::sleep(GRACE).await;
            })
        });
        let over = grace_ends.as_mut().poll(context).is_ready();
        if over {
            self.left = Some(self.most_unread);
        }
        over
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if self.left.is_none() || self.inner.is_end_stream() {
            return;
        }
        let mut inner = std::mem::take(&mut self.inner);
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(tokio::time::timeout(LINGER, async move {
                while let Some(Ok(_)) =
                    poll_fn(|context| Pin::new(&mut inner).poll_frame(context)).await
                {
                }
            }));
        }
    }
}

fn draining() -> Status {
    Status::unavailable("the server is stopping: send what has no answer yet to another")
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        // A client that never pauses is never waited for below.
        if self.drain.has_begun() {
            self.is_grace_over(context);
        }
        match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                if let (Some(left), Some(data)) = (&mut self.left, frame.data_ref()) {
                    match left.checked_sub(data.len()) {
                        Some(still_left) => *left = still_left,
                        // This came after the drain began.
                        None => return Poll::Ready(Some(Err(draining()))),
                    }
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Pending if self.is_grace_over(context) => Poll::Ready(Some(Err(draining()))),
            polled => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}
