//! A call's deadline, from its first header to its last byte.
//!
//! tonic's own timeout ends where the response's headers begin and answers
//! `CANCELLED`. This one also ends a call whose request never comes, and a
//! stream after its headers went, and says `DEADLINE_EXCEEDED`.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::{HeaderMap, Request, Response};
use tokio::time::{Sleep, sleep_until};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::service::Routes;

use crate::service::Deadline;

fn exceeded() -> Status {
    Status::deadline_exceeded("the deadline passed before the call was answered")
}

/// The deadline of a call that begins now: its own, or the server's where that
/// is sooner.
pub(super) fn of(headers: &HeaderMap, ceiling: Option<Duration>) -> Option<Deadline> {
    let own = ceiling
        .and_then(|ceiling| Instant::now().checked_add(ceiling))
        .map(Deadline);
    Deadline::of(headers).into_iter().chain(own).min()
}

/// Answers a request by its deadline.
pub(super) async fn call(
    mut routes: Routes,
    mut request: Request<Body>,
    deadline: Option<Deadline>,
) -> Result<Response<Body>, Infallible> {
    let Some(deadline) = deadline else {
        return routes.call(request).await;
    };
    request.extensions_mut().insert(deadline);
    let mut expiry = Box::pin(sleep_until(deadline.0.into()));
    tokio::select! {
        biased;
        () = &mut expiry => Ok(exceeded().into_http()),
        response = routes.call(request) => {
            let response = response?;
            Ok(response.map(|inner| Body::new(DeadlineBody { inner: Some(inner), expiry })))
        }
    }
}

/// A response's body, until the deadline.
struct DeadlineBody {
    /// `None` once the body ended.
    inner: Option<Body>,
    expiry: Pin<Box<Sleep>>,
}

impl HttpBody for DeadlineBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(inner) = &mut self.inner else {
            return Poll::Ready(None);
        };
        let frame = Pin::new(inner).poll_frame(context);
        if self.expiry.as_mut().poll(context).is_pending() {
            return frame;
        }
        // Dropping the body cancels what still runs for it.
        self.inner = None;
        let mut trailers = HeaderMap::new();
        let added = exceeded().add_header(&mut trailers);
        Poll::Ready(Some(added.map(|()| Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}
