//! What is told of calls on their way through.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use prost::Message;
use prost_types::FileDescriptorSet;
use tonic::Status;

use super::messages::Messages;
use crate::telemetry::metrics::{CallMetrics, MethodName};

/// The methods of all services in these descriptor sets.
pub(super) fn methods(descriptors: &[&[u8]]) -> Vec<MethodName> {
    let sets = descriptors.iter().filter_map(|set| {
        FileDescriptorSet::decode(*set)
            .inspect_err(|error| tracing::error!(%error, "a descriptor set can't be read"))
            .ok()
    });
    let mut methods = Vec::new();
    for file in sets.flat_map(|set| set.file) {
        for service in &file.service {
            let service_name = match file.package() {
                "" => service.name().to_owned(),
                package => format!("{package}.{}", service.name()),
            };
            methods.extend(service.method.iter().map(|method| MethodName {
                kind: match (method.client_streaming(), method.server_streaming()) {
                    (false, false) => "unary",
                    (true, false) => "client_stream",
                    (false, true) => "server_stream",
                    (true, true) => "bidi_stream",
                },
                service: service_name.clone(),
                method: method.name().to_owned(),
            }));
        }
    }
    methods
}

/// A request's body whose messages are counted, and are no more than its method
/// takes.
pub(super) struct CountedRequest<B> {
    inner: B,
    messages: Messages,
    metrics: Arc<CallMetrics>,
}

impl<B> CountedRequest<B> {
    pub(super) fn new(inner: B, metrics: Arc<CallMetrics>) -> CountedRequest<B> {
        CountedRequest {
            inner,
            messages: Messages::default(),
            metrics,
        }
    }
}

impl<B> HttpBody for CountedRequest<B>
where
    B: HttpBody<Data = Bytes, Error = Status> + Unpin,
{
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
            let ended = self.messages.end_in(data);
            if ended > 0 {
                self.metrics.received(ended);
            }
            // Else all but the first would be thrown away in silence.
            if self.metrics.takes_one() && self.messages.begun() > 1 {
                return Poll::Ready(Some(Err(one_too_many())));
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

/// The code is gRPC's own for it (statuscodes.md, "Request cardinality
/// violation").
fn one_too_many() -> Status {
    Status::unimplemented("a request of this method is one message, and more came")
}

/// Counts the messages of a response.
#[derive(Default)]
pub(super) struct SentMessages(Messages);

impl SentMessages {
    pub(super) fn count(&mut self, frame: &Frame<Bytes>, metrics: &CallMetrics) {
        if let Some(data) = frame.data_ref() {
            let ended = self.0.end_in(data);
            if ended > 0 {
                metrics.sent(ended);
            }
        }
    }
}
