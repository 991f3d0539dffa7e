//! A call, as it is told of: counted, written to the log, and traced.
//!
//! All three are told when the call is over. For a stream that is its last
//! trailer, or the moment its client is gone.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

use super::limit::Limit;
use super::metrics::{CODES, CallMetrics, Calls, Life, MethodName, Metrics, Raised, UNKNOWN};
#[cfg(feature = "otlp")]
use super::otlp::Tracer;
use super::trace_parent::TraceParent;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest request id of a client that is taken: a UUID has 36 bytes, and a
/// longer one would only blow up the log.
const MAX_REQUEST_ID: usize = 128;

/// The numbers of codes that are told here.
const OK: usize = 0;
const CANCELLED: usize = 1;
const UNKNOWN_CODE: usize = 2;
const DEADLINE_EXCEEDED: usize = 4;

/// What all calls of a server are told to.
#[derive(Debug)]
pub struct Observer {
    calls: Calls,
    life: Life,
    /// Of calls that went well, and of the others: a flood of the one hides
    /// nothing of the other.
    well: Limit,
    badly: Limit,
    /// Makes request ids differ between processes.
    random: u32,
    next_id: AtomicU64,
    #[cfg(feature = "otlp")]
    tracer: Option<Tracer>,
}

impl Observer {
    /// Of calls of these methods. At most so many lines a second are logged of
    /// calls that end well, and as many of the others.
    #[must_use]
    pub fn new(metrics: &Metrics, methods: &[MethodName], lines_per_second: u32) -> Observer {
        Observer {
            calls: metrics.calls(methods),
            life: metrics.life().clone(),
            well: Limit::new(lines_per_second),
            badly: Limit::new(lines_per_second),
            random: u32::try_from(RandomState::new().hash_one(()) >> 32).unwrap_or(0),
            next_id: AtomicU64::new(0),
            #[cfg(feature = "otlp")]
            tracer: None,
        }
    }

    /// Also traces calls, where there is a tracer.
    #[cfg(feature = "otlp")]
    #[must_use]
    pub fn traced(mut self, tracer: Option<Tracer>) -> Observer {
        self.tracer = tracer;
        self
    }

    /// A call that begins with these headers. What is gone at `deadline` and
    /// was not answered, ended by it.
    #[must_use]
    pub fn begin(
        self: &Arc<Observer>,
        path: &str,
        headers: &HeaderMap,
        peer: &Arc<str>,
        deadline: Option<Instant>,
    ) -> Observed {
        let metrics = self.calls.of(path);
        metrics.begun();
        let request_id = match headers.get(REQUEST_ID) {
            Some(id) if id.len() <= MAX_REQUEST_ID && id.to_str().is_ok() && !id.is_empty() => {
                RequestId::Given(id.clone())
            }
            _ => RequestId::Own(self.random, self.next_id.fetch_add(1, Ordering::Relaxed)),
        };
        let span = tracing::debug_span!("call", method = metrics.path(), %request_id);
        Observed {
            request_id,
            peer: Arc::clone(peer),
            parent: TraceParent::of(headers),
            boards: Boards::default(),
            began: Instant::now(),
            deadline,
            code: None,
            metrics: Arc::clone(metrics),
            _running: Raised::new(&self.life.calls),
            span,
            observer: Arc::clone(self),
        }
    }

    fn tell_left_out(&self, left_out: u64) {
        if left_out > 0 {
            tracing::info!(target: "loyd::call", left_out, "calls that were not logged");
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.tell_left_out(self.well.left_out() + self.badly.left_out());
    }
}

/// The boards that a call has had answers to. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Boards(Arc<AtomicU64>);

impl Boards {
    /// Counts so many more.
    pub fn add(&self, boards: u64) {
        self.0.fetch_add(boards, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a call is named by in the log.
#[derive(Clone, Debug)]
enum RequestId {
    Given(HeaderValue),
    /// Random for the process, and counted.
    Own(u32, u64),
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestId::Given(id) => f.write_str(id.to_str().unwrap_or_default()),
            RequestId::Own(random, number) => write!(f, "{random:08x}-{number}"),
        }
    }
}

/// A call that is running. It is over when this is dropped.
#[derive(Debug)]
pub struct Observed {
    request_id: RequestId,
    peer: Arc<str>,
    parent: Option<TraceParent>,
    boards: Boards,
    began: Instant,
    deadline: Option<Instant>,
    code: Option<usize>,
    metrics: Arc<CallMetrics>,
    _running: Raised,
    span: tracing::Span,
    observer: Arc<Observer>,
}

/// A call that is over.
#[derive(Debug)]
pub(super) struct Ended<'a> {
    pub(super) method: &'a str,
    pub(super) code: usize,
    pub(super) boards: u64,
    pub(super) took: Duration,
    pub(super) peer: &'a str,
    pub(super) request_id: String,
    pub(super) parent: Option<&'a TraceParent>,
}

impl Observed {
    /// Counts the boards of this call.
    #[must_use]
    pub fn boards(&self) -> &Boards {
        &self.boards
    }

    /// The counters of its method.
    #[must_use]
    pub fn metrics(&self) -> &Arc<CallMetrics> {
        &self.metrics
    }

    /// The span that its work belongs to.
    #[must_use]
    pub fn span(&self) -> &tracing::Span {
        &self.span
    }

    /// Takes the status from headers or trailers, where it is there.
    pub fn read_status(&mut self, headers: &HeaderMap) {
        if let Some(status) = headers.get(STATUS) {
            let code = status.to_str().ok().and_then(|code| code.parse().ok());
            self.code = Some(
                code.filter(|code| *code < CODES.len())
                    .unwrap_or(UNKNOWN_CODE),
            );
        }
    }

    /// The response came to its end, with a status or without.
    pub fn complete(&mut self) {
        self.code.get_or_insert(UNKNOWN_CODE);
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        let code = self.code.unwrap_or_else(|| match self.deadline {
            // A client gives up at its deadline as well, and may be faster.
            Some(deadline) if deadline <= Instant::now() => DEADLINE_EXCEEDED,
            _ => CANCELLED,
        });
        self.metrics.ended(code, took);
        let _entered = self.span.enter();
        let observer = &self.observer;
        let limit = if code == OK {
            &observer.well
        } else {
            &observer.badly
        };
        #[cfg(feature = "otlp")]
        let is_traced = observer.tracer.is_some();
        #[cfg(not(feature = "otlp"))]
        let is_traced = false;
        let is_logged = tracing::enabled!(target: "loyd::call", tracing::Level::INFO);
        let line = if is_logged { limit.take() } else { None };
        if line.is_none() && !is_traced {
            return;
        }
        let ended = Ended {
            method: self.metrics.path(),
            code,
            boards: self.boards.get(),
            took,
            peer: &self.peer,
            request_id: self.request_id.to_string(),
            parent: self.parent.as_ref(),
        };
        if let Some(left_out) = line {
            observer.tell_left_out(left_out);
            ended.log();
        }
        #[cfg(feature = "otlp")]
        if let Some(tracer) = &observer.tracer {
            tracer.record(&ended);
        }
    }
}

impl Ended<'_> {
    pub(super) fn code_name(&self) -> &'static str {
        CODES.get(self.code).copied().unwrap_or(UNKNOWN)
    }

    fn log(&self) {
        let trace = self
            .parent
            .map(|parent| tracing::field::display(parent.trace_id()));
        tracing::info!(
            target: "loyd::call",
            method = self.method,
            code = self.code_name(),
            boards = self.boards,
            seconds = self.took.as_secs_f64(),
            peer = self.peer,
            request_id = self.request_id,
            trace_id = trace,
            "call"
        );
    }
}
