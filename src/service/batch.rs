//! `SolveBatch`: a stream of batches.
//!
//! A message becomes pieces, pieces are solved side by side and come back in
//! order, and their answers are joined to responses:
//!
//! ```text
//! inbound -> Steps -> solve (messages_in_flight at most) -> Assembler -> outbound
//! ```
//!
//! A message that is all looked up in a table, and is the next to be answered,
//! takes none of these steps: it is answered as it is read, or, where it has only
//! a few boards, when the message after it was read ([`few`]).
//!
//! Nothing here runs unless the client reads: the stream is polled by the
//! connection when it has room for more, and a message is read only when a
//! slot is free. A client that does not read is not read from.

mod assembler;
mod few;
mod message;
mod piece;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::FuturesOrdered;
use futures_util::{Stream, StreamExt, ready};
use tonic::{Code, Request, Status, Streaming};

use self::assembler::Assembler;
use self::few::Few;
use self::message::{Batch, read};
use self::piece::{Piece, Steps, look_up, search_piece, solve_piece};
use super::Solver;
use super::call::{Call, CancelOnDrop};
use super::compute::{Compute, expected_cost, is_inline};
use super::error::Fault;
use super::parts::Parts;
use super::queue::Lane;
use super::size_limit::too_large;
use super::tally::LocalTally;
use crate::search::goal_table::LastSolutions;
use crate::search::{Interrupted, Method, Workspace};
use crate::telemetry::metrics::Run;
use crate::wire::v1::{SolveBatchRequest, SolveBatchResponse};

/// The most expected work that a stream does on the executor in a row before
/// it lets other tasks have their turn.
const INLINE_IN_A_ROW: Duration = Duration::from_micros(500);

/// The answers to a stream of requests.
pub(super) fn answers(solver: &Solver, request: Request<Streaming<SolveBatchRequest>>) -> Answers {
    let (call, cancel_on_drop) = Call::begin(request.extensions());
    Answers {
        solver: solver.clone(),
        call,
        lane: Lane::new(),
        inbound: Some(request.into_inner()),
        few: None,
        held: None,
        steps: None,
        in_flight: FuturesOrdered::new(),
        assembler: Assembler::default(),
        tally: LocalTally::default(),
        solutions: LastSolutions::default(),
        bytes_in_flight: 0,
        inline_in_a_row: Duration::ZERO,
        ended: false,
        _cancel_on_drop: cancel_on_drop,
    }
}

/// One thing to do for a stream, in the order in which it is answered.
enum Step {
    /// Solve these boards.
    Piece(Piece),
    /// Send this.
    Respond(SolveBatchResponse),
    /// End the stream.
    Fail(Status),
}

/// The status that ends a stream whose next message could not be read.
fn reading_failed(status: Status) -> Status {
    if status.code() == Code::OutOfRange {
        too_large()
    } else {
        status
    }
}

/// A step that was taken.
enum Done {
    Piece(Piece, Parts),
    Respond(SolveBatchResponse),
    Fail(Status),
}

impl Done {
    fn of(solved: Result<Result<(Piece, Parts), Interrupted>, Fault>) -> Done {
        match solved {
            Ok(Ok((piece, parts))) => Done::Piece(piece, parts),
            Ok(Err(interrupted)) => Done::Fail(Fault::Interrupted(interrupted).into()),
            Err(fault) => Done::Fail(fault.into()),
        }
    }
}

/// Answers one message at once, on this thread.
#[cfg(fuzzing)]
pub(super) fn answer_one(
    message: SolveBatchRequest,
    settings: &super::Settings,
    workspace: &mut Workspace,
) -> Vec<SolveBatchResponse> {
    let batch = match read(message, settings) {
        Ok(batch) => batch,
        Err(response) => return vec![response],
    };
    let mut solutions = LastSolutions::default();
    let few = Few::find(&batch, &mut solutions);
    let mut assembler = Assembler::default();
    for piece in Steps::of(batch) {
        match solve_piece(workspace, &piece, &crate::search::Budget::UNLIMITED) {
            Ok(parts) => assembler.add(&piece, parts),
            Err(_) => return Vec::new(),
        }
    }
    if let Some(few) = few {
        assert_eq!(assembler.ready, [few.answer(&mut solutions).0]);
    }
    assembler.ready.into()
}

/// The outbound stream.
pub struct Answers {
    solver: Solver,
    call: Call,
    lane: Lane,
    /// `None` once the client half-closed.
    inbound: Option<Streaming<SolveBatchRequest>>,
    /// Found, and answered when the next message was read: only where nothing
    /// is in flight.
    few: Option<Few>,
    /// What comes after the answer to a message of a few boards.
    held: Option<Step>,
    /// What is left to begin of the message that was read last.
    steps: Option<Steps>,
    /// What was begun, in the order in which it is to be answered.
    in_flight: FuturesOrdered<Pin<Box<dyn Future<Output = Done> + Send>>>,
    assembler: Assembler,
    tally: LocalTally,
    solutions: LastSolutions,
    /// What the messages take whose last piece is not solved.
    bytes_in_flight: usize,
    inline_in_a_row: Duration,
    ended: bool,
    _cancel_on_drop: CancelOnDrop,
}

impl Answers {
    /// The next thing to begin; `None` after the last.
    fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<Option<Step>> {
        if let Some(step) = self.held.take() {
            return Poll::Ready(Some(step));
        }
        if let Some(piece) = self.steps.as_mut().and_then(Iterator::next) {
            return Poll::Ready(Some(Step::Piece(piece)));
        }
        self.steps = None;
        if self.bytes_in_flight >= self.solver.settings.bytes_in_flight.get() {
            // A piece in flight holds them, and wakes us when it is solved.
            return Poll::Pending;
        }
        loop {
            let polled = match &mut self.inbound {
                Some(inbound) => Pin::new(inbound).poll_next(context),
                None => Poll::Ready(None),
            };
            let earlier = self.answer_few();
            let step = match polled {
                Poll::Ready(Some(Ok(message))) => match read(message, &self.solver.settings) {
                    Ok(batch) => self.step_of(batch, earlier.is_none()),
                    Err(response) => Some(Step::Respond(response)),
                },
                Poll::Ready(Some(Err(status))) => Some(Step::Fail(reading_failed(status))),
                Poll::Ready(None) => {
                    self.inbound = None;
                    return Poll::Ready(earlier);
                }
                Poll::Pending => {
                    return earlier.map_or(Poll::Pending, |step| Poll::Ready(Some(step)));
                }
            };
            if earlier.is_some() {
                self.held = step;
                return Poll::Ready(earlier);
            }
            if step.is_some() {
                return Poll::Ready(step);
            }
        }
    }

    /// The first step of a message; `None` where it was found, and is answered
    /// when the next was read. `is_next` where no few boards are to be answered
    /// before it.
    fn step_of(&mut self, batch: Batch, is_next: bool) -> Option<Step> {
        if self.in_flight.is_empty() {
            self.few = self.find_few(&batch);
            if self.few.is_some() {
                return None;
            }
            if is_next && let Some(response) = self.answer_at_once(&batch) {
                return Some(Step::Respond(response));
            }
        }
        self.bytes_in_flight += batch.bytes;
        let mut steps = Steps::of(batch);
        let first = steps.next().map(Step::Piece);
        self.steps = Some(steps);
        first
    }

    /// Finds the boards of a message of a few, to be answered when the next was
    /// read.
    fn find_few(&mut self, batch: &Batch) -> Option<Few> {
        let few = Few::find(batch, &mut self.solutions)?;
        // The budget's end is told of by the pieces, which meet it as well.
        self.call.budget().poll().ok()?;
        self.inline_in_a_row += expected_cost(&batch.options, batch.len);
        Some(few)
    }

    /// Answers the message that was found before.
    fn answer_few(&mut self) -> Option<Step> {
        let few = self.few.take()?;
        let (response, run) = few.answer(&mut self.solutions);
        self.count(Method::GoalTable, &run);
        Some(Step::Respond(response))
    }

    /// The answer to a message that is all looked up, where it is the next and
    /// that takes no longer than to hand it to a thread.
    fn answer_at_once(&mut self, batch: &Batch) -> Option<SolveBatchResponse> {
        let boards = 0..batch.len;
        let cost = expected_cost(&batch.options, boards.len());
        if !is_inline(cost) {
            return None;
        }
        let budget = self.call.budget();
        let parts = look_up(batch, &boards, &budget, &mut self.solutions)?.ok()?;
        self.inline_in_a_row += cost;
        self.count(batch.options.method, &parts.run());
        Some(self.assembler.answer(batch, parts))
    }

    /// Counts what came of some boards.
    fn count(&mut self, method: Method, run: &Run) {
        self.tally.ran(&self.solver.tallies, method, run);
        self.call.answered(run.outcomes.iter().sum());
    }

    /// Begins a step. What needs no waiting is done at once.
    fn begin(&mut self, step: Step) -> Option<Done> {
        let is_next = self.in_flight.is_empty();
        let done = match step {
            Step::Piece(piece) => {
                let cost = piece.expected_cost();
                if !is_inline(cost) {
                    self.in_flight.push_back(Box::pin(solve_elsewhere(
                        Arc::clone(&self.solver.compute),
                        self.call.clone(),
                        self.lane,
                        piece,
                    )));
                    return None;
                }
                self.inline_in_a_row += cost;
                let budget = self.call.budget();
                let looked_up = look_up(&piece.batch, &piece.boards, &budget, &mut self.solutions);
                let solved = looked_up.map_or_else(
                    || {
                        let search =
                            |workspace: &mut Workspace| search_piece(workspace, &piece, &budget);
                        self.solver.compute.run_here(search)
                    },
                    Ok,
                );
                Done::of(solved.map(|solved| solved.map(|parts| (piece, parts))))
            }
            Step::Respond(response) => Done::Respond(response),
            Step::Fail(status) => Done::Fail(status),
        };
        if is_next {
            return Some(done);
        }
        self.in_flight.push_back(Box::pin(std::future::ready(done)));
        None
    }

    /// The next step that is done, in order; `None` after the last.
    fn poll_done(&mut self, context: &mut Context<'_>) -> Poll<Option<Done>> {
        let most = self.solver.settings.messages_in_flight.get();
        while self.in_flight.len() < most {
            match self.poll_step(context) {
                Poll::Ready(Some(step)) => {
                    if let Some(done) = self.begin(step) {
                        return Poll::Ready(Some(done));
                    }
                }
                Poll::Ready(None) => break,
                Poll::Pending if self.in_flight.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        self.in_flight.poll_next_unpin(context)
    }

    fn poll_response(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<SolveBatchResponse, Status>>> {
        loop {
            if let Some(response) = self.assembler.ready.pop_front() {
                return Poll::Ready(Some(Ok(response)));
            }
            if self.inline_in_a_row > INLINE_IN_A_ROW {
                self.inline_in_a_row = Duration::ZERO;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            match ready!(self.poll_done(context)) {
                Some(Done::Piece(piece, parts)) => {
                    if piece.ends_message() {
                        self.bytes_in_flight -= piece.batch.bytes;
                    }
                    self.count(piece.batch.options.method, &parts.run());
                    self.assembler.add(&piece, parts);
                }
                Some(Done::Respond(response)) => return Poll::Ready(Some(Ok(response))),
                Some(Done::Fail(status)) => return Poll::Ready(Some(Err(status))),
                None => return Poll::Ready(None),
            }
        }
    }
}

async fn solve_elsewhere(compute: Arc<Compute>, call: Call, lane: Lane, piece: Piece) -> Done {
    let cost = piece.expected_cost();
    let solved = compute.run(lane, cost, move |workspace| {
        let parts = solve_piece(workspace, &piece, &call.budget())?;
        Ok((piece, parts))
    });
    Done::of(solved.await)
}

impl Stream for Answers {
    type Item = Result<SolveBatchResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let polled = self.poll_response(context);
        match &polled {
            Poll::Ready(None | Some(Err(_))) => {
                self.ended = true;
                self.tally.tell();
            }
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Pending => {
                self.inline_in_a_row = Duration::ZERO;
                self.tally.tell();
            }
        }
        polled
    }
}
