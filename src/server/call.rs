//! A call, from its first header to its last byte, whatever it asks for.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use hyper::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::service::Routes;
use tracing::Instrument;

use super::drain::{Drain, RequestBody};
use super::lifetime::{Call, Calls};
use super::observe::{CountedRequest, SentMessages};
use super::{deadline, trailers};
use crate::telemetry::call::{Caller, Observed, Observer};

/// Answers the calls of a connection: by their deadlines, counted and told of,
/// to a drain's end, and with trailers that every client takes.
#[derive(Clone)]
pub(super) struct Handler {
    pub(super) routes: Routes,
    pub(super) max_deadline: Option<Duration>,
    pub(super) drain: Drain,
    /// The most bytes of a call that were received and are not read.
    pub(super) most_unread: usize,
    pub(super) calls: Calls,
    pub(super) observer: Arc<Observer>,
    /// The connection's peer.
    pub(super) caller: Arc<Caller>,
}

impl Handler {
    pub(super) async fn answer(self, request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let call = self.calls.begin();
        let (mut head, body) = request.into_parts();
        let deadline = deadline::of(&head.headers, self.max_deadline);
        let mut observed = self.observer.begin(
            head.uri.path(),
            &head.headers,
            &self.caller,
            deadline.map(|deadline| deadline.0),
        );
        head.extensions.insert(observed.record().clone());
        let body = RequestBody::new(body, self.drain, self.most_unread);
        let body = CountedRequest::new(body, Arc::clone(observed.metrics()));
        let request = Request::from_parts(head, Body::new(body));
        let answered = deadline::call(self.routes, request, deadline);
        let mut response = answered.instrument(observed.span().clone()).await?;
        trailers::shorten(response.headers_mut());
        observed.read_status(response.headers());
        if response.body().is_end_stream() {
            observed.complete();
        }
        Ok(response.map(|inner| {
            Body::new(ResponseBody {
                inner,
                sent: SentMessages::default(),
                observed,
                _call: call,
            })
        }))
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
    sent: SentMessages,
    observed: Observed,
    _call: Call,
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let mut polled = {
            let _entered = this.observed.span().enter();
            Pin::new(&mut this.inner).poll_frame(context)
        };
        match &mut polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(trailers) = frame.trailers_mut() {
                    trailers::shorten(trailers);
                    this.observed.read_status(trailers);
                }
                this.sent.count(frame, this.observed.metrics());
            }
            Poll::Ready(None) => this.observed.complete(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}
