//! Traces to a collector, over OTLP. OpenTelemetry's types stay in this file.

use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags,
    TraceId, TraceState, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider,
};

use super::call::Ended;

/// The most spans that wait to be sent; more are dropped. About 2 MB.
const MAX_QUEUED: usize = 2048;

/// How often they are sent.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long a collector may take to take them, and how long the last ones may
/// hold up the end of the process.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Why there are no traces.
#[derive(Debug, thiserror::Error)]
#[error("cannot send traces there: {0}")]
pub struct TracerError(String);

/// Sends the spans of calls, from a thread of its own.
#[derive(Clone, Debug)]
pub struct Tracer {
    tracer: SdkTracer,
    provider: SdkTracerProvider,
}

impl Tracer {
    /// Sends to the collector at this URL, whether it is there or not. Within
    /// a runtime of tokio.
    ///
    /// # Errors
    /// Where the URL is none.
    pub fn start(endpoint: &str) -> Result<Tracer, TracerError> {
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint)
            .with_timeout(TIMEOUT)
            .build()
            .map_err(|error| TracerError(error.to_string()))?;
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(MAX_QUEUED)
            .with_scheduled_delay(INTERVAL)
            .build();
        let processor = BatchSpanProcessor::builder(exporter)
            .with_batch_config(batches)
            .build();
        let resource = Resource::builder()
            .with_service_name("loyd")
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_resource(resource)
            .build();
        let tracer = provider.tracer("loyd");
        Ok(Tracer { tracer, provider })
    }

    /// Queues the span of a call. A trace that its caller does not sample is
    /// not sampled here either.
    pub(super) fn record(&self, call: &Ended<'_>) {
        let ended = SystemTime::now();
        let name = call.method.trim_start_matches('/');
        let (service, method) = name.split_once('/').unwrap_or(("", name));
        let boards = i64::try_from(call.boards).unwrap_or(i64::MAX);
        let code = i64::try_from(call.code).unwrap_or(i64::MAX);
        let builder = SpanBuilder::from_name(name.to_owned())
            .with_kind(SpanKind::Server)
            .with_start_time(ended.checked_sub(call.took).unwrap_or(ended))
            .with_attributes([
                KeyValue::new("rpc.system", "grpc"),
                KeyValue::new("rpc.service", service.to_owned()),
                KeyValue::new("rpc.method", method.to_owned()),
                KeyValue::new("rpc.grpc.status_code", code),
                KeyValue::new("network.peer.address", call.peer.to_owned()),
                KeyValue::new("loyd.boards", boards),
                KeyValue::new("loyd.request_id", call.request_id.clone()),
            ]);
        let parent = match call.parent {
            Some(parent) => Context::new().with_remote_span_context(SpanContext::new(
                TraceId::from(parent.trace),
                SpanId::from(parent.span),
                TraceFlags::new(parent.flags),
                true,
                TraceState::NONE,
            )),
            None => Context::new(),
        };
        let mut span = self.tracer.build_with_context(builder, &parent);
        if is_fault_of_server(call.code) {
            span.set_status(Status::error(call.code_name()));
        }
        span.end_with_timestamp(ended);
    }

    /// Sends what is left, for a bounded time. Blocks.
    pub fn finish(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(TIMEOUT) {
            tracing::warn!(%error, "some traces were not sent");
        }
    }
}

/// What OpenTelemetry's conventions for gRPC servers call an error: Unknown,
/// DeadlineExceeded, Unimplemented, Internal, Unavailable and DataLoss.
fn is_fault_of_server(code: usize) -> bool {
    matches!(code, 2 | 4 | 12 | 13 | 14 | 15)
}
