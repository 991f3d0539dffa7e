//! Which states a search has seen, from which side, and by which move.
//!
//! One byte a state, at its Cantor index: five bits of *epoch*, one of side,
//! two of the move that led to the state. A byte with another epoch is from
//! another search and means nothing, so there is nothing to clear between
//! searches but once in 31, and a search that was broken off leaves nothing
//! behind.

#![expect(
    clippy::indexing_slicing,
    reason = "indices are those of states, for all of which `begin` makes room"
)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "epoch, side and move fill a byte"
)]

use std::hint::select_unpredictable;

use super::index::{HALVES, Place};
use super::transitions::{HALF_BITS, INDICES, Transitions};
use crate::puzzle::{Direction, MAX_CELLS};

/// The end from which a state was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// From the start, forwards.
    Start = 0,
    /// From the goal, backwards.
    Goal = 4,
}

const SIDE: u32 = 4;
const EPOCH: u32 = 8;

/// A byte, as seen from a side of the running search: below 4 where the other
/// side has reached the state, then four values for this side, and the rest
/// for nobody.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen(u32);

impl Seen {
    /// Reached by this side, by that move.
    #[inline]
    pub(super) const fn by(direction: Direction) -> Seen {
        Seen(SIDE | direction as u32)
    }

    /// The move by which a side has reached the state.
    #[inline]
    pub(super) fn direction(self) -> Direction {
        Direction::ALL[self.0 as usize & 3]
    }

    /// Neither side has reached the state.
    #[inline]
    pub(super) fn is_new(self) -> bool {
        self.0 >= EPOCH
    }

    /// The other side has reached the state.
    #[inline]
    pub(super) fn is_met(self) -> bool {
        self.0 < SIDE
    }
}

/// What stands for a side of the running search in the bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    /// The byte of a state that the other side reached by move 0.
    other: u32,
}

impl Tag {
    /// Marks a state as reached, if neither side has reached it before, and
    /// tells what was known. There is no branch in it.
    #[inline]
    pub(super) fn mark(self, byte: &mut u8, reached: Seen) -> Seen {
        let seen = self.read(*byte);
        let next = select_unpredictable(seen.is_new(), reached, seen);
        *byte = (next.0 ^ self.other) as u8;
        seen
    }

    /// What is known of a state.
    #[inline]
    pub(super) fn read(self, byte: u8) -> Seen {
        Seen(u32::from(byte) ^ self.other)
    }
}

/// A byte for each index.
pub(super) struct Visited {
    bytes: Box<[u8; INDICES]>,
    /// A multiple of [`EPOCH`] that fits in a byte, and never 0 in a search.
    epoch: u32,
}

impl Visited {
    /// One that is ready for [`Visited::begin`].
    pub(super) fn new() -> Visited {
        Visited {
            bytes: filled_box(0),
            epoch: 0,
        }
    }

    /// Forgets all states.
    pub(super) fn begin(&mut self) {
        self.epoch += EPOCH;
        if self.epoch > u32::from(u8::MAX) {
            clear(&mut self.bytes);
            self.epoch = EPOCH;
        }
    }

    /// The bytes themselves, for the loops that run over them.
    #[inline]
    pub(super) fn bytes(&mut self) -> &mut [u8; INDICES] {
        &mut self.bytes
    }

    /// The tag of a side in this search.
    #[inline]
    pub(super) fn tag(&self, side: Side) -> Tag {
        Tag {
            other: self.epoch | (side as u32 ^ SIDE),
        }
    }

    /// Marks the state a side begins with.
    #[inline]
    pub(super) fn root(&mut self, root: Place, side: Side) {
        let reached = Seen::by(Direction::Up);
        self.tag(side).mark(&mut self.bytes[root.index()], reached);
    }

    /// Goes from a state back to where its side began, `depth` moves away, and
    /// tells the moves that led here, the last one first.
    pub(super) fn walk_back(
        &self,
        transitions: &Transitions,
        from: Place,
        depth: u32,
        mut tell: impl FnMut(Direction),
    ) {
        let mut place = from;
        for _ in 0..depth {
            let direction = Seen(u32::from(self.bytes[place.index()])).direction();
            tell(direction);
            place = transitions.step(place, direction.opposite());
        }
    }
}

/// Makes all that is kept of states 0, and leaves the gaps between indices
/// alone: their memory was never taken.
pub(super) fn clear<T: Copy + Default>(array: &mut [T; INDICES]) {
    fill(array, T::default());
}

/// Makes all that is kept of states this value.
pub(super) fn fill<T: Copy>(array: &mut [T; INDICES], value: T) {
    for of_cell in array.chunks_mut(1 << HALF_BITS).take(MAX_CELLS) {
        of_cell[..HALVES as usize].fill(value);
    }
}

/// An array that was never on the stack. The memory of zeros is taken page by
/// page as it is written to.
pub(super) fn filled_box<T: Copy, const N: usize>(value: T) -> Box<[T; N]> {
    match vec![value; N].into_boxed_slice().try_into() {
        Ok(array) => array,
        // The vector is `N` long, so this is not reached.
        Err(_) => from_the_stack(value),
    }
}

/// Apart from [`filled_box`]: what its callers are given of the stack would
/// have room for the array where the compiler does not optimise.
#[cold]
#[inline(never)]
fn from_the_stack<T: Copy, const N: usize>(value: T) -> Box<[T; N]> {
    Box::new([value; N])
}
