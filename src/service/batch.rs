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
//! takes none of these steps: it is answered as it is read.
//!
//! Nothing here runs unless the client reads: the stream is polled by the
//! connection when it has room for more, and a message is read only when a
//! slot is free. A client that does not read is not read from.

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::FuturesOrdered;
use futures_util::{Stream, StreamExt, ready};
use tonic::{Code, Request, Status, Streaming};

use super::call::{Call, CancelOnDrop};
use super::compute::{Compute, expected_cost, is_inline, piece_boards};
use super::error::Fault;
use super::parts::{
    MAX_ERROR_TEXTS, PART_BYTES, Part, Parts, look_up_list, look_up_packed, solve_list,
    solve_packed,
};
use super::queue::Lane;
use super::size_limit::too_large;
use super::tally::LocalTally;
use super::{Settings, Solver, convert};
use crate::puzzle::{Board, Problem, Shape};
use crate::search::goal_table::LastSolutions;
use crate::search::{Budget, Interrupted, Method, SearchOptions, Workspace};
use crate::wire::v1::{
    self as wire, BoardList, PackedError, ResultList, SolveBatchRequest, SolveBatchResponse,
    solve_batch_request, solve_batch_response,
};

/// The most pieces whose answers are joined to one response: a slow method
/// shows progress every few milliseconds, a fast one fills its responses. The
/// number is fixed, and not what happens to be ready, so that equal requests
/// get equal answers.
const PIECES_PER_RESPONSE: usize = 8;

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

/// What a message holds, once its faults are ruled out.
struct Batch {
    id: u64,
    boards: Boards,
    /// How many there are.
    len: usize,
    /// What the boards take.
    bytes: usize,
    options: SearchOptions,
}

enum Boards {
    List {
        list: BoardList,
        goal: Option<Board>,
    },
    Packed {
        tiles: Bytes,
        shape: Shape,
        goal: Board,
    },
}

impl Batch {
    fn parse(
        id: u64,
        boards: solve_batch_request::Boards,
        goal: Option<&wire::Board>,
        options: Option<&wire::SolveOptions>,
        settings: &Settings,
    ) -> Result<Batch, Fault> {
        let goal = convert::goal(goal);
        let options = convert::options(options, settings);
        let too_many = |found, limit| {
            if found > limit {
                Err(Fault::TooManyBoards { found, limit })
            } else {
                Ok(found)
            }
        };
        let (boards, count) = match boards {
            solve_batch_request::Boards::List(list) => {
                let count = too_many(list.len(), settings.max_list_boards);
                let boards = match &goal {
                    Ok(goal) => Ok(Boards::List { list, goal: *goal }),
                    Err(fault) => Err(fault.clone()),
                };
                (boards, count)
            }
            solve_batch_request::Boards::Packed(packed) => {
                let (boards, found) = parse_packed(packed, &goal);
                (boards, too_many(found, settings.max_packed_boards))
            }
        };
        match (boards, options, count) {
            (Ok(boards), Ok(options), Ok(len)) => Ok(Batch {
                id,
                len,
                bytes: boards.bytes(),
                boards,
                options,
            }),
            (boards, options, count) => {
                let faults = [boards.err(), options.err(), count.err()];
                Err(Fault::first(faults))
            }
        }
    }
}

impl Boards {
    /// What they take while they wait.
    fn bytes(&self) -> usize {
        match self {
            Boards::List { list, .. } => list.bytes(),
            Boards::Packed { tiles, .. } => tiles.len(),
        }
    }
}

/// Whether so many bytes are boards of this shape, be it a supported one or
/// not. A shape without cells is told as a bad shape.
fn whole_boards(bytes: usize, rows: u32, columns: u32) -> Result<(), Fault> {
    let cells = u64::from(rows) * u64::from(columns);
    match (bytes as u64).checked_rem(cells) {
        Some(0) | None => Ok(()),
        Some(_) => Err(Fault::PackedLength {
            bytes,
            rows,
            columns,
            cells,
        }),
    }
}

/// Reads a packed message; also tells how many boards its bytes make.
fn parse_packed(
    packed: wire::PackedBoards,
    goal: &Result<Option<Board>, Fault>,
) -> (Result<Boards, Fault>, usize) {
    let wire::PackedBoards {
        rows,
        columns,
        tiles,
    } = packed;
    let shape = match (rows, columns) {
        (0, 0) => Ok(Shape::EIGHT),
        (rows, columns) => Shape::new(rows, columns),
    };
    let shape = match shape {
        Ok(shape) => shape,
        Err(error) => {
            let length = whole_boards(tiles.len(), rows, columns).err();
            let faults = [length, Some(Fault::PackedShape(error)), goal.clone().err()];
            let fault = Fault::first(faults);
            return (Err(fault), 0);
        }
    };
    let found = tiles.len() / shape.cells();
    let length = if found * shape.cells() == tiles.len() {
        Ok(())
    } else {
        let (rows, columns) = shape.sides();
        whole_boards(tiles.len(), rows, columns)
    };
    let goal = goal.clone().and_then(|goal| {
        let goal = goal.unwrap_or_else(|| Board::standard_goal(shape));
        // A goal of another shape would be every board's fault.
        Ok(*Problem::new(Board::standard_goal(shape), goal)?.goal())
    });
    let boards = match (length, goal) {
        (Ok(()), Ok(goal)) => Ok(Boards::Packed { tiles, shape, goal }),
        (length, goal) => {
            let faults = [length.err(), goal.err()];
            Err(Fault::first(faults))
        }
    };
    (boards, found)
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

/// Some consecutive boards of a message.
struct Piece {
    batch: Arc<Batch>,
    boards: Range<usize>,
    /// The response ends with this piece.
    ends_response: bool,
}

impl Piece {
    fn expected_cost(&self) -> Duration {
        expected_cost(&self.batch.options, self.boards.len())
    }

    fn ends_message(&self) -> bool {
        self.boards.end == self.batch.len
    }
}

/// These boards' of the tiles of all boards.
fn tiles_of<'a>(boards: &Range<usize>, tiles: &'a [u8], shape: Shape) -> &'a [u8] {
    let cells = shape.cells();
    tiles
        .get(boards.start * cells..boards.end * cells)
        .unwrap_or_default()
}

/// What is left to begin of one message: its pieces.
struct Steps {
    batch: Arc<Batch>,
    next: usize,
    size: usize,
    number: usize,
}

impl Steps {
    fn of(batch: Batch) -> Steps {
        Steps {
            size: piece_boards(&batch.options),
            batch: Arc::new(batch),
            next: 0,
            number: 0,
        }
    }
}

impl Iterator for Steps {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let first = self.next;
        if first >= self.batch.len {
            return None;
        }
        let end = (first + self.size).min(self.batch.len);
        self.next = end;
        self.number += 1;
        Some(Piece {
            ends_response: self.number.is_multiple_of(PIECES_PER_RESPONSE) || end == self.batch.len,
            batch: Arc::clone(&self.batch),
            boards: first..end,
        })
    }
}

/// Reads a message: boards to solve, or what there is to say without.
fn read(message: SolveBatchRequest, settings: &Settings) -> Result<Batch, SolveBatchResponse> {
    let SolveBatchRequest {
        id,
        boards,
        goal,
        options,
    } = message;
    let respond = |results| SolveBatchResponse {
        id,
        results,
        first_board: 0,
        more: false,
    };
    let boards = boards.unwrap_or(solve_batch_request::Boards::List(BoardList::default()));
    match Batch::parse(id, boards, goal.as_ref(), options.as_ref(), settings) {
        Ok(batch) if batch.len == 0 => Err(respond(None)),
        Ok(batch) => Ok(batch),
        Err(fault) => Err(respond(Some(solve_batch_response::Results::Error(
            fault.to_board_error(),
        )))),
    }
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

/// The answers to boards that are only to be looked up, if they are: that
/// needs no workspace. After a panic all is searched, board by board: it is one
/// board's answer that the panic costs.
fn look_up(
    batch: &Batch,
    boards: &Range<usize>,
    budget: &Budget<'_>,
    solutions: &mut LastSolutions,
) -> Option<Result<Parts, Interrupted>> {
    let options = &batch.options;
    if options.method != Method::GoalTable {
        return None;
    }
    if let Err(interrupted) = budget.poll() {
        return Some(Err(interrupted));
    }
    match &batch.boards {
        Boards::List { list, goal } => {
            let boards = list.range(boards.start, boards.end);
            look_up_list(boards, *goal, options.detail, solutions)
        }
        Boards::Packed { tiles, shape, goal } => {
            let tiles = tiles_of(boards, tiles, *shape);
            let count = boards.len();
            look_up_packed(tiles, count, goal, options.detail, solutions)
        }
    }
}

fn search_piece(
    workspace: &mut Workspace,
    piece: &Piece,
    budget: &Budget<'_>,
) -> Result<Parts, Interrupted> {
    // A search polls only after a thousand states: this stops the others.
    budget.poll()?;
    let options = &piece.batch.options;
    match &piece.batch.boards {
        Boards::List { list, goal } => {
            let boards = list.range(piece.boards.start, piece.boards.end);
            solve_list(workspace, boards, *goal, options, budget)
        }
        Boards::Packed { tiles, shape, goal } => {
            let tiles = tiles_of(&piece.boards, tiles, *shape);
            solve_packed(workspace, tiles, *shape, goal, options, budget)
        }
    }
}

fn solve_piece(
    workspace: &mut Workspace,
    piece: &Piece,
    budget: &Budget<'_>,
) -> Result<Parts, Interrupted> {
    let mut solutions = LastSolutions::default();
    look_up(&piece.batch, &piece.boards, budget, &mut solutions)
        .unwrap_or_else(|| search_piece(workspace, piece, budget))
}

/// Joins the parts of a message to its responses.
#[derive(Default)]
struct Assembler {
    /// The response that grows.
    growing: Option<Part>,
    /// The index in the message of its first board.
    first_board: usize,
    /// The errors of the message that were answered so far.
    errors: usize,
    ready: VecDeque<SolveBatchResponse>,
}

impl Assembler {
    fn add(&mut self, piece: &Piece, parts: Parts) {
        for part in parts {
            self.growing = match (self.growing.take(), part) {
                (Some(grown), part) if grown.bytes() + part.bytes() > PART_BYTES => {
                    self.send(&piece.batch, grown, true);
                    Some(part)
                }
                (Some(Part::List(mut grown)), Part::List(part)) => {
                    grown.bytes += part.bytes;
                    grown.results.extend(part.results);
                    Some(Part::List(grown))
                }
                (Some(Part::Packed(mut grown)), Part::Packed(part)) => {
                    grown.append(part);
                    Some(Part::Packed(grown))
                }
                // The first part; a message never mixes the forms.
                (_, part) => Some(part),
            };
        }
        if piece.ends_response
            && let Some(grown) = self.growing.take()
        {
            self.send(&piece.batch, grown, !piece.ends_message());
        }
    }

    /// Answers all of a message, while nothing grows: as [`Assembler::add`] does
    /// with a message of one piece. The first response; the others are ready.
    fn answer(&mut self, batch: &Batch, parts: Parts) -> SolveBatchResponse {
        if parts.full.is_empty() {
            return self.respond(batch, parts.last, false);
        }
        for part in parts.full {
            self.send(batch, part, true);
        }
        let last = self.respond(batch, parts.last, false);
        match self.ready.pop_front() {
            Some(first) => {
                self.ready.push_back(last);
                first
            }
            None => last,
        }
    }

    fn send(&mut self, batch: &Batch, part: Part, more: bool) {
        let response = self.respond(batch, part, more);
        self.ready.push_back(response);
    }

    /// Makes a part a response.
    #[inline]
    fn respond(&mut self, batch: &Batch, part: Part, more: bool) -> SolveBatchResponse {
        let boards = part.boards();
        let results = match part {
            Part::List(part) => solve_batch_response::Results::List(ResultList {
                results: part.results,
            }),
            Part::Packed(part) => {
                let mut results = part.results;
                let errors = part.errors.into_iter().map(|(index, fault)| {
                    self.errors += 1;
                    let error = if self.errors <= MAX_ERROR_TEXTS {
                        fault.to_board_error()
                    } else {
                        fault.to_bare_board_error()
                    };
                    PackedError {
                        index: saturate(index),
                        error: Some(error),
                    }
                });
                results.errors = errors.collect();
                let elapsed = part.run.elapsed;
                results.totals = Some(convert::stats(
                    batch.options.method,
                    part.run.expanded,
                    part.generated,
                    (!elapsed.is_zero()).then_some(elapsed),
                ));
                solve_batch_response::Results::Packed(results)
            }
        };
        let response = SolveBatchResponse {
            id: batch.id,
            results: Some(results),
            first_board: saturate(self.first_board),
            more,
        };
        if more {
            self.first_board += boards;
        } else {
            self.first_board = 0;
            self.errors = 0;
        }
        response
    }
}

/// A board's index as the wire has it. Messages are limited to far fewer
/// boards than would saturate.
fn saturate(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// Answers one message at once, on this thread.
#[cfg(fuzzing)]
pub(super) fn answer_one(
    message: SolveBatchRequest,
    settings: &Settings,
    workspace: &mut Workspace,
) -> Vec<SolveBatchResponse> {
    let batch = match read(message, settings) {
        Ok(batch) => batch,
        Err(response) => return vec![response],
    };
    let mut assembler = Assembler::default();
    for piece in Steps::of(batch) {
        match solve_piece(workspace, &piece, &Budget::UNLIMITED) {
            Ok(parts) => assembler.add(&piece, parts),
            Err(_) => return Vec::new(),
        }
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
        if let Some(piece) = self.steps.as_mut().and_then(Iterator::next) {
            return Poll::Ready(Some(Step::Piece(piece)));
        }
        self.steps = None;
        if self.bytes_in_flight >= self.solver.settings.bytes_in_flight.get() {
            // A piece in flight holds them, and wakes us when it is solved.
            return Poll::Pending;
        }
        let Some(inbound) = &mut self.inbound else {
            return Poll::Ready(None);
        };
        let message = match ready!(Pin::new(inbound).poll_next(context)) {
            Some(Ok(message)) => message,
            Some(Err(status)) => {
                return Poll::Ready(Some(Step::Fail(reading_failed(status))));
            }
            None => {
                self.inbound = None;
                return Poll::Ready(None);
            }
        };
        let step = match read(message, &self.solver.settings) {
            Ok(batch) => match self.answer_at_once(&batch) {
                Some(response) => Some(Step::Respond(response)),
                None => {
                    self.bytes_in_flight += batch.bytes;
                    let mut steps = Steps::of(batch);
                    let first = steps.next().map(Step::Piece);
                    self.steps = Some(steps);
                    first
                }
            },
            Err(response) => Some(Step::Respond(response)),
        };
        Poll::Ready(step)
    }

    /// The answer to a message that is all looked up, where it is the next and
    /// that takes no longer than to hand it to a thread.
    fn answer_at_once(&mut self, batch: &Batch) -> Option<SolveBatchResponse> {
        let boards = 0..batch.len;
        let cost = expected_cost(&batch.options, boards.len());
        if !self.in_flight.is_empty() || !is_inline(cost) {
            return None;
        }
        let budget = self.call.budget();
        // The budget's end is told of by the pieces, which meet it as well.
        let parts = look_up(batch, &boards, &budget, &mut self.solutions)?.ok()?;
        self.inline_in_a_row += cost;
        self.count(&batch.options, boards.len(), &parts);
        Some(self.assembler.answer(batch, parts))
    }

    /// Counts what came of some boards.
    fn count(&mut self, options: &SearchOptions, boards: usize, parts: &Parts) {
        self.tally
            .ran(&self.solver.tallies, options.method, &parts.run());
        self.call.answered(boards);
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
                    self.count(&piece.batch.options, piece.boards.len(), &parts);
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
