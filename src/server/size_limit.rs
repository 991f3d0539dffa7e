//! A message over the size limit is answered by the services that stand beside
//! the application's as that answers it: `RESOURCE_EXHAUSTED`, with the limit.
//!
//! Of themselves they say `OUT_OF_RANGE`, and reflection says `OK`.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::{HeaderMap, Request, Response};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::NamedService;

use super::messages::Messages;
use crate::service::{MAX_REQUEST_BYTES, SizeLimit, too_large};

/// A service that answers so.
#[derive(Clone)]
pub(super) struct Limited<S>(SizeLimit<S>);

impl<S> Limited<S> {
    pub(super) fn new(service: S) -> Limited<S> {
        Limited(SizeLimit::new(service))
    }
}

impl<S: NamedService> NamedService for Limited<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Limited<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let exceeded = Arc::new(AtomicBool::new(false));
        let answer = self.0.call(request.map(|inner| {
            Body::new(LimitedRequest {
                inner,
                messages: Messages::default(),
                exceeded: Arc::clone(&exceeded),
            })
        }));
        Box::pin(async {
            let response = answer.await?;
            Ok(response.map(|inner| Body::new(LimitedResponse { inner, exceeded })))
        })
    }
}

/// A request that ends with a message over the limit.
struct LimitedRequest {
    inner: Body,
    messages: Messages,
    exceeded: Arc<AtomicBool>,
}

impl HttpBody for LimitedRequest {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            self.messages.end_in(data);
            if self.messages.longest() > MAX_REQUEST_BYTES {
                self.exceeded.store(true, Ordering::Release);
                return Poll::Ready(Some(Err(too_large())));
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A response whose status says so, whatever its service makes of it.
struct LimitedResponse {
    inner: Body,
    exceeded: Arc<AtomicBool>,
}

impl HttpBody for LimitedResponse {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let mut polled = Pin::new(&mut self.inner).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &mut polled
            && let Some(trailers) = frame.trailers_mut()
            && self.exceeded.load(Ordering::Acquire)
        {
            let mut other = HeaderMap::new();
            too_large().add_header(&mut other)?;
            *trailers = other;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
