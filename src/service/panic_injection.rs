//! A board whose search panics, to test what a panic costs. Only with the
//! feature `panic-injection`, which is for tests alone.

use crate::puzzle::Board;

/// The board, row by row.
const BOARD: [u8; 9] = [8, 7, 6, 5, 4, 3, 2, 1, 0];

/// Panics where the search starts at that board.
pub(super) fn panic_at(start: &Board) {
    assert!(start.tiles() != BOARD, "a panic was injected into a search");
}
