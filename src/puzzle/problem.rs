//! A start and a goal.

use super::{Board, Shape};

/// A start and a goal of the same shape, and so of the same tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    start: Board,
    goal: Board,
}

/// The start and the goal differ in shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the goal is a {goal} board and the board is {start}: both must have the same shape")]
pub struct GoalMismatch {
    /// The start's shape.
    pub start: Shape,
    /// The goal's shape.
    pub goal: Shape,
}

impl Problem {
    /// The problem of getting from `start` to `goal`.
    ///
    /// # Errors
    /// [`GoalMismatch`] where their shapes differ.
    #[inline]
    pub fn new(start: Board, goal: Board) -> Result<Problem, GoalMismatch> {
        if start.shape() == goal.shape() {
            Ok(Problem { start, goal })
        } else {
            Err(GoalMismatch {
                start: start.shape(),
                goal: goal.shape(),
            })
        }
    }

    /// The problem of getting from `start` to the standard goal of its shape.
    #[inline]
    pub fn to_standard_goal(start: Board) -> Problem {
        Problem {
            start,
            goal: Board::standard_goal(start.shape()),
        }
    }

    /// Where it begins.
    #[inline]
    pub fn start(&self) -> &Board {
        &self.start
    }

    /// Where it ends.
    #[inline]
    pub fn goal(&self) -> &Board {
        &self.goal
    }

    /// The shape of both.
    #[inline]
    pub fn shape(&self) -> Shape {
        self.start.shape()
    }

    /// Whether any moves lead from the start to the goal: exactly where both
    /// have the same parity (W. W. Johnson and W. E. Story, "Notes on the '15'
    /// Puzzle", 1879).
    pub fn is_solvable(&self) -> bool {
        parity(&self.start) == parity(&self.goal)
    }
}

/// What no move changes. A move along a row keeps the order of the tiles; one
/// between rows takes a tile past `columns - 1` others, which flips the parity
/// of inversions where that number is odd, and then the blank's row flips too.
fn parity(board: &Board) -> usize {
    let mut inversions = 0;
    let mut rest = board.tiles();
    while let Some((tile, right)) = rest.split_first() {
        if *tile != 0 {
            inversions += right
                .iter()
                .filter(|&other| *other != 0 && other < tile)
                .count();
        }
        rest = right;
    }
    let columns = board.shape().columns();
    let row = if columns.is_multiple_of(2) {
        board.blank() / columns
    } else {
        0
    };
    (inversions + row) % 2
}
