//! From a board to an index: the place of a state among all that reach a goal.
//!
//! A state is a cell for the blank and an *arrangement*: the tiles in reading
//! order, the blank left out. With the tiles relabelled so that the goal's
//! arrangement is the identity, every goal with its blank in the same cell is
//! the same goal. The parity of a reachable arrangement follows from the
//! blank's row, and of two arrangements with the Cantor ranks `2k` and `2k + 1`
//! one is even and one odd, so `cell * (cells - 1)! / 2 + rank / 2` counts the
//! reachable states without a gap: 181,440 of a 3x3 board.

#![expect(
    clippy::indexing_slicing,
    reason = "indices are masked to the length of their array, or are cells"
)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "ranks are below 8! and cells below 9"
)]

use crate::puzzle::{Board, MAX_CELLS, Shape};

/// Arrangements are ranked eight items at a time; shorter ones are led by the
/// smallest items in order, which leaves the rank as it is.
const ITEMS: usize = MAX_CELLS - 1;

/// Bits of an item in a packed arrangement; the first item is the lowest.
const ITEM_BITS: usize = 3;

/// Bits of half the items.
const HALF_BITS: usize = ITEM_BITS * ITEMS / 2;
const HALF_MASK: u32 = (1 << HALF_BITS) - 1;

/// A digit of the Cantor rank counts the smaller items to the right. For the
/// first four items that is the item less the smaller ones to its *left*, and
/// for the last four only those four matter: so each half of a packed
/// arrangement gives its part of the rank by itself, in one look-up.
///
/// An entry is half the part of the rank, shifted left by two, plus the parity
/// of the digits: two parities add up to at most 2 and never reach the rank.
static FIRST_HALF: [u32; 1 << HALF_BITS] = half_ranks(true);
static LAST_HALF: [u32; 1 << HALF_BITS] = half_ranks(false);

const fn half_ranks(first: bool) -> [u32; 1 << HALF_BITS] {
    let mut table = [0; 1 << HALF_BITS];
    let mut packed = 0;
    while packed < table.len() {
        let mut rank = 0;
        let mut parity = 0;
        let mut place = 0;
        while place < ITEMS / 2 {
            let item = item_of(packed, place);
            let mut digit = if first { item } else { 0 };
            let mut other = if first { 0 } else { place + 1 };
            let end = if first { place } else { ITEMS / 2 };
            while other < end {
                if item_of(packed, other) < item {
                    // Packings that are no arrangement may go below zero.
                    digit = if first {
                        digit.saturating_sub(1)
                    } else {
                        digit + 1
                    };
                }
                other += 1;
            }
            let right = if first { ITEMS } else { ITEMS / 2 } - 1 - place;
            rank += digit as u32 * crate::puzzle::cantor::factorial(right);
            parity ^= digit as u32 & 1;
            place += 1;
        }
        table[packed] = (rank / 2) << 2 | parity;
        packed += 1;
    }
    table
}

const fn item_of(packed: usize, place: usize) -> usize {
    (packed >> (ITEM_BITS * place)) & ((1 << ITEM_BITS) - 1)
}

/// A state: where the blank is, and half the Cantor rank of the arrangement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The cell of the blank.
    pub(super) cell: usize,
    /// Half the rank of the arrangement, which decides it together with the
    /// parity that the cell implies.
    pub(super) half: u32,
}

impl Place {
    /// The tiles in the goal's order and the blank in this cell: where the
    /// goal is.
    #[inline]
    pub(super) fn of_goal(cell: usize) -> Place {
        Place { cell, half: 0 }
    }
}

/// New names for the tiles, by which a goal's arrangement is the identity.
pub(super) struct Labels {
    shape: Shape,
    goal_blank: usize,
    labels: [u8; 16],
}

impl Labels {
    /// The names that this goal gives.
    #[inline]
    pub(super) fn new(goal: &Board) -> Labels {
        let leading = MAX_CELLS - goal.shape().cells();
        let mut labels = [0; 16];
        for (cell, &tile) in goal.padded().iter().enumerate() {
            let item = cell - usize::from(cell > goal.blank()) + leading;
            labels[usize::from(tile) & 15] = item as u8;
        }
        // The blank, and the places that a smaller board leaves empty.
        labels[0] = 0;
        Labels {
            shape: goal.shape(),
            goal_blank: goal.blank(),
            labels,
        }
    }

    /// The place of a board of the goal's shape, or `None` where no moves lead
    /// from it to the goal: its parity is not what the blank's row asks for.
    #[inline]
    pub(super) fn place(&self, board: &Board) -> Option<Place> {
        let mut packed = 0;
        for (cell, &tile) in board.padded().iter().enumerate() {
            let label = self.labels[usize::from(tile) & 15];
            packed |= u32::from(label) << (ITEM_BITS * cell);
        }
        let cell = board.blank();
        let before = packed & ((1 << (ITEM_BITS * cell)) - 1);
        let after = packed >> (ITEM_BITS * (cell + 1)) << (ITEM_BITS * cell);
        let leading = MAX_CELLS - self.shape.cells();
        let packed = (before | after) << (ITEM_BITS * leading) | leading_items(leading);
        let first = FIRST_HALF[(packed & HALF_MASK) as usize];
        let last = LAST_HALF[(packed >> HALF_BITS & HALF_MASK) as usize];
        let sum = first + last;
        let expected = phase(self.shape, cell) ^ phase(self.shape, self.goal_blank);
        (sum & 1 == expected).then_some(Place {
            cell,
            half: sum >> 2,
        })
    }
}

/// `0, 1, 2 ...` packed, so many of them.
#[inline]
fn leading_items(count: usize) -> u32 {
    const ALL: u32 = 0o76_543_210;
    ALL & ((1 << (ITEM_BITS * count)) - 1)
}

/// The parity of an arrangement with the blank in this cell, if that of one
/// with the blank in the first row is 0. A move between rows takes a tile past
/// `columns - 1` others, so it matters for even numbers of columns alone.
#[inline]
pub(super) fn phase(shape: Shape, cell: usize) -> u32 {
    let columns = shape.columns();
    if columns.is_multiple_of(2) {
        (cell / columns) as u32 & 1
    } else {
        0
    }
}
