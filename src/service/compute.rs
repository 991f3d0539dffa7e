//! Where searches run.
//!
//! A search never blocks the async executor: work is cut into pieces, and a
//! piece goes to a fixed pool of compute threads behind a bounded queue. Only
//! a piece that is expected to cost less than the way there and back runs
//! where it is.

use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::error::Fault;
use super::queue::{FairQueue, Lane};
use crate::puzzle::Problem;
use crate::search::{
    self, Budget, Heuristic, Method, SearchOptions, Solution, Workspace, WorkspacePool,
};
use crate::telemetry::metrics::{Raised, Work};

/// What a piece of a batch should cost: long against the 75 us that it takes
/// to wake a sleeping thread and be woken again, short against what a call in
/// another stream may wait.
const PIECE: Duration = Duration::from_millis(1);

/// What may run on the executor itself: a little more than a thread's wake-up,
/// and no more than other calls on that executor do not notice.
const INLINE: Duration = Duration::from_micros(150);

/// The most boards of a piece, however cheap they are: bounds what a piece's
/// answers take.
const MAX_PIECE_BOARDS: usize = 4096;

/// What a board costs on average, as measured by `benches/search`; only the
/// order of magnitude matters.
fn cost_of_board(options: &SearchOptions) -> Duration {
    match (options.method, options.heuristic) {
        (Method::GoalTable, _) => Duration::from_nanos(100),
        (Method::BidirectionalBfs | Method::GreedyBestFirst, _) => Duration::from_micros(8),
        (Method::AStar, Heuristic::MisplacedTiles) => Duration::from_micros(400),
        (Method::AStar, Heuristic::Manhattan | Heuristic::LinearConflict) => {
            Duration::from_micros(25)
        }
        (Method::Bfs, _) => Duration::from_micros(160),
    }
}

/// How many boards make a piece.
pub(super) fn piece_boards(options: &SearchOptions) -> usize {
    let boards = PIECE.as_nanos() / cost_of_board(options).as_nanos().max(1);
    let boards = usize::try_from(boards)
        .unwrap_or(MAX_PIECE_BOARDS)
        .min(MAX_PIECE_BOARDS);
    // Batches come in powers of two: no rest of a few boards.
    boards.next_power_of_two()
}

/// What so many boards are expected to cost.
pub(super) fn expected_cost(options: &SearchOptions, boards: usize) -> Duration {
    cost_of_board(options).saturating_mul(u32::try_from(boards).unwrap_or(u32::MAX))
}

/// Whether work of this cost runs where the request was read.
pub(super) fn is_inline(cost: Duration) -> bool {
    cost <= INLINE
}

/// A cost in units of the admission limit: microseconds of one thread.
fn units(cost: Duration) -> u32 {
    u32::try_from(cost.as_micros()).unwrap_or(u32::MAX).max(1)
}

type Job = Box<dyn FnOnce(&mut Workspace) + Send>;

/// The compute threads, and how much may wait for them.
pub(super) struct Compute {
    queue: Arc<FairQueue<Job>>,
    admission: Arc<Semaphore>,
    /// All that the admission holds: a piece that costs more takes it all.
    most_units: u32,
    /// For what runs elsewhere than on those threads.
    workspaces: WorkspacePool,
    /// What is counted of all this.
    work: Work,
}

impl Compute {
    /// Starts the threads; they end when the `Compute` is dropped. Work that
    /// is expected to take a thread `queued_work` may wait for all of them.
    pub(super) fn start(
        threads: NonZeroUsize,
        queued_work: Duration,
        work: Work,
    ) -> io::Result<Compute> {
        let most_units = units(queued_work);
        let compute = Compute {
            queue: Arc::new(FairQueue::new()),
            admission: Arc::new(Semaphore::new(most_units.try_into().unwrap_or(1))),
            most_units,
            workspaces: WorkspacePool::new(),
            work,
        };
        for number in 0..threads.get() {
            let queue = Arc::clone(&compute.queue);
            let work = compute.work.clone();
            work.threads.inc();
            thread::Builder::new()
                .name(format!("loyd-compute-{number}"))
                .spawn(move || {
                    // The thread's own: another thread's would be in the caches
                    // of another core.
                    let mut workspace = Workspace::new();
                    while let Some(job) = queue.pop() {
                        let _busy = Raised::new(&work.busy);
                        // A panic ends the piece, whose caller sees its answer
                        // dropped, and not the thread.
                        if guarded(|| job(&mut workspace)).is_err() {
                            workspace = Workspace::new();
                        }
                    }
                })?;
        }
        Ok(compute)
    }

    /// Runs `work` on a compute thread, in the turn of its lane. Waits while
    /// too much is queued, so that a stream slows down instead of failing.
    ///
    /// # Errors
    /// [`Fault::Internal`] where `work` panicked.
    pub(super) async fn run<T, W>(&self, lane: Lane, cost: Duration, work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnOnce(&mut Workspace) -> T + Send + 'static,
    {
        let units = units(cost).min(self.most_units);
        let admitted = Arc::clone(&self.admission)
            .acquire_many_owned(units)
            .await
            .map_err(|_| Fault::Internal)?;
        self.queue_and_wait(lane, admitted, work).await
    }

    /// Runs `work` for a caller that would rather ask another server than wait
    /// behind too much work: here where that is cheaper, else on a compute
    /// thread.
    ///
    /// # Errors
    /// [`Fault::Overloaded`] where too much is queued, [`Fault::Internal`]
    /// where `work` panicked.
    pub(super) async fn run_now<T, W>(&self, cost: Duration, work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnOnce(&mut Workspace) -> T + Send + 'static,
    {
        let units = units(cost).min(self.most_units);
        let overloaded = || {
            self.work.shed.inc();
            Fault::Overloaded
        };
        if is_inline(cost) {
            // It waits for nothing, so it needs to hold nothing.
            if self.admission.available_permits() < units as usize {
                return Err(overloaded());
            }
            return self.run_here(work);
        }
        let admitted = Arc::clone(&self.admission)
            .try_acquire_many_owned(units)
            .map_err(|_| overloaded())?;
        self.queue_and_wait(Lane::new(), admitted, work).await
    }

    /// Runs `work` on this thread.
    ///
    /// # Errors
    /// [`Fault::Internal`] where `work` panicked.
    pub(super) fn run_here<T>(&self, work: impl FnOnce(&mut Workspace) -> T) -> Result<T, Fault> {
        guarded(|| work(&mut self.workspaces.lease()))
    }

    async fn queue_and_wait<T, W>(
        &self,
        lane: Lane,
        admitted: OwnedSemaphorePermit,
        work: W,
    ) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnOnce(&mut Workspace) -> T + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let queued = Raised::new(&self.work.queued);
        let job = move |workspace: &mut Workspace| {
            drop(queued);
            let done = work(workspace);
            drop(admitted);
            // Nobody may be left to hear it, which is theirs to decide.
            let _ = answer.send(done);
        };
        self.queue.push(lane, Box::new(job));
        answered.await.map_err(|_| Fault::Internal)
    }
}

impl Drop for Compute {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// Runs `work`. A workspace that saw a panic is to be thrown away, which a lease
/// does by itself.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        tracing::error!("a search panicked; its boards are answered with an internal error");
        Fault::Internal
    })
}

/// Solves one board. A panic costs this board's answer and nothing else.
///
/// # Errors
/// [`Fault::Interrupted`] where the budget ended, [`Fault::Internal`] where
/// the search panicked; `moves` is as it was.
#[inline]
pub(super) fn solve_board(
    workspace: &mut Workspace,
    problem: &Problem,
    options: &SearchOptions,
    budget: &Budget<'_>,
    moves: &mut String,
) -> Result<Solution, Fault> {
    let before = moves.len();
    let solved = catch_unwind(AssertUnwindSafe(|| {
        #[cfg(feature = "panic-injection")]
        super::panic_injection::panic_at(problem.start());
        search::solve(workspace, problem, options, budget, moves)
    }));
    match solved {
        Ok(found) => Ok(found?),
        Err(_) => {
            tracing::error!(?options, "a search panicked");
            // A client's board is none of the log's business, unless asked for.
            tracing::debug!(?problem, "it was this one");
            *workspace = Workspace::new();
            moves.truncate(before);
            Err(Fault::Internal)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use futures_util::FutureExt;
    use futures_util::future::join_all;

    use super::*;
    use crate::telemetry::Metrics;

    /// Counted, and not timed: one thread, and all that waits for it.
    #[tokio::test]
    async fn a_short_batch_waits_for_at_most_one_more_piece_of_a_long_one() {
        let compute = Compute::start(
            NonZeroUsize::MIN,
            Duration::from_secs(10),
            Metrics::new().work().clone(),
        )
        .unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let (open, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(Some(gate));
        let (long, short) = (Lane::new(), Lane::new());
        let mut waiting: Vec<_> = [[long; 8].as_slice(), &[short]]
            .concat()
            .into_iter()
            .map(|lane| {
                let order = Arc::clone(&order);
                // The first is running while the others are queued.
                let gate = gate.lock().unwrap().take();
                let work = move |_: &mut Workspace| {
                    gate.map(|gate| gate.recv());
                    order.lock().unwrap().push(lane);
                };
                Box::pin(compute.run(lane, PIECE, work))
            })
            .collect();
        for piece in &mut waiting {
            assert!(piece.now_or_never().is_none(), "it is only queued");
        }
        open.send(()).unwrap();
        assert!(join_all(waiting).await.into_iter().all(|done| done.is_ok()));
        let order = order.lock().unwrap();
        let before = order.iter().position(|lane| *lane == short);
        // The one that was running, and one turn.
        assert!(before.unwrap() <= 2, "{order:?}");
    }
}
