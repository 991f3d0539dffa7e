//! Traces to a collector, over OTLP. OpenTelemetry's types stay in this file.

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use hyper::HeaderMap;
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags,
    TraceId, TraceState, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::WithExportConfig;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider, Span, SpanData,
    SpanExporter, SpanProcessor,
};

use super::call::Ended;
use super::metrics::{Metrics, Spans};

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
    /// How many spans wait to be sent, or are being sent.
    waiting: Arc<AtomicUsize>,
}

impl Tracer {
    /// Sends to the collector at this URL, whether it is there or not. Within
    /// a runtime of tokio.
    ///
    /// # Errors
    /// Where the URL is none.
    pub fn start(endpoint: &str, metrics: &Metrics) -> Result<Tracer, TracerError> {
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint)
            .with_timeout(TIMEOUT)
            .build()
            .map_err(|error| TracerError(error.to_string()))?;
        let waiting = Arc::new(AtomicUsize::new(0));
        let exporter = Exporter {
            inner: exporter,
            spans: metrics.spans().clone(),
            waiting: Arc::clone(&waiting),
            fails: AtomicBool::new(false),
        };
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(MAX_QUEUED)
            .with_scheduled_delay(INTERVAL)
            .build();
        let batches = BatchSpanProcessor::builder(exporter)
            .with_batch_config(batches)
            .build();
        let processor = Bounded {
            inner: batches,
            spans: metrics.spans().clone(),
            waiting: Arc::clone(&waiting),
        };
        let resource = Resource::builder()
            .with_service_name("loyd")
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_resource(resource)
            .build();
        let tracer = provider.tracer("loyd");
        Ok(Tracer {
            tracer,
            provider,
            waiting,
        })
    }

    /// Queues the span of a call. A trace that its caller does not sample is
    /// not sampled here either.
    pub(super) fn record(&self, call: &Ended<'_>, carried: &Carried) {
        let ended = SystemTime::now();
        let name = call.method.trim_start_matches('/');
        let (service, method) = name.split_once('/').unwrap_or(("", name));
        let boards = i64::try_from(call.boards).unwrap_or(i64::MAX);
        let code = i64::try_from(call.code).unwrap_or(i64::MAX);
        let mut attributes = vec![
            KeyValue::new("rpc.system", "grpc"),
            KeyValue::new("rpc.service", service.to_owned()),
            KeyValue::new("rpc.method", method.to_owned()),
            KeyValue::new("rpc.grpc.status_code", code),
            KeyValue::new("loyd.boards", boards),
            KeyValue::new("loyd.request_id", call.request_id.clone()),
        ];
        match call.peer.parse::<SocketAddr>() {
            Ok(peer) => attributes.extend([
                KeyValue::new("network.peer.address", peer.ip().to_string()),
                KeyValue::new("network.peer.port", i64::from(peer.port())),
            ]),
            // A Unix socket's.
            Err(_) => attributes.push(KeyValue::new("network.peer.address", call.peer.to_owned())),
        }
        let builder = SpanBuilder::from_name(name.to_owned())
            .with_kind(SpanKind::Server)
            .with_start_time(ended.checked_sub(call.took).unwrap_or(ended))
            .with_attributes(attributes);
        let parent = match call.parent {
            Some(parent) => Context::new().with_remote_span_context(SpanContext::new(
                TraceId::from(parent.trace),
                SpanId::from(parent.span),
                TraceFlags::new(parent.flags),
                true,
                carried.0.clone(),
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
            let spans = self.waiting.load(Ordering::Relaxed);
            tracing::warn!(%error, spans, "some traces were not sent");
        }
    }
}

/// The most bytes of a `tracestate` that are passed on: what the standard asks
/// for at least.
const MAX_TRACE_STATE: usize = 512;

/// What other systems have to say of a caller's trace: W3C Trace Context,
/// `tracestate`. It is passed on with the span.
#[derive(Debug, Default)]
pub(super) struct Carried(TraceState);

impl Carried {
    /// That in these headers, of which several are one list. One that is too
    /// long, or not well formed, is left out as a whole, as the standard asks.
    pub(super) fn of(headers: &HeaderMap) -> Carried {
        let mut list = String::new();
        for value in headers.get_all("tracestate") {
            let Ok(value) = value.to_str() else {
                return Carried::default();
            };
            if !list.is_empty() {
                list.push(',');
            }
            list.push_str(value);
            if list.len() > MAX_TRACE_STATE {
                return Carried::default();
            }
        }
        if list.is_empty() {
            return Carried::default();
        }
        Carried(TraceState::from_str(&list).unwrap_or_default())
    }
}

/// Takes no more spans than may wait, and counts the others: the processor
/// within has the same bound and tells of it once.
#[derive(Debug)]
struct Bounded {
    inner: BatchSpanProcessor,
    spans: Spans,
    waiting: Arc<AtomicUsize>,
}

impl SpanProcessor for Bounded {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.inner.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.waiting.fetch_add(1, Ordering::Relaxed) < MAX_QUEUED {
            self.inner.on_end(span);
        } else {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.spans.dropped.inc();
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// Counts what the collector takes, and tells once that it takes nothing and
/// once that it does again.
#[derive(Debug)]
struct Exporter {
    inner: opentelemetry_otlp::SpanExporter,
    spans: Spans,
    waiting: Arc<AtomicUsize>,
    fails: AtomicBool,
}

impl SpanExporter for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        let exported = self.inner.export(batch).await;
        self.waiting.fetch_sub(count, Ordering::Relaxed);
        let failed = self.fails.swap(exported.is_err(), Ordering::Relaxed);
        match &exported {
            Ok(()) => {
                self.spans.sent.inc_by(count as u64);
                if failed {
                    tracing::info!("traces are sent again");
                }
            }
            Err(error) => {
                self.spans.failed.inc_by(count as u64);
                if !failed {
                    tracing::warn!(%error, "cannot send traces; calls are served on");
                }
            }
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// What OpenTelemetry's conventions for gRPC servers call an error: Unknown,
/// DeadlineExceeded, Unimplemented, Internal, Unavailable and DataLoss.
fn is_fault_of_server(code: usize) -> bool {
    matches!(code, 2 | 4 | 12 | 13 | 14 | 15)
}
