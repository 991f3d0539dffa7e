//! What HTTP/1.1 lacks: to tell a client that has half asked from one that does
//! not ask.
//!
//! hyper's own timeout is for both, and a connection without calls is to live
//! as long as the idle timeout says.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::Response;
use tonic::Status;
use tonic::body::Body;

use super::wire::Traffic;

/// The requests of a connection.
#[derive(Clone)]
pub(super) struct Requests(Arc<Counts>);

struct Counts {
    traffic: Arc<Traffic>,
    running: AtomicUsize,
    /// The bytes that were received when the last one was over.
    asked: AtomicUsize,
}

impl Requests {
    pub(super) fn new(traffic: Arc<Traffic>) -> Requests {
        Requests(Arc::new(Counts {
            traffic,
            running: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
        }))
    }

    /// A request whose headers are here. It runs until this is dropped.
    pub(super) fn begin(&self) -> Asked {
        self.0.running.fetch_add(1, Ordering::Relaxed);
        Asked(Arc::clone(&self.0))
    }

    /// How many bytes there are of a request whose headers are not all here.
    fn of_half_a_head(&self) -> usize {
        let Counts {
            traffic,
            running,
            asked,
        } = &*self.0;
        if running.load(Ordering::Acquire) > 0 {
            return 0;
        }
        let received = traffic.received();
        received.saturating_sub(asked.load(Ordering::Relaxed))
    }

    /// Resolves once the headers of a request are not all here after this time,
    /// and after twice this time at the latest.
    pub(super) async fn half_asked(&self, time: Duration) {
        let mut since_before = None;
        loop {
            tokio::time::sleep(time).await;
            let head = (self.of_half_a_head() > 0).then(|| self.0.asked.load(Ordering::Relaxed));
            if head.is_some() && head == since_before {
                return;
            }
            since_before = head;
        }
    }
}

/// A running request.
pub(super) struct Asked(Arc<Counts>);

impl Asked {
    /// The response, until the end of which the request runs.
    pub(super) fn until_answered(self, response: Response<Body>) -> Response<Body> {
        response.map(|inner| {
            Body::new(Answer {
                inner,
                _asked: self,
            })
        })
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let received = self.0.traffic.received();
        self.0.asked.store(received, Ordering::Relaxed);
        self.0.running.fetch_sub(1, Ordering::Release);
    }
}

struct Answer {
    inner: Body,
    _asked: Asked,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
