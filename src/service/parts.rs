//! The answers to some boards of a message, in parts that fit in a response.

use std::iter::{self, Chain};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use std::vec;

use prost::Message;

use super::compute::solve_board;
use super::convert;
use super::error::Fault;
use super::tally;
use crate::puzzle::{Board, BoardError, Problem, Shape};
use crate::search::goal_table::{Fetched, Found, LastSolutions, MAX_MOVES, Solutions};
use crate::search::{
    Budget, Detail, Interrupted, Method, Outcome, SearchOptions, Solution, Workspace,
};
use crate::telemetry::metrics::Run;
use crate::wire::v1::{self as wire, BoardRef, BoardResult, PackedResults, Varints, board_result};

/// The most bytes of a response: a quarter of what clients accept by default.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// What a response takes beside its boards: id, totals, lengths of fields.
const RESPONSE_OVERHEAD: usize = 256;

/// The most errors of a request in packed form that carry text.
pub(super) const MAX_ERROR_TEXTS: usize = 64;

/// The most bytes that an error takes in packed form, without text and with.
const BARE_ERROR_BYTES: usize = 32;
const TEXT_ERROR_BYTES: usize = 256;

/// The answers to a piece: as few parts as they fit in, in order.
pub(super) struct Parts {
    /// All but the last.
    pub(super) full: Vec<Part>,
    /// Nearly always the only one.
    pub(super) last: Part,
}

impl Parts {
    /// What came of all of them.
    pub(super) fn run(&self) -> Run {
        let mut run = *self.last.run();
        self.full.iter().for_each(|part| run.add(part.run()));
        run
    }
}

impl IntoIterator for Parts {
    type Item = Part;
    type IntoIter = Chain<vec::IntoIter<Part>, iter::Once<Part>>;

    fn into_iter(self) -> Self::IntoIter {
        self.full.into_iter().chain(iter::once(self.last))
    }
}

/// Answers to consecutive boards that fit in a response.
pub(super) enum Part {
    List(ListPart),
    Packed(PackedPart),
}

#[derive(Default)]
pub(super) struct ListPart {
    pub(super) results: Vec<BoardResult>,
    pub(super) run: Run,
    pub(super) bytes: usize,
}

pub(super) struct PackedPart {
    /// Without its errors, which are told by their number in the message, and
    /// its totals.
    pub(super) results: Box<PackedResults>,
    pub(super) errors: Vec<(usize, Fault)>,
    pub(super) run: Run,
    pub(super) generated: u64,
    pub(super) bytes: usize,
}

/// What an answer may take up in a response.
pub(super) const PART_BYTES: usize = MAX_RESPONSE_BYTES - RESPONSE_OVERHEAD;

/// An interruption ends the piece; any other fault is the board's.
fn board_fault(fault: Fault) -> Result<Fault, Interrupted> {
    match fault {
        Fault::Interrupted(interrupted) => Err(interrupted),
        fault => Ok(fault),
    }
}

/// Times a piece, where it takes longer than to read a clock twice.
#[derive(Clone, Copy)]
struct Clock(Option<Instant>);

impl Clock {
    fn start() -> Clock {
        Clock(Some(Instant::now()))
    }

    /// For so many boards that are looked up: a few take less than a
    /// microsecond, and are not timed.
    fn of_look_ups(boards: usize) -> Clock {
        Clock((boards >= FOUND_TOGETHER).then(Instant::now))
    }

    fn again(self) -> Clock {
        Clock(self.0.map(|_| Instant::now()))
    }

    /// Zero where it is not timed.
    fn elapsed(self) -> Duration {
        self.0.map_or(Duration::ZERO, |started| started.elapsed())
    }
}

/// The most bytes that a solution takes in a list beside its moves: every
/// field's tag, and the longest of each number and length.
const BARE_SOLUTION_BYTES: usize = 64;

/// The parts that answer the boards of a piece in list form.
struct ListParts {
    full: Vec<Part>,
    part: ListPart,
    method: Method,
    clock: Clock,
}

impl ListParts {
    fn new(boards: usize, method: Method, clock: Clock) -> ListParts {
        ListParts {
            full: Vec::new(),
            part: ListPart {
                results: Vec::with_capacity(boards),
                ..ListPart::default()
            },
            method,
            clock,
        }
    }

    /// Adds the answer to the next board.
    #[inline]
    fn add(&mut self, solved: Result<Solution, Fault>, moves: String) -> Result<(), Interrupted> {
        let (bytes, outcome, expanded, result) = match solved {
            Ok(found) => (
                BARE_SOLUTION_BYTES + moves.len(),
                convert::outcome(found.outcome).0,
                found.expanded,
                board_result::Result::Solution(convert::solution(self.method, &found, moves, None)),
            ),
            Err(fault) => {
                let error = board_fault(fault)?.to_board_error();
                let bytes = BARE_ERROR_BYTES + error.encoded_len();
                (
                    bytes,
                    wire::Outcome::Error,
                    0,
                    board_result::Result::Error(error),
                )
            }
        };
        if self.part.bytes + bytes > PART_BYTES {
            let full = std::mem::take(&mut self.part);
            self.full.push(Part::List(full));
        }
        self.part.bytes += bytes;
        tally::count(&mut self.part.run, outcome, 1);
        self.part.run.expanded += expanded;
        self.part.results.push(BoardResult {
            result: Some(result),
        });
        Ok(())
    }

    fn finish(mut self) -> Parts {
        // Of the whole piece: where it makes several parts, the others have none.
        self.part.run.elapsed = self.clock.elapsed();
        Parts {
            full: self.full,
            last: Part::List(self.part),
        }
    }
}

pub(super) fn solve_list<'a>(
    workspace: &mut Workspace,
    boards: impl ExactSizeIterator<Item = BoardRef<'a>>,
    goal: Option<Board>,
    options: &SearchOptions,
    budget: &Budget<'_>,
) -> Result<Parts, Interrupted> {
    let mut parts = ListParts::new(boards.len(), options.method, Clock::start());
    for board in boards {
        let mut moves = String::new();
        let solved = convert::board(board)
            .map_err(Fault::Board)
            .and_then(|start| convert::problem(start, goal))
            .and_then(|problem| solve_board(workspace, &problem, options, budget, &mut moves));
        parts.add(solved, moves)?;
    }
    Ok(parts.finish())
}

/// [`solve_list`] by the goal table, as [`look_up_packed`] does it. `None` also
/// where the boards are of several shapes, which have no goal in common.
pub(super) fn look_up_list<'a>(
    boards: impl ExactSizeIterator<Item = BoardRef<'a>> + Clone,
    goal: Option<Board>,
    detail: Detail,
    solutions: &mut LastSolutions,
) -> Option<Result<Parts, Interrupted>> {
    let count = boards.len();
    let starts = boards.map(|board| convert::board(board).map_err(Fault::Board));
    let shape = starts.clone().find_map(Result::ok)?.shape();
    let goal = goal.unwrap_or_else(|| Board::standard_goal(shape));
    if goal.shape() != shape {
        return None;
    }
    let mut one_shape = true;
    // The first of another shape is the last that is read here.
    let starts = starts.map_while(|start| {
        one_shape = start.as_ref().map_or(true, |start| start.shape() == shape);
        one_shape.then_some(start)
    });
    let solutions = solutions.to(&goal);
    let mut parts = ListParts::new(count, Method::GoalTable, Clock::of_look_ups(count));
    let looked_up = catch_unwind(AssertUnwindSafe(|| {
        look_up(solutions, starts, |group| {
            for fetched in group.into_each() {
                let mut moves = String::new();
                let solved = fetched.map(|fetched| solutions.answer(fetched, detail, &mut moves));
                parts.add(solved, moves)?;
            }
            Ok(())
        })
    }));
    let looked_up = looked_up.ok().filter(|_| one_shape)?;
    Some(looked_up.map(|()| parts.finish()))
}

/// The room for the moves of a board: a little more than the mean of 3x3.
const TYPICAL_MOVES: usize = 24;

/// Results with room for so many boards.
pub(super) fn room_for(boards: usize) -> Box<PackedResults> {
    Box::new(PackedResults {
        outcomes: Varints::with_capacity(boards),
        lengths: Varints::with_capacity(boards),
        // Most boards of a random batch take fewer moves, and the last has the
        // room that its look-up needs.
        moves: String::with_capacity(boards * TYPICAL_MOVES + MAX_MOVES),
        errors: Vec::new(),
        all_optimal: true,
        totals: None,
    })
}

impl PackedPart {
    fn with_capacity(boards: usize) -> PackedPart {
        PackedPart {
            results: room_for(boards),
            errors: Vec::new(),
            run: Run::default(),
            generated: 0,
            bytes: 0,
        }
    }

    /// The most bytes the next error takes.
    fn error_bytes(&self) -> usize {
        if self.errors.len() < MAX_ERROR_TEXTS {
            TEXT_ERROR_BYTES
        } else {
            BARE_ERROR_BYTES
        }
    }

    pub(super) fn append(&mut self, other: PackedPart) {
        let (results, others) = (&mut self.results, other.results);
        let boards = results.outcomes.len();
        results.outcomes.append(&others.outcomes);
        results.lengths.append(&others.lengths);
        results.moves.push_str(&others.moves);
        results.all_optimal &= others.all_optimal;
        self.errors.extend(
            other
                .errors
                .into_iter()
                .map(|(index, fault)| (boards + index, fault)),
        );
        self.run.add(&other.run);
        self.generated += other.generated;
        self.bytes += other.bytes;
    }
}

/// What an answer takes without its moves: its outcome a byte, and its length,
/// as none is above 181,440, at most three.
const BARE_ANSWER_BYTES: usize = 4;

/// An outcome as packed results have it.
#[inline]
pub(super) fn outcome_number(outcome: wire::Outcome) -> u8 {
    // The contract's outcomes are few, and none is below zero.
    u8::try_from(i32::from(outcome)).unwrap_or_default()
}

/// The parts that answer the boards of a packed piece.
struct PackedParts {
    full: Vec<Part>,
    part: PackedPart,
    clock: Clock,
    /// The boards of the piece.
    boards: usize,
}

impl PackedParts {
    fn new(boards: usize, clock: Clock) -> PackedParts {
        PackedParts {
            full: Vec::new(),
            part: PackedPart::with_capacity(boards),
            clock,
            boards,
        }
    }

    /// Where the moves of the next board are to be appended.
    #[inline]
    fn moves(&mut self) -> &mut String {
        &mut self.part.results.moves
    }

    /// Adds the answer to the next board, whose moves begin at `moves_before`.
    #[inline]
    fn add(
        &mut self,
        solved: Result<Solution, Fault>,
        moves_before: usize,
    ) -> Result<(), Interrupted> {
        let bytes = BARE_ANSWER_BYTES
            + match &solved {
                Ok(_) => self.part.results.moves.len() - moves_before,
                Err(_) => self.part.error_bytes(),
            };
        if self.part.bytes + bytes > PART_BYTES {
            self.begin_another(moves_before);
        }
        let part = &mut self.part;
        part.bytes += bytes;
        let (outcome, length) = match solved {
            Ok(found) => {
                let (outcome, length, optimal) = convert::outcome(found.outcome);
                part.results.all_optimal &=
                    optimal || !matches!(found.outcome, Outcome::Solved { .. });
                part.run.expanded += found.expanded;
                part.generated += found.generated;
                (outcome, length)
            }
            Err(fault) => {
                let number = part.results.outcomes.len();
                part.errors.push((number, board_fault(fault)?));
                (wire::Outcome::Error, 0)
            }
        };
        tally::count(&mut part.run, outcome, 1);
        part.results.outcomes.push(outcome_number(outcome).into());
        part.results.lengths.push(length.into());
        Ok(())
    }

    /// Adds the answers to the next boards, among them no error: what
    /// [`PackedParts::add`] makes of them one by one, where they fit.
    #[inline]
    fn add_found<E>(&mut self, solutions: &Solutions, group: &Group<E>, detail: Detail) {
        const MOST_BYTES: usize = FOUND_TOGETHER * (BARE_ANSWER_BYTES + MAX_MOVES);
        if self.part.bytes + MOST_BYTES > PART_BYTES {
            self.begin_another(self.part.results.moves.len());
        }
        let part = &mut self.part;
        let results = &mut *part.results;
        let moves_before = results.moves.len();
        let mut outcomes = [outcome_number(wire::Outcome::Unsolvable); FOUND_TOGETHER];
        let mut lengths = [0; FOUND_TOGETHER];
        let mut solved = 0;
        let columns = outcomes.iter_mut().zip(&mut lengths);
        for (&fetched, (outcome, length)) in group.fetched.iter().take(group.boards).zip(columns) {
            if let Some(found) = solutions.length_of(fetched, detail, &mut results.moves) {
                // It is at most MAX_MOVES.
                *length = u8::try_from(found).unwrap_or(u8::MAX);
                *outcome = outcome_number(wire::Outcome::Solved);
                solved += 1;
            }
        }
        let boards = ..group.boards;
        let outcomes = outcomes.get(boards).unwrap_or_default();
        let lengths = lengths.get(boards).unwrap_or_default();
        results.outcomes.extend_small(outcomes);
        results.lengths.extend_small(lengths);
        let unsolvable = group.boards as u64 - solved;
        tally::count(&mut part.run, wire::Outcome::Solved, solved);
        tally::count(&mut part.run, wire::Outcome::Unsolvable, unsolvable);
        part.bytes += group.boards * BARE_ANSWER_BYTES + (results.moves.len() - moves_before);
    }

    #[cold]
    fn begin_another(&mut self, moves_before: usize) {
        self.boards -= self.part.results.outcomes.len();
        let mut next = PackedPart::with_capacity(self.boards);
        next.results.moves = self.part.results.moves.split_off(moves_before);
        let mut full = std::mem::replace(&mut self.part, next);
        full.run.elapsed = self.clock.elapsed();
        self.clock = self.clock.again();
        self.full.push(Part::Packed(full));
    }

    fn finish(mut self) -> Parts {
        self.part.run.elapsed = self.clock.elapsed();
        Parts {
            full: self.full,
            last: Part::Packed(self.part),
        }
    }
}

pub(super) fn solve_packed(
    workspace: &mut Workspace,
    tiles: &[u8],
    shape: Shape,
    goal: &Board,
    options: &SearchOptions,
    budget: &Budget<'_>,
) -> Result<Parts, Interrupted> {
    let mut parts = PackedParts::new(tiles.len() / shape.cells(), Clock::start());
    for board in tiles.chunks_exact(shape.cells()) {
        let moves_before = parts.moves().len();
        let solved = Board::from_bytes(shape, board)
            .map_err(Fault::Board)
            .and_then(|start| Ok(Problem::new(start, *goal)?))
            .and_then(|problem| solve_board(workspace, &problem, options, budget, parts.moves()));
        parts.add(solved, moves_before)?;
    }
    Ok(parts.finish())
}

/// How many boards are fetched from the goal table before the first of them is
/// answered: enough for their memory accesses to overlap.
const FOUND_TOGETHER: usize = 16;

/// Some consecutive boards, as the goal table has them.
struct Group<E> {
    fetched: [Fetched; FOUND_TOGETHER],
    /// So many of them are boards.
    boards: usize,
    /// Those that are none, in order: an error is many times as large as what
    /// was fetched.
    errors: Vec<(usize, E)>,
}

impl<E> Group<E> {
    /// What there is of each board, in order.
    fn into_each(self) -> impl Iterator<Item = Result<Fetched, E>> {
        let mut errors = self.errors.into_iter().peekable();
        let fetched = self.fetched.into_iter().take(self.boards).enumerate();
        fetched.map(move |(number, fetched)| {
            let error = errors.next_if(|(bad, _)| *bad == number);
            error.map_or(Ok(fetched), |(_, error)| Err(error))
        })
    }
}

/// Where the goal table has the solution of a board. What may panic of a look-up
/// is here.
#[inline]
pub(super) fn find(solutions: &Solutions, start: &Board) -> Found {
    #[cfg(feature = "panic-injection")]
    super::panic_injection::panic_at(start);
    solutions.find(start)
}

/// Finds boards of one shape in the goal table, and tells what it has of
/// them, in order.
#[inline]
fn look_up<E>(
    solutions: &Solutions,
    mut starts: impl Iterator<Item = Result<Board, E>>,
    mut answer: impl FnMut(Group<E>) -> Result<(), Interrupted>,
) -> Result<(), Interrupted> {
    loop {
        let mut together = [Found::NONE; FOUND_TOGETHER];
        let mut boards = 0;
        let mut errors = Vec::new();
        for (found, start) in together.iter_mut().zip(&mut starts) {
            match start {
                Ok(start) => *found = find(solutions, &start),
                Err(error) => errors.push((boards, error)),
            }
            boards += 1;
        }
        let mut fetched = [Fetched::NONE; FOUND_TOGETHER];
        for (fetched, found) in fetched.iter_mut().zip(together).take(boards) {
            *fetched = solutions.fetch(found);
        }
        let group = Group {
            fetched,
            boards,
            errors,
        };
        answer(group)?;
        if boards < FOUND_TOGETHER {
            return Ok(());
        }
    }
}

/// [`solve_packed`] by the goal table: answers are so cheap that what is the
/// same for all boards is done once. `None` where a board made it panic.
pub(super) fn look_up_packed(
    tiles: &[u8],
    boards: usize,
    goal: &Board,
    detail: Detail,
    solutions: &mut LastSolutions,
) -> Option<Result<Parts, Interrupted>> {
    let mut parts = PackedParts::new(boards, Clock::of_look_ups(boards));
    let solutions = solutions.to(goal);
    let shape = goal.shape();
    let looked_up = catch_unwind(AssertUnwindSafe(|| {
        if shape == Shape::EIGHT {
            // Of a length known at compile time, and with nothing to divide.
            let (boards, _) = tiles.as_chunks::<9>();
            let starts = boards.iter().map(|tiles| Board::from_bytes(shape, tiles));
            parts.look_up(solutions, starts, detail)
        } else {
            let boards = tiles.chunks_exact(shape.cells());
            let starts = boards.map(|tiles| Board::from_bytes(shape, tiles));
            parts.look_up(solutions, starts, detail)
        }
    }));
    Some(looked_up.ok()?.map(|()| parts.finish()))
}

impl PackedParts {
    /// Adds the answers to boards of one shape.
    #[inline]
    fn look_up(
        &mut self,
        solutions: &Solutions,
        starts: impl Iterator<Item = Result<Board, BoardError>>,
        detail: Detail,
    ) -> Result<(), Interrupted> {
        look_up(solutions, starts, |group| {
            if group.errors.is_empty() {
                self.add_found(solutions, &group, detail);
                return Ok(());
            }
            for fetched in group.into_each() {
                let moves_before = self.moves().len();
                let solved = fetched
                    .map(|fetched| solutions.answer(fetched, detail, self.moves()))
                    .map_err(Fault::Board);
                self.add(solved, moves_before)?;
            }
            Ok(())
        })
    }
}

impl Part {
    pub(super) fn run(&self) -> &Run {
        match self {
            Part::List(part) => &part.run,
            Part::Packed(part) => &part.run,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Part::List(part) => part.bytes,
            Part::Packed(part) => part.bytes,
        }
    }

    pub(super) fn boards(&self) -> usize {
        match self {
            Part::List(part) => part.results.len(),
            Part::Packed(part) => part.results.outcomes.len(),
        }
    }
}
