//! From a board to an index: the place of a state among all that reach a goal.
//!
//! A state is a cell for the blank and an *arrangement*: the tiles in reading
//! order, the blank left out. With the tiles relabelled so that the goal's
//! arrangement is the identity, every goal with its blank in the same cell is
//! the same goal. The parity of a reachable arrangement follows from the
//! blank's row, so the last two digits of its Cantor rank tell nothing new.
//! What is left, *half a rank*, counts 20,160 arrangements of a 3x3 board.
//!
//! It is kept so that the moves change few of its bits. A move between rows
//! takes one tile past two others, which changes three digits next to each
//! other. The first three digits have nine bits of their own, the next three
//! the six below: a move near the end of the board then changes the low bits
//! alone, and what they become is a table of 128 bytes instead of 40 KB. For
//! that the lowest of the nine is the parity of the first three digits, which
//! together with the low bits decides the seventh digit.

#![expect(
    clippy::indexing_slicing,
    reason = "indices are masked to the length of their array, or are cells"
)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "ranks are below 8! and cells below 9"
)]

use crate::puzzle::{Board, MAX_CELLS, Shape, cantor};

/// Arrangements are ranked eight items at a time; shorter ones are led by the
/// smallest items in order, which leaves the rank as it is.
const ITEMS: usize = MAX_CELLS - 1;

/// Bits of an item in a packed arrangement; the first item is the lowest.
const ITEM_BITS: usize = 3;

/// Bits of half the items.
const HALF_BITS: usize = ITEM_BITS * ITEMS / 2;
const HALF_MASK: u32 = (1 << HALF_BITS) - 1;

/// Bits of the last three digits of half a rank.
pub(super) const LOW_BITS: u32 = 6;

/// The fourth digit counts to 5, the fifth to 4 and the sixth to 3.
const LOWS: u32 = 5 * 4 * 3;

/// More than any half rank: those of the first three digits, to 8, 7 and 6.
pub(super) const HALVES: u32 = (8 * 7 * 6) << LOW_BITS;

/// The first four digits' part of half a rank.
const fn first_part(digits: [u32; 4]) -> u32 {
    let [a, b, c, d] = digits;
    let high = ((a * 7 + b) * 3 + c / 2) * 2 + (a + b + c) % 2;
    (high << LOW_BITS) + d * 12
}

/// The next two digits' part.
const fn last_part(digits: [u32; 2]) -> u32 {
    digits[0] * 3 + digits[1]
}

/// The digits of the Cantor rank of an arrangement of that parity, if this is
/// half a rank.
pub(super) fn digits_of(half: u32, parity: u32) -> Option<[u8; ITEMS]> {
    let (high, low) = (half >> LOW_BITS, half & ((1 << LOW_BITS) - 1));
    if half >= HALVES || low >= LOWS {
        return None;
    }
    let (a, b) = (high / 42, high / 6 % 7);
    let c = high / 2 % 3 * 2 + ((high ^ a ^ b) & 1);
    let (d, e, f) = (low / 12, low / 3 % 4, low % 3);
    let g = (a + b + c + d + e + f + parity) & 1;
    Some([a, b, c, d, e, f, g, 0].map(|digit| digit as u8))
}

/// Half the rank that has these digits.
pub(super) fn half_of_digits(digits: [u8; ITEMS]) -> u32 {
    let [a, b, c, d, e, f, ..] = digits.map(u32::from);
    first_part([a, b, c, d]) + last_part([e, f])
}

/// Half the ranks of all arrangements of a shape: those with no digit before
/// its items'.
pub(super) fn halves(shape: Shape) -> impl Iterator<Item = u32> {
    let leading = MAX_CELLS - shape.cells();
    (0..HALVES).filter(move |&half| {
        digits_of(half, 0).is_some_and(|digits| digits[..leading].iter().all(|&digit| digit == 0))
    })
}

/// Writes the arrangement of that parity with this half of a rank: the items
/// `0..items.len()` in their order.
pub(super) fn arrange(half: u32, parity: u32, items: &mut [u8]) {
    let digits = digits_of(half, parity).unwrap_or_default();
    let rank = digits.iter().enumerate().fold(0, |rank, (place, &digit)| {
        rank * (ITEMS - place) as u32 + u32::from(digit)
    });
    cantor::unrank(rank, items);
}

/// A digit of the Cantor rank counts the smaller items to the right. For the
/// first four items that is the item less the smaller ones to its *left*, and
/// for the last four only those four matter: so each half of a packed
/// arrangement gives its part of half the rank by itself, in one look-up.
///
/// An entry is that part, shifted left by two, plus the parity of the digits:
/// two parities add up to at most 2 and never reach the rank.
static FIRST_HALF: [u32; 1 << HALF_BITS] = half_ranks(true);
static LAST_HALF: [u32; 1 << HALF_BITS] = half_ranks(false);

const fn half_ranks(first: bool) -> [u32; 1 << HALF_BITS] {
    let mut table = [0; 1 << HALF_BITS];
    let mut packed = 0;
    while packed < table.len() {
        let mut digits = [0; ITEMS / 2];
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
            digits[place] = digit as u32;
            parity ^= digit as u32 & 1;
            place += 1;
        }
        let part = if first {
            first_part(digits)
        } else {
            last_part([digits[0], digits[1]])
        };
        table[packed] = part << 2 | parity;
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
