//! A call, from its first header to its last byte, whatever it asks for.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use hyper::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::service::Routes;

use super::drain::{Drain, RequestBody};
use super::lifetime::{Call, Calls};
use super::{deadline, trailers};

/// Answers the calls of a connection: by their deadlines, counted, to a drain's
/// end, and with trailers that every client takes.
#[derive(Clone)]
pub(super) struct Handler {
    pub(super) routes: Routes,
    pub(super) max_deadline: Option<Duration>,
    pub(super) drain: Drain,
    /// The most bytes of a call that were received and are not read.
    pub(super) most_unread: usize,
    pub(super) calls: Calls,
}

impl Handler {
    pub(super) async fn answer(self, request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let call = self.calls.begin();
        let request =
            request.map(|body| Body::new(RequestBody::new(body, self.drain, self.most_unread)));
        let mut response = deadline::call(self.routes, request, self.max_deadline).await?;
        trailers::shorten(response.headers_mut());
        Ok(response.map(|inner| Body::new(ResponseBody { inner, _call: call })))
    }
}

impl Service<Request<Body>> for Handler {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().answer(request))
    }
}

/// A response's body: its call is open until this is dropped.
struct ResponseBody {
    inner: Body,
    _call: Call,
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let mut polled = Pin::new(&mut self.inner).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &mut polled
            && let Some(trailers) = frame.trailers_mut()
        {
            trailers::shorten(trailers);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}
