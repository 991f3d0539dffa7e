//! A message over the size limit is `RESOURCE_EXHAUSTED`.
//!
//! tonic refuses it with `OUT_OF_RANGE`, before the handler sees anything.

use std::convert::Infallible;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::Map;
use hyper::{Request, Response};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::NamedService;
use tonic::{Code, Status};

use super::MAX_REQUEST_BYTES;

/// What gRPC libraries say to a message over the limit, and names the limit.
pub(crate) fn too_large() -> Status {
    Status::resource_exhausted(format!(
        "the request message is too large: the limit is {MAX_REQUEST_BYTES} bytes"
    ))
}

/// A service whose refusals by size have the right code.
#[derive(Clone)]
pub struct SizeLimit<S>(S);

impl<S> SizeLimit<S> {
    /// Takes a service that never says `OUT_OF_RANGE` of its own.
    pub fn new(service: S) -> SizeLimit<S> {
        SizeLimit(service)
    }
}

impl<S: NamedService> NamedService for SizeLimit<S> {
    const NAME: &'static str = S::NAME;
}

type Answer = Result<Response<Body>, Infallible>;

impl<S> Service<Request<Body>> for SizeLimit<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Map<S::Future, fn(Answer) -> Answer>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.0.call(request).map(correct)
    }
}

/// No handler says `OUT_OF_RANGE` itself.
fn correct(answer: Answer) -> Answer {
    let response = answer?;
    let status = response.headers().get(Status::GRPC_STATUS);
    if status.is_some_and(|status| Code::from_bytes(status.as_bytes()) == Code::OutOfRange) {
        return Ok(too_large().into_http());
    }
    Ok(response)
}
