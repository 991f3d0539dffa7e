//! A call, as it is told of: counted, written to the log, and traced.
//!
//! All three are told when the call is over. For a stream that is its last
//! trailer, or the moment its client is gone.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

use super::limit::Limit;
use super::metrics::{
    CODES, CallMetrics, Calls, Life, LogLines, MethodName, Metrics, Raised, UNKNOWN,
};
#[cfg(feature = "otlp")]
use super::otlp::{Carried, Tracer};
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
/// The code of calls that the server cuts, as their clients see it.
const UNAVAILABLE: usize = 14;

/// Stands for no code.
const NO_CODE: usize = usize::MAX;

/// What `--call-log-rate` counts in.
const SECOND: Duration = Duration::from_secs(1);

/// What all calls of a server are told to.
#[derive(Debug)]
pub struct Observer {
    calls: Calls,
    life: Life,
    lines: LogLines,
    /// Whether all calls are cut that are left.
    cuts: AtomicBool,
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
            lines: metrics.log_lines().clone(),
            cuts: AtomicBool::new(false),
            well: Limit::new(lines_per_second, SECOND),
            badly: Limit::new(lines_per_second, SECOND),
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
        caller: &Arc<Caller>,
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
        let span = tracing::debug_span!(
            "call",
            method = metrics.path(),
            // As a string, which is quoted: a client may have chosen it.
            request_id = request_id.to_string(),
        );
        Observed {
            record: CallRecord(Arc::new(Record {
                metrics: Arc::clone(metrics),
                caller: Arc::clone(caller),
                request_id,
                boards: AtomicU64::new(0),
                code: AtomicUsize::new(NO_CODE),
            })),
            parent: TraceParent::of(headers),
            #[cfg(feature = "otlp")]
            carried: match &self.tracer {
                Some(_) => Carried::of(headers),
                None => Carried::default(),
            },
            began: Instant::now(),
            deadline,
            code: None,
            _running: Raised::new(&self.life.calls),
            span,
            observer: Arc::clone(self),
        }
    }

    /// All calls that are left are cut from now on: that they end without a
    /// status is not their clients' doing.
    pub fn cut(&self) {
        self.cuts.store(true, Ordering::Relaxed);
    }

    /// Tells in the log of the calls that were left out of it since the last
    /// time, if some were.
    pub fn tell_left_out(&self) {
        let left_out = self.well.left_out() + self.badly.left_out();
        if left_out > 0 {
            tracing::info!(target: "loyd::call", left_out, "calls that were not logged");
        }
    }
}

/// Who calls: the peer of a connection.
#[derive(Debug, Default)]
pub struct Caller {
    name: String,
    cuts: AtomicBool,
}

impl Caller {
    /// A peer that the log calls so.
    #[must_use]
    pub fn new(name: String) -> Caller {
        Caller {
            name,
            cuts: AtomicBool::new(false),
        }
    }

    /// The calls that it has left are cut from now on, as by [`Observer::cut`].
    pub fn cut(&self) {
        self.cuts.store(true, Ordering::Relaxed);
    }
}

/// A call, for those who work on it. Clones are of the same.
#[derive(Clone, Debug)]
pub struct CallRecord(Arc<Record>);

#[derive(Debug)]
struct Record {
    metrics: Arc<CallMetrics>,
    caller: Arc<Caller>,
    request_id: RequestId,
    /// Those that have had answers.
    boards: AtomicU64,
    /// What it ends with where its client does not take that.
    code: AtomicUsize,
}

impl CallRecord {
    /// So many more boards have had their answers.
    pub fn answered(&self, boards: u64) {
        self.0.boards.fetch_add(boards, Ordering::Relaxed);
    }

    /// The call was given up with this code, which its client may never read.
    pub fn given_up(&self, code: usize) {
        self.0.code.store(code, Ordering::Relaxed);
    }

    /// The path of its method.
    #[must_use]
    pub fn method(&self) -> &str {
        self.0.metrics.path()
    }

    /// Its peer, as the log has it.
    #[must_use]
    pub fn peer(&self) -> &str {
        &self.0.caller.name
    }

    /// What it is named by.
    #[must_use]
    pub fn request_id(&self) -> String {
        self.0.request_id.to_string()
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
    record: CallRecord,
    parent: Option<TraceParent>,
    #[cfg(feature = "otlp")]
    carried: Carried,
    began: Instant,
    deadline: Option<Instant>,
    code: Option<usize>,
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
    /// What those are given who work on it.
    #[must_use]
    pub fn record(&self) -> &CallRecord {
        &self.record
    }

    /// The counters of its method.
    #[must_use]
    pub fn metrics(&self) -> &Arc<CallMetrics> {
        &self.record.0.metrics
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

impl Observed {
    /// How it ended, where no status says so.
    fn code_without_status(&self) -> usize {
        let given_up = self.record.0.code.load(Ordering::Relaxed);
        if given_up != NO_CODE {
            return given_up;
        }
        // A client gives up at its deadline as well, and may be faster.
        if self
            .deadline
            .is_some_and(|deadline| deadline <= Instant::now())
        {
            return DEADLINE_EXCEEDED;
        }
        let cuts = [&self.observer.cuts, &self.record.0.caller.cuts];
        if cuts.iter().any(|cuts| cuts.load(Ordering::Relaxed)) {
            return UNAVAILABLE;
        }
        CANCELLED
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        let code = self.code.unwrap_or_else(|| self.code_without_status());
        self.metrics().ended(code, took);
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
        let has_line = is_logged && limit.take();
        if is_logged && !has_line {
            observer.lines.left_out.inc();
        }
        if !has_line && !is_traced {
            return;
        }
        let ended = Ended {
            method: self.record.method(),
            code,
            boards: self.record.0.boards.load(Ordering::Relaxed),
            took,
            peer: self.record.peer(),
            request_id: self.record.request_id(),
            parent: self.parent.as_ref(),
        };
        if has_line {
            ended.log();
        }
        #[cfg(feature = "otlp")]
        if let Some(tracer) = &observer.tracer {
            tracer.record(&ended, &self.carried);
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
