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

use tokio::sync::oneshot;

use super::error::Fault;
use crate::puzzle::Problem;
use crate::search::{self, Budget, Method, SearchOptions, Solution, Workspace, WorkspacePool};

/// The most pieces that wait for a compute thread, for each thread: enough to
/// keep it busy while a stream's task is woken, few enough that a new piece
/// waits for milliseconds.
const QUEUE_PER_THREAD: usize = 32;

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
fn cost(method: Method) -> Duration {
    match method {
        Method::GoalTable => Duration::from_nanos(100),
        Method::BidirectionalBfs => Duration::from_micros(8),
        Method::GreedyBestFirst => Duration::from_micros(10),
        Method::AStar => Duration::from_micros(50),
        Method::Bfs => Duration::from_millis(1),
    }
}

/// How many boards make a piece.
pub(super) fn piece_boards(method: Method) -> usize {
    let boards = PIECE.as_nanos() / cost(method).as_nanos().max(1);
    let boards = usize::try_from(boards)
        .unwrap_or(MAX_PIECE_BOARDS)
        .min(MAX_PIECE_BOARDS);
    // Batches come in powers of two: no rest of a few boards.
    boards.next_power_of_two()
}

/// Whether so many boards are solved where the request was read.
fn is_inline(method: Method, boards: usize) -> bool {
    let boards = u32::try_from(boards).unwrap_or(u32::MAX);
    cost(method).saturating_mul(boards) <= INLINE
}

type Job = Box<dyn FnOnce(&mut Workspace) + Send>;

/// The compute threads.
pub(super) struct Compute {
    queue: async_channel::Sender<Job>,
    workspaces: Arc<WorkspacePool>,
}

impl Compute {
    /// Starts the threads; they end when the `Compute` is dropped.
    pub(super) fn start(threads: NonZeroUsize) -> io::Result<Compute> {
        let (queue, jobs) = async_channel::bounded::<Job>(threads.get() * QUEUE_PER_THREAD);
        let workspaces = Arc::new(WorkspacePool::new());
        for number in 0..threads.get() {
            let jobs = jobs.clone();
            let workspaces = Arc::clone(&workspaces);
            thread::Builder::new()
                .name(format!("loyd-compute-{number}"))
                .spawn(move || {
                    while let Ok(job) = jobs.recv_blocking() {
                        // A panic ends the piece, whose caller sees its answer
                        // dropped, and not the thread.
                        let _ = guarded(&workspaces, job);
                    }
                })?;
        }
        Ok(Compute { queue, workspaces })
    }

    /// Runs `work`, which solves so many boards by `method`: here where that
    /// is cheaper, else on a compute thread. Waits while the queue is full, so
    /// that a stream slows down instead of failing.
    ///
    /// # Errors
    /// [`Fault::Internal`] where `work` panicked.
    pub(super) async fn run<T, W>(&self, method: Method, boards: usize, work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnOnce(&mut Workspace) -> T + Send + 'static,
    {
        if is_inline(method, boards) {
            return guarded(&self.workspaces, work);
        }
        let (job, answered) = job(work);
        self.queue.send(job).await.map_err(|_| Fault::Internal)?;
        answered.await.map_err(|_| Fault::Internal)
    }

    /// As [`run`](Compute::run), for one board of a caller that would rather
    /// ask another server than wait in a long queue.
    ///
    /// # Errors
    /// Also [`Fault::Overloaded`] where the queue is full.
    pub(super) async fn run_now<T, W>(&self, method: Method, work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnOnce(&mut Workspace) -> T + Send + 'static,
    {
        if is_inline(method, 1) {
            return guarded(&self.workspaces, work);
        }
        let (job, answered) = job(work);
        self.queue.try_send(job).map_err(|_| Fault::Overloaded)?;
        answered.await.map_err(|_| Fault::Internal)
    }
}

/// A job that runs `work`, and where its answer comes.
fn job<T, W>(work: W) -> (Job, oneshot::Receiver<T>)
where
    T: Send + 'static,
    W: FnOnce(&mut Workspace) -> T + Send + 'static,
{
    let (answer, answered) = oneshot::channel();
    let job = move |workspace: &mut Workspace| {
        // Nobody may be left to hear it, which is theirs to decide.
        let _ = answer.send(work(workspace));
    };
    (Box::new(job), answered)
}

/// Runs `work` on a leased workspace. A workspace that saw a panic is thrown
/// away.
fn guarded<T>(
    workspaces: &WorkspacePool,
    work: impl FnOnce(&mut Workspace) -> T,
) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(|| work(&mut workspaces.lease()))).map_err(|_| {
        tracing::error!("a search panicked; its boards are answered with an internal error");
        Fault::Internal
    })
}

/// Solves one board. A panic costs this board's answer and nothing else.
///
/// # Errors
/// [`Fault::Interrupted`] where the budget ended, [`Fault::Internal`] where
/// the search panicked; `moves` is as it was.
pub(super) fn solve_board(
    workspace: &mut Workspace,
    problem: &Problem,
    options: &SearchOptions,
    budget: &Budget<'_>,
    moves: &mut String,
) -> Result<Solution, Fault> {
    let before = moves.len();
    let solved = catch_unwind(AssertUnwindSafe(|| {
        search::solve(workspace, problem, options, budget, moves)
    }));
    match solved {
        Ok(found) => Ok(found?),
        Err(_) => {
            tracing::error!(?problem, ?options, "a search panicked");
            *workspace = Workspace::new();
            moves.truncate(before);
            Err(Fault::Internal)
        }
    }
}
