//! The answers to some boards of a message, in parts that fit in a response.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use prost::Message;

use super::compute::solve_board;
use super::convert;
use super::error::Fault;
use crate::puzzle::{Board, Problem, Shape};
use crate::search::goal_table::{Found, Solutions};
use crate::search::{Budget, Detail, Interrupted, Outcome, SearchOptions, Solution, Workspace};
use crate::wire::v1::{self as wire, BoardResult, board_result};

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

pub(super) fn solve_list(
    workspace: &mut Workspace,
    boards: &[wire::Board],
    goal: Option<Board>,
    options: &SearchOptions,
    budget: &Budget<'_>,
) -> Result<Vec<Part>, Interrupted> {
    let mut parts = Vec::new();
    let mut part = ListPart {
        results: Vec::with_capacity(boards.len()),
        elapsed: Duration::ZERO,
        bytes: 0,
    };
    let started = Instant::now();
    for board in boards {
        let mut moves = String::new();
        let solved = convert::board(Some(board))
            .map_err(Fault::Board)
            .and_then(|start| convert::problem(start, goal))
            .and_then(|problem| solve_board(workspace, &problem, options, budget, &mut moves));
        let result = match solved {
            Ok(found) => board_result::Result::Solution(convert::solution(
                options.method,
                &found,
                moves,
                None,
            )),
            Err(fault) => board_result::Result::Error(board_fault(fault)?.to_board_error()),
        };
        let result = BoardResult {
            result: Some(result),
        };
        // The field's tag and the length before it take at most 5 bytes.
        let bytes = result.encoded_len() + 5;
        if part.bytes + bytes > PART_BYTES {
            parts.push(Part::List(std::mem::take(&mut part)));
        }
        part.bytes += bytes;
        part.results.push(result);
    }
    // Of the whole piece: where it makes several parts, the others have none.
    part.elapsed = started.elapsed();
    parts.push(Part::List(part));
    Ok(parts)
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

/// How many boards are found in the goal table before the first of them is
/// answered: enough for their memory accesses to overlap.
const FOUND_TOGETHER: usize = 16;

/// [`solve_packed`] by the goal table: answers are so cheap that what is the
/// same for all boards is done once. `None` where a board made it panic.
pub(super) fn look_up_packed(
    tiles: &[u8],
    shape: Shape,
    goal: &Board,
    detail: Detail,
) -> Option<Result<Vec<Part>, Interrupted>> {
    catch_unwind(AssertUnwindSafe(|| {
        let solutions = Solutions::to(goal);
        let mut parts = PackedParts::new(tiles.len() / shape.cells());
        for together in tiles.chunks(FOUND_TOGETHER * shape.cells()) {
            let mut found = [const { Ok(Found::NONE) }; FOUND_TOGETHER];
            for (found, board) in found.iter_mut().zip(together.chunks_exact(shape.cells())) {
                *found = Board::from_bytes(shape, board).map(|start| {
                    #[cfg(feature = "panic-injection")]
                    super::panic_injection::panic_at(&start);
                    solutions.find(&start)
                });
            }
            let boards = together.len() / shape.cells();
            for found in found.into_iter().take(boards) {
                let moves_before = parts.moves().len();
                let solved = found
                    .map(|found| solutions.answer(found, detail, parts.moves()))
                    .map_err(Fault::Board);
                parts.add(solved, moves_before)?;
            }
        }
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
