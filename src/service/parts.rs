//! The answers to some boards of a message, in parts that fit in a response.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use prost::Message;

use super::compute::solve_board;
use super::convert;
use super::error::Fault;
use crate::puzzle::{Board, Problem, Shape};
use crate::search::goal_table::{Fetched, Found, Solutions};
use crate::search::{
    Budget, Detail, Interrupted, Method, Outcome, SearchOptions, Solution, Workspace,
};
use crate::wire::v1::{self as wire, BoardRef, BoardResult, board_result};

/// The most bytes of a response: a quarter of what clients accept by default.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// What a response takes beside its boards: id, totals, lengths of fields.
const RESPONSE_OVERHEAD: usize = 256;

/// The most errors of a request in packed form that carry text.
pub(super) const MAX_ERROR_TEXTS: usize = 64;

/// The most bytes that an error takes in packed form, without text and with.
const BARE_ERROR_BYTES: usize = 32;
const TEXT_ERROR_BYTES: usize = 256;

/// Answers to consecutive boards that fit in a response.
pub(super) enum Part {
    List(ListPart),
    Packed(PackedPart),
}

#[derive(Default)]
pub(super) struct ListPart {
    pub(super) results: Vec<BoardResult>,
    pub(super) elapsed: Duration,
    pub(super) bytes: usize,
}

pub(super) struct PackedPart {
    pub(super) outcomes: Vec<i32>,
    pub(super) lengths: Vec<u32>,
    pub(super) moves: String,
    pub(super) errors: Vec<(usize, Fault)>,
    pub(super) all_optimal: bool,
    pub(super) expanded: u64,
    pub(super) generated: u64,
    pub(super) elapsed: Duration,
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

/// The most bytes that a solution takes in a list beside its moves: every
/// field's tag, and the longest of each number and length.
const BARE_SOLUTION_BYTES: usize = 64;

/// The parts that answer the boards of a piece in list form.
struct ListParts {
    full: Vec<Part>,
    part: ListPart,
    method: Method,
    started: Instant,
}

impl ListParts {
    fn new(boards: usize, method: Method) -> ListParts {
        ListParts {
            full: Vec::new(),
            part: ListPart {
                results: Vec::with_capacity(boards),
                elapsed: Duration::ZERO,
                bytes: 0,
            },
            method,
            started: Instant::now(),
        }
    }

    /// Adds the answer to the next board.
    #[inline]
    fn add(&mut self, solved: Result<Solution, Fault>, moves: String) -> Result<(), Interrupted> {
        let (bytes, result) = match solved {
            Ok(found) => (
                BARE_SOLUTION_BYTES + moves.len(),
                board_result::Result::Solution(convert::solution(self.method, &found, moves, None)),
            ),
            Err(fault) => {
                let error = board_fault(fault)?.to_board_error();
                let bytes = BARE_ERROR_BYTES + error.encoded_len();
                (bytes, board_result::Result::Error(error))
            }
        };
        if self.part.bytes + bytes > PART_BYTES {
            let full = std::mem::take(&mut self.part);
            self.full.push(Part::List(full));
        }
        self.part.bytes += bytes;
        self.part.results.push(BoardResult {
            result: Some(result),
        });
        Ok(())
    }

    fn finish(mut self) -> Vec<Part> {
        // Of the whole piece: where it makes several parts, the others have none.
        self.part.elapsed = self.started.elapsed();
        self.full.push(Part::List(self.part));
        self.full
    }
}

pub(super) fn solve_list<'a>(
    workspace: &mut Workspace,
    boards: impl ExactSizeIterator<Item = BoardRef<'a>>,
    goal: Option<Board>,
    options: &SearchOptions,
    budget: &Budget<'_>,
) -> Result<Vec<Part>, Interrupted> {
    let mut parts = ListParts::new(boards.len(), options.method);
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
) -> Option<Result<Vec<Part>, Interrupted>> {
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
    let looked_up = catch_unwind(AssertUnwindSafe(|| {
        let mut parts = ListParts::new(count, Method::GoalTable);
        look_up(&goal, starts, |solutions, fetched| {
            let mut moves = String::new();
            let solved = fetched.map(|fetched| solutions.answer(fetched, detail, &mut moves));
            parts.add(solved, moves)
        })?;
        Ok(parts.finish())
    }));
    looked_up.ok().filter(|_| one_shape)
}

/// The room for the moves of a board: a little more than the mean of 3x3.
const TYPICAL_MOVES: usize = 24;

impl PackedPart {
    fn with_capacity(boards: usize) -> PackedPart {
        PackedPart {
            outcomes: Vec::with_capacity(boards),
            lengths: Vec::with_capacity(boards),
            // Most boards of a random batch take fewer moves.
            moves: String::with_capacity(boards * TYPICAL_MOVES),
            errors: Vec::new(),
            all_optimal: true,
            expanded: 0,
            generated: 0,
            elapsed: Duration::ZERO,
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
        let boards = self.outcomes.len();
        self.outcomes.extend(other.outcomes);
        self.lengths.extend(other.lengths);
        self.moves.push_str(&other.moves);
        self.errors.extend(
            other
                .errors
                .into_iter()
                .map(|(index, fault)| (boards + index, fault)),
        );
        self.all_optimal &= other.all_optimal;
        self.expanded += other.expanded;
        self.generated += other.generated;
        self.elapsed += other.elapsed;
        self.bytes += other.bytes;
    }
}

/// The parts that answer the boards of a packed piece.
struct PackedParts {
    full: Vec<Part>,
    part: PackedPart,
    started: Instant,
    /// The boards of the piece.
    boards: usize,
}

impl PackedParts {
    fn new(boards: usize) -> PackedParts {
        PackedParts {
            full: Vec::new(),
            part: PackedPart::with_capacity(boards),
            started: Instant::now(),
            boards,
        }
    }

    /// Where the moves of the next board are to be appended.
    #[inline]
    fn moves(&mut self) -> &mut String {
        &mut self.part.moves
    }

    /// Adds the answer to the next board, whose moves begin at `moves_before`.
    #[inline]
    fn add(
        &mut self,
        solved: Result<Solution, Fault>,
        moves_before: usize,
    ) -> Result<(), Interrupted> {
        // An outcome takes a byte, and no length is above 181,440: at most
        // three bytes.
        let bytes = 4 + match &solved {
            Ok(_) => self.part.moves.len() - moves_before,
            Err(_) => self.part.error_bytes(),
        };
        if self.part.bytes + bytes > PART_BYTES {
            self.begin_another(moves_before);
        }
        let part = &mut self.part;
        part.bytes += bytes;
        match solved {
            Ok(found) => {
                let (outcome, length, optimal) = convert::outcome(found.outcome);
                part.outcomes.push(outcome.into());
                part.lengths.push(length);
                part.all_optimal &= optimal || !matches!(found.outcome, Outcome::Solved { .. });
                part.expanded += found.expanded;
                part.generated += found.generated;
            }
            Err(fault) => {
                part.errors.push((part.outcomes.len(), board_fault(fault)?));
                part.outcomes.push(wire::Outcome::Error.into());
                part.lengths.push(0);
            }
        }
        Ok(())
    }

    #[cold]
    fn begin_another(&mut self, moves_before: usize) {
        self.boards -= self.part.outcomes.len();
        let mut next = PackedPart::with_capacity(self.boards);
        next.moves = self.part.moves.split_off(moves_before);
        let mut full = std::mem::replace(&mut self.part, next);
        full.elapsed = self.started.elapsed();
        self.started = Instant::now();
        self.full.push(Part::Packed(full));
    }

    fn finish(mut self) -> Vec<Part> {
        self.part.elapsed = self.started.elapsed();
        self.full.push(Part::Packed(self.part));
        self.full
    }
}

pub(super) fn solve_packed(
    workspace: &mut Workspace,
    tiles: &[u8],
    shape: Shape,
    goal: &Board,
    options: &SearchOptions,
    budget: &Budget<'_>,
) -> Result<Vec<Part>, Interrupted> {
    let mut parts = PackedParts::new(tiles.len() / shape.cells());
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

/// Finds boards of the goal's shape in the goal table, and tells what it has of
/// them, in order.
#[inline]
fn look_up<E>(
    goal: &Board,
    mut starts: impl Iterator<Item = Result<Board, E>>,
    mut answer: impl FnMut(&Solutions, Result<Fetched, E>) -> Result<(), Interrupted>,
) -> Result<(), Interrupted> {
    let solutions = Solutions::to(goal);
    loop {
        let mut together = [const { Ok(Found::NONE) }; FOUND_TOGETHER];
        let mut boards = 0;
        for (found, start) in together.iter_mut().zip(&mut starts) {
            *found = start.map(|start| {
                #[cfg(feature = "panic-injection")]
                super::panic_injection::panic_at(&start);
                solutions.find(&start)
            });
            boards += 1;
        }
        let fetched = together.map(|found| found.map(|found| solutions.fetch(found)));
        for fetched in fetched.into_iter().take(boards) {
            answer(&solutions, fetched)?;
        }
        if boards < FOUND_TOGETHER {
            return Ok(());
        }
    }
}

/// [`solve_packed`] by the goal table: answers are so cheap that what is the
/// same for all boards is done once. `None` where a board made it panic.
pub(super) fn look_up_packed(
    tiles: &[u8],
    shape: Shape,
    goal: &Board,
    detail: Detail,
) -> Option<Result<Vec<Part>, Interrupted>> {
    catch_unwind(AssertUnwindSafe(|| {
        let mut parts = PackedParts::new(tiles.len() / shape.cells());
        let boards = tiles.chunks_exact(shape.cells());
        let starts = boards.map(|board| Board::from_bytes(shape, board));
        look_up(goal, starts, |solutions, fetched| {
            let moves_before = parts.moves().len();
            let solved = fetched
                .map(|fetched| solutions.answer(fetched, detail, parts.moves()))
                .map_err(Fault::Board);
            parts.add(solved, moves_before)
        })?;
        Ok(parts.finish())
    }))
    .ok()
}

impl Part {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Part::List(part) => part.bytes,
            Part::Packed(part) => part.bytes,
        }
    }

    pub(super) fn boards(&self) -> usize {
        match self {
            Part::List(part) => part.results.len(),
            Part::Packed(part) => part.outcomes.len(),
        }
    }
}
