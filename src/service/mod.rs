//! The gRPC face of the engine. It knows no sockets.
//!
//! A board's way through: request (`solve` or `batch`) -> [`Problem`]
//! (`convert`) -> a compute thread (`compute`) -> a method of
//! [`search`](crate::search) -> wire (`convert`).
//!
//! [`Problem`]: crate::puzzle::Problem

mod batch;
mod call;
mod company;
mod compression;
mod compute;
mod convert;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
#[cfg(feature = "panic-injection")]
mod panic_injection;
mod parts;
mod queue;
mod size_limit;
mod solve;
mod stall;
mod tally;

use std::io;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use tonic::{Request, Response, Status, Streaming};

use crate::puzzle::Shape;
use crate::search::{Method, goal_table};
use crate::telemetry::Metrics;
use crate::wire::v1::solver_service_server::{SolverService, SolverServiceServer};
use crate::wire::v1::{SolveBatchRequest, SolveRequest, SolveResponse};
use compute::Compute;
use tally::Tallies;

pub use call::Deadline;
pub use compression::{Compression, ENCODINGS};
pub use size_limit::SizeLimit;
pub(crate) use size_limit::too_large;
pub use stall::EndStalled;
pub(crate) use stall::Sent;

/// The service's name in health checks and reflection.
pub const NAME: &str = "loyd.v1.SolverService";

/// What reflection tells of the service: its contract, and the types of the
/// details of its errors.
pub const DESCRIPTOR_SETS: &[&[u8]] = &[
    crate::wire::DESCRIPTOR_SET,
    tonic_types::pb::FILE_DESCRIPTOR_SET,
];

/// The most bytes of a request message that are read: 4 MiB, the limit that
/// gRPC libraries agree on.
pub const MAX_REQUEST_BYTES: usize = 4 << 20;

/// What an operator decides about solving.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The method where a request names none.
    pub default_method: Method,
    /// The most states to expand for a board, whatever a request says.
    pub max_expanded: NonZeroU64,
    /// The most boards of a message in packed form.
    pub max_packed_boards: usize,
    /// The most boards of a message in list form.
    pub max_list_boards: usize,
    /// The number of threads that solve.
    pub compute_threads: NonZeroUsize,
    /// How much expected work may wait for those threads, in the time that one
    /// of them would take for it. Over it unary calls are refused at once, and
    /// streams wait.
    pub queued_work: Duration,
    /// The most messages of a stream that are being solved or wait for their
    /// turn to be answered, and the most pieces that they are cut into: how many
    /// threads one stream keeps busy.
    pub messages_in_flight: NonZeroUsize,
    /// How much such messages may take until no other is read beside them.
    pub bytes_in_flight: NonZeroUsize,
    /// How long the answers of a stream may stay unread before it is ended.
    pub stall_timeout: Duration,
    /// Whether every answer is compressed that its client can read compressed,
    /// and not only those to compressed requests.
    pub compress_responses: bool,
    /// What is counted.
    pub metrics: Metrics,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            default_method: Method::BidirectionalBfs,
            // No method expands a state of a nine-cell board twice, so this
            // only bounds what larger boards could cost.
            max_expanded: NonZeroU64::MIN.saturating_add(10_000_000 - 1),
            max_packed_boards: 65_536,
            max_list_boards: 16_384,
            compute_threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            // A client that waits longer is better served by another replica.
            queued_work: Duration::from_secs(1),
            // Keeps a few threads busy.
            messages_in_flight: NonZeroUsize::MIN.saturating_add(8 - 1),
            // Two of the largest messages: one is solved, one is ready.
            bytes_in_flight: NonZeroUsize::MIN.saturating_add(2 * MAX_REQUEST_BYTES - 1),
            // Longer than a consumer's hiccup, short enough to free what it holds.
            stall_timeout: Duration::from_secs(60),
            compress_responses: false,
            metrics: Metrics::new(),
        }
    }
}

/// `loyd.v1.SolverService`.
#[derive(Clone)]
pub struct Solver {
    settings: Arc<Settings>,
    compute: Arc<Compute>,
    tallies: Arc<Tallies>,
}

impl Solver {
    /// Starts the compute threads, which end when the last clone is dropped.
    ///
    /// # Errors
    /// Where the system refuses a thread.
    pub fn start(settings: Settings) -> io::Result<Solver> {
        let work = settings.metrics.work().clone();
        let compute = Compute::start(settings.compute_threads, settings.queued_work, work)?;
        Ok(Solver {
            tallies: Arc::new(Tallies::new(&settings.metrics)),
            settings: Arc::new(settings),
            compute: Arc::new(compute),
        })
    }

    /// Builds every goal table there may be, so that the first request that
    /// needs one does not wait for it: 41 tables, about 20 MB.
    pub fn warm(&self) {
        for shape in Shape::ALL {
            (0..shape.cells()).for_each(|goal_blank| goal_table::warm(shape, goal_blank));
        }
    }

    /// The tower service, with what is not the handlers' own: limits, and how
    /// messages are compressed. A compressed message is measured both as it came
    /// and as it is read.
    pub fn into_server(self) -> Compression<SizeLimit<EndStalled<SolverServiceServer<Solver>>>> {
        let always = self.settings.compress_responses;
        let timeout = self.settings.stall_timeout;
        let inner = ENCODINGS.iter().fold(
            SolverServiceServer::new(self).max_decoding_message_size(MAX_REQUEST_BYTES),
            |server, &encoding| server.accept_compressed(encoding).send_compressed(encoding),
        );
        let inner = SizeLimit::new(EndStalled { inner, timeout });
        Compression { inner, always }
    }
}

#[tonic::async_trait]
impl SolverService for Solver {
    async fn solve(
        &self,
        request: Request<SolveRequest>,
    ) -> Result<Response<SolveResponse>, Status> {
        let response = solve::solve(self, request).await?;
        Ok(Response::new(response))
    }

    type SolveBatchStream = batch::Answers;

    async fn solve_batch(
        &self,
        request: Request<Streaming<SolveBatchRequest>>,
    ) -> Result<Response<Self::SolveBatchStream>, Status> {
        // Returning the stream at once sends the headers before the first
        // message is read: some clients write nothing until they came.
        Ok(Response::new(batch::answers(self, request)))
    }
}
