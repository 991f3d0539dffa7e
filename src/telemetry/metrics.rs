//! Every metric there is: its name, what it says, and how it is counted.
//!
//! Whoever counts holds handles that were looked up before: counting is an
//! atomic addition for a call, a frame or a piece of work, never for a board.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus::core::Collector;
use prometheus::local::LocalHistogram;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
    TextEncoder,
};

use super::log;
use super::process::Process;

/// The labels of a call.
const CALL: [&str; 3] = ["grpc_type", "grpc_service", "grpc_method"];
const CALL_AND_CODE: [&str; 4] = ["grpc_type", "grpc_service", "grpc_method", "grpc_code"];

/// The label of what is not served here: clients choose the names of methods,
/// and must not make a series each.
pub const UNKNOWN: &str = "unknown";

/// The names of the status codes, each at its number.
pub const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// The number of the code that stands for those that no one knows.
const CODE_UNKNOWN: usize = 2;

/// What can come of a board.
pub const OUTCOMES: [&str; 4] = ["solved", "unsolvable", "limit_reached", "error"];

/// From a call that is answered where it is read to a stream of ten minutes.
const CALL_SECONDS: [f64; 14] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 10.0, 60.0, 600.0,
];

/// From a look into a table to the slowest method's worst board.
const RUN_SECONDS: [f64; 10] = [
    0.000_001, 0.000_004, 0.000_016, 0.000_064, 0.000_256, 0.001, 0.004, 0.016, 0.064, 0.256,
];

/// From none to more than there are states of nine cells.
const RUN_STATES: [f64; 10] = [
    0.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
];

/// All metrics of a server. Clones count together.
#[derive(Clone)]
pub struct Metrics(Arc<All>);

struct All {
    registry: Registry,
    process: Mutex<Process>,
    started: IntCounterVec,
    handled: IntCounterVec,
    received: IntCounterVec,
    sent: IntCounterVec,
    seconds: HistogramVec,
    boards: IntCounterVec,
    run_seconds: HistogramVec,
    run_states: HistogramVec,
    life: Life,
    work: Work,
    log_lines: LogLines,
    #[cfg(feature = "otlp")]
    spans: Spans,
}

/// Of the server's life and its connections.
#[derive(Clone, Debug)]
pub struct Life {
    /// 1 while health says so.
    pub serving: IntGauge,
    /// 1 from the beginning of a drain on.
    pub draining: IntGauge,
    /// Open connections.
    pub connections: IntGauge,
    /// Connections that were accepted.
    pub accepted: IntCounter,
    /// Connections that were one too many.
    pub refused: IntCounter,
    /// Times that a connection could not be accepted.
    pub accept_errors: IntCounter,
    /// Connections of the operator's that were closed for others.
    pub admin_closed: IntCounter,
    /// Calls that are running.
    pub calls: IntGauge,
}

/// Of the log.
#[derive(Clone, Debug)]
pub struct LogLines {
    /// Calls that were not logged.
    pub left_out: IntCounter,
    /// Lines that nobody read in time.
    lost: IntCounter,
}

/// Of the spans of calls.
#[cfg(feature = "otlp")]
#[derive(Clone, Debug)]
pub struct Spans {
    /// Spans that the collector took.
    pub sent: IntCounter,
    /// Spans that it did not take.
    pub failed: IntCounter,
    /// Spans that there was no room for.
    pub dropped: IntCounter,
}

/// Of the compute threads and the queue before them.
#[derive(Clone, Debug)]
pub struct Work {
    /// Pieces of work that wait for a thread.
    pub queued: IntGauge,
    /// Threads that are at work.
    pub busy: IntGauge,
    /// All threads.
    pub threads: IntGauge,
    /// Calls that were refused for too much work.
    pub shed: IntCounter,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// Metrics that have counted nothing.
    #[must_use]
    pub fn new() -> Metrics {
        let registry = Registry::new();
        let all = Describe(&registry);
        let build = all.int_gauges(
            "loyd_build_info",
            "What is running, in the labels; always 1.",
            &["version", "os", "arch"],
        );
        build
            .with_label_values(&[
                env!("CARGO_PKG_VERSION"),
                std::env::consts::OS,
                std::env::consts::ARCH,
            ])
            .set(1);
        let all = All {
            process: Mutex::new(Process::new(&registry)),
            started: all.counters("grpc_server_started_total", "Calls that were begun.", &CALL),
            handled: all.counters(
                "grpc_server_handled_total",
                "Calls that ended, by their status; a stream counts when it ends, a call whose client \
                 is gone as Canceled, and one that the server cuts as Unavailable.",
                &CALL_AND_CODE,
            ),
            received: all.counters(
                "grpc_server_msg_received_total",
                "Messages that were received whole and read.",
                &CALL,
            ),
            sent: all.counters(
                "grpc_server_msg_sent_total",
                "Messages that were handed to the connection.",
                &CALL,
            ),
            seconds: all.histograms(
                "grpc_server_handling_seconds",
                "How long calls took, from their headers to their last byte; a stream as long as \
                 it was open.",
                &CALL,
                &CALL_SECONDS,
            ),
            boards: all.counters(
                "loyd_boards_total",
                "Boards that were searched or refused, by what came of them. Those of a message \
                 or a call that was refused as a whole are not counted.",
                &["algorithm", "outcome"],
            ),
            run_seconds: all.histograms(
                "loyd_solve_seconds",
                "How long runs of searches took. A run is one board of Solve, or a piece of a \
                 batch: about a millisecond of expected work. Fewer than 16 look-ups in a \
                 table take less than a microsecond and are no run. The mean for a board is \
                 the sum over loyd_boards_total.",
                &["algorithm"],
                &RUN_SECONDS,
            ),
            run_states: all.histograms(
                "loyd_expanded_states",
                "States that such runs expanded. The mean for a board is the sum over \
                 loyd_boards_total.",
                &["algorithm"],
                &RUN_STATES,
            ),
            life: Life {
                serving: all.gauge(
                    "loyd_serving",
                    "1 while health says SERVING and /readyz is 200, else 0.",
                ),
                draining: all.gauge(
                    "loyd_draining",
                    "1 from the signal to stop on, drain delay included, else 0.",
                ),
                connections: all.gauge("loyd_connections", "Open connections."),
                accepted: all.counter(
                    "loyd_connections_accepted_total",
                    "Connections that were accepted and served.",
                ),
                refused: all.counter(
                    "loyd_connections_refused_total",
                    "Connections that were closed at once, being more than --max-connections.",
                ),
                accept_errors: all.counter(
                    "loyd_accept_errors_total",
                    "Times that the system refused to accept a connection, mostly since too many \
                     files were open.",
                ),
                admin_closed: all.counter(
                    "loyd_admin_connections_closed_total",
                    "Connections to --admin-listen that were closed for newer ones, being the \
                     oldest of too many.",
                ),
                calls: all.gauge(
                    "loyd_calls_in_flight",
                    "Calls that are running: an open stream is one.",
                ),
            },
            work: Work {
                queued: all.gauge(
                    "loyd_queue_depth",
                    "Pieces of work that wait for a compute thread.",
                ),
                busy: all.gauge(
                    "loyd_compute_threads_busy",
                    "Compute threads that are searching.",
                ),
                threads: all.gauge("loyd_compute_threads", "Compute threads."),
                shed: all.counter(
                    "loyd_shed_total",
                    "Calls of Solve that were refused with UNAVAILABLE, since more work than \
                     --queued-work was waiting.",
                ),
            },
            log_lines: LogLines {
                left_out: all.counter(
                    "loyd_calls_not_logged_total",
                    "Calls that have no line in the log, being more than --call-log-rate.",
                ),
                lost: all.counter(
                    "loyd_log_lines_lost_total",
                    "Lines of the log that are missing there, since standard error was not read \
                     or not writable.",
                ),
            },
            #[cfg(feature = "otlp")]
            spans: {
                let spans = all.counters(
                    "loyd_spans_total",
                    "Spans of calls by what came of them: sent, failed (the collector did not \
                     take them), or dropped (too many were waiting for it).",
                    &["outcome"],
                );
                Spans {
                    sent: spans.with_label_values(&["sent"]),
                    failed: spans.with_label_values(&["failed"]),
                    dropped: spans.with_label_values(&["dropped"]),
                }
            },
            registry,
        };
        Metrics(Arc::new(all))
    }

    /// Of the server's life.
    #[must_use]
    pub fn life(&self) -> &Life {
        &self.0.life
    }

    /// Of the compute threads.
    #[must_use]
    pub fn work(&self) -> &Work {
        &self.0.work
    }

    /// Of the log.
    #[must_use]
    pub fn log_lines(&self) -> &LogLines {
        &self.0.log_lines
    }

    /// Of the traces.
    #[cfg(feature = "otlp")]
    #[must_use]
    pub fn spans(&self) -> &Spans {
        &self.0.spans
    }

    /// The counters of these methods.
    #[must_use]
    pub fn calls(&self, methods: &[MethodName]) -> Calls {
        let of = |path: &str, labels: [&str; 3]| {
            let all = &self.0;
            let [kind, service, method] = labels;
            let handled = CODES.map(|code| {
                all.handled
                    .with_label_values(&[kind, service, method, code])
            });
            Arc::new(CallMetrics {
                path: path.to_owned(),
                takes_one: matches!(kind, "unary" | "server_stream"),
                started: all.started.with_label_values(&labels),
                handled,
                received: all.received.with_label_values(&labels),
                sent: all.sent.with_label_values(&labels),
                seconds: all.seconds.with_label_values(&labels),
            })
        };
        Calls {
            known: methods
                .iter()
                .map(|name| {
                    let labels = [name.kind, name.service.as_str(), name.method.as_str()];
                    let path = format!("/{}/{}", name.service, name.method);
                    let metrics = of(&path, labels);
                    (path, metrics)
                })
                .collect(),
            unknown: of(UNKNOWN, [UNKNOWN; 3]),
        }
    }

    /// The counters of the searches of a method.
    #[must_use]
    pub fn searches(&self, algorithm: &str) -> Searches {
        let all = &self.0;
        Searches {
            boards: OUTCOMES.map(|outcome| all.boards.with_label_values(&[algorithm, outcome])),
            seconds: all.run_seconds.with_label_values(&[algorithm]),
            states: all.run_states.with_label_values(&[algorithm]),
        }
    }

    /// All of them as Prometheus reads them.
    ///
    /// # Errors
    /// Where they can't be written as text.
    pub fn render(&self) -> Result<String, prometheus::Error> {
        // Held, so that what is added up here is added once.
        let mut process = self
            .0
            .process
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        process.update();
        let lost = &self.0.log_lines.lost;
        lost.inc_by(log::lost().saturating_sub(lost.get()));
        drop(process);
        TextEncoder::new().encode_to_string(&self.0.registry.gather())
    }
}

/// A method that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodName {
    /// `unary`, `client_stream`, `server_stream` or `bidi_stream`.
    pub kind: &'static str,
    /// Its service, with the package.
    pub service: String,
    /// Its own name.
    pub method: String,
}

/// The counters of all methods.
#[derive(Debug)]
pub struct Calls {
    known: HashMap<String, Arc<CallMetrics>>,
    unknown: Arc<CallMetrics>,
}

impl Calls {
    /// The counters of the method at this path.
    #[must_use]
    pub fn of(&self, path: &str) -> &Arc<CallMetrics> {
        self.known.get(path).unwrap_or(&self.unknown)
    }
}

/// The counters of a method.
#[derive(Debug)]
pub struct CallMetrics {
    path: String,
    takes_one: bool,
    started: IntCounter,
    handled: [IntCounter; CODES.len()],
    received: IntCounter,
    sent: IntCounter,
    seconds: Histogram,
}

impl CallMetrics {
    /// The method's path, or [`UNKNOWN`]: a client's own words go no further.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether a request of the method is one message.
    #[must_use]
    pub fn takes_one(&self) -> bool {
        self.takes_one
    }

    /// Counts a call that begins.
    pub fn begun(&self) {
        self.started.inc();
    }

    /// Counts a call that ended.
    pub fn ended(&self, code: usize, took: Duration) {
        if let Some(handled) = self.handled.get(code).or(self.handled.get(CODE_UNKNOWN)) {
            handled.inc();
        }
        self.seconds.observe(took.as_secs_f64());
    }

    /// Counts messages that were received.
    pub fn received(&self, messages: u64) {
        self.received.inc_by(messages);
    }

    /// Counts messages that were sent.
    pub fn sent(&self, messages: u64) {
        self.sent.inc_by(messages);
    }
}

/// The counters of a method's searches.
#[derive(Clone, Debug)]
pub struct Searches {
    boards: [IntCounter; OUTCOMES.len()],
    seconds: Histogram,
    states: Histogram,
}

/// What came of a run: some boards that were searched one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// How many boards came to each of [`OUTCOMES`].
    pub outcomes: [u64; OUTCOMES.len()],
    /// The states expanded for all of them.
    pub expanded: u64,
    /// How long it took; zero where that was too short to be timed.
    pub elapsed: Duration,
}

impl Run {
    /// Tells the histograms of runs, to which what is not timed is none.
    fn observe(&self, seconds: impl FnOnce(f64), states: impl FnOnce(f64)) {
        if !self.elapsed.is_zero() {
            seconds(self.elapsed.as_secs_f64());
            // Above 2^53 it would be off by less than a millionth.
            states(self.expanded as f64);
        }
    }

    /// Makes one run of two.
    pub fn add(&mut self, other: &Run) {
        for (sum, boards) in self.outcomes.iter_mut().zip(other.outcomes) {
            *sum += boards;
        }
        self.expanded += other.expanded;
        self.elapsed += other.elapsed;
    }
}

impl Searches {
    /// Counts a run.
    pub fn ran(&self, run: &Run) {
        for (counter, boards) in self.boards.iter().zip(run.outcomes) {
            // Not to write to what other threads write to, for nothing.
            if boards > 0 {
                counter.inc_by(boards);
            }
        }
        run.observe(
            |seconds| self.seconds.observe(seconds),
            |states| self.states.observe(states),
        );
    }

    /// Counters for one task, that [`LocalSearches::tell`] adds to these.
    #[must_use]
    pub fn local(&self) -> LocalSearches {
        LocalSearches {
            shared: self.clone(),
            boards: [0; OUTCOMES.len()],
            seconds: self.seconds.local(),
            states: self.states.local(),
        }
    }
}

/// What one task has counted of a method's searches. Dropped, it tells.
#[derive(Debug)]
pub struct LocalSearches {
    shared: Searches,
    boards: [u64; OUTCOMES.len()],
    seconds: LocalHistogram,
    states: LocalHistogram,
}

impl LocalSearches {
    /// Counts a run.
    pub fn ran(&mut self, run: &Run) {
        for (sum, boards) in self.boards.iter_mut().zip(run.outcomes) {
            *sum += boards;
        }
        run.observe(
            |seconds| self.seconds.observe(seconds),
            |states| self.states.observe(states),
        );
    }

    /// Adds what was counted to the shared counters.
    pub fn tell(&mut self) {
        for (counter, boards) in self.shared.boards.iter().zip(&mut self.boards) {
            // Not to write to what other threads write to, for nothing.
            if *boards > 0 {
                counter.inc_by(std::mem::take(boards));
            }
        }
        self.seconds.flush();
        self.states.flush();
    }
}

impl Drop for LocalSearches {
    fn drop(&mut self) {
        self.tell();
    }
}

/// A gauge that is higher by one until this is dropped.
#[derive(Debug)]
pub struct Raised(IntGauge);

impl Raised {
    /// Raises a gauge.
    #[must_use]
    pub fn new(gauge: &IntGauge) -> Raised {
        gauge.inc();
        Raised(gauge.clone())
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Makes and registers metrics.
pub(super) struct Describe<'a>(pub(super) &'a Registry);

#[allow(
    clippy::expect_used,
    reason = "names and labels are literals, and every test and start makes them all"
)]
impl Describe<'_> {
    pub(super) fn registered<C: Collector + Clone + 'static>(
        &self,
        made: prometheus::Result<C>,
    ) -> C {
        let collector = made.expect("a metric's name is valid");
        self.0
            .register(Box::new(collector.clone()))
            .expect("a metric is described once");
        collector
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.registered(IntCounter::new(name, help))
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.registered(IntGauge::new(name, help))
    }

    fn int_gauges(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::IntGaugeVec {
        self.registered(prometheus::IntGaugeVec::new(Opts::new(name, help), labels))
    }

    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.registered(IntCounterVec::new(Opts::new(name, help), labels))
    }

    fn histograms(&self, name: &str, help: &str, labels: &[&str], buckets: &[f64]) -> HistogramVec {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.registered(HistogramVec::new(options, labels))
    }
}
