//! Messages in pieces, and what solves one.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::super::compute::{expected_cost, piece_boards};
use super::super::parts::{Parts, look_up_list, look_up_packed, solve_list, solve_packed};
use super::message::{Batch, Boards};
use crate::puzzle::Shape;
use crate::search::goal_table::LastSolutions;
use crate::search::{Budget, Interrupted, Method, Workspace};

/// The most pieces whose answers are joined to one response: a slow method
/// shows progress every few milliseconds, a fast one fills its responses. The
/// number is fixed, and not what happens to be ready, so that equal requests
/// get equal answers.
const PIECES_PER_RESPONSE: usize = 8;

/// Some consecutive boards of a message.
pub(super) struct Piece {
    pub(super) batch: Arc<Batch>,
    pub(super) boards: Range<usize>,
    /// The response ends with this piece.
    pub(super) ends_response: bool,
}

impl Piece {
    pub(super) fn expected_cost(&self) -> Duration {
        expected_cost(&self.batch.options, self.boards.len())
    }

    pub(super) fn ends_message(&self) -> bool {
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
pub(super) struct Steps {
    batch: Arc<Batch>,
    next: usize,
    size: usize,
    number: usize,
}

impl Steps {
    pub(super) fn of(batch: Batch) -> Steps {
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

/// The answers to boards that are only to be looked up, if they are: that
/// needs no workspace. After a panic all is searched, board by board: it is one
/// board's answer that the panic costs.
pub(super) fn look_up(
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

pub(super) fn search_piece(
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

pub(super) fn solve_piece(
    workspace: &mut Workspace,
    piece: &Piece,
    budget: &Budget<'_>,
) -> Result<Parts, Interrupted> {
    let mut solutions = LastSolutions::default();
    look_up(&piece.batch, &piece.boards, budget, &mut solutions)
        .unwrap_or_else(|| search_piece(workspace, piece, budget))
}
