//! Which states a breadth-first search has reached, and from which side.
//!
//! One byte a state, at its Cantor index: seven bits of *epoch* and one of
//! side. A lower epoch is from an earlier search and means nothing, so there is
//! nothing to clear between searches but once in 127, and a search that was
//! broken off leaves nothing behind. By which move a state was reached is not
//! kept here: it is in the list that has the state.
//!
//! A bit a state would fit in the first cache, and is slower: states that are
//! marked one after the other are often in the same word, and each would have
//! to wait for the one before.

#![expect(
    clippy::indexing_slicing,
    reason = "indices are masked to the length of the array"
)]

use super::arrays::{clear, filled_box};
use super::index::Place;
use super::transitions::INDICES;

/// The end from which a state was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// From the start, forwards.
    Start = 0,
    /// From the goal, backwards.
    Goal = 1,
}

/// From one epoch to the next: the bit below is the side.
const EPOCH: u8 = 2;

/// What a side knew of a state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Not reached by this side.
    pub(super) is_new: bool,
    /// Reached by the other side.
    pub(super) is_met: bool,
}

/// The bit of the side.
const SIDE: u8 = Side::Start as u8 ^ Side::Goal as u8;

/// A byte for each index.
pub(super) struct Visited {
    bytes: Box<[u8; INDICES]>,
    /// A multiple of [`EPOCH`], and never 0 in a search.
    epoch: u8,
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
        self.epoch = self.epoch.wrapping_add(EPOCH);
        if self.epoch == 0 {
            clear(&mut self.bytes);
            self.epoch = EPOCH;
        }
    }

    /// What a side sees.
    #[inline]
    pub(super) fn of(&mut self, side: Side) -> View<'_> {
        View {
            own: self.epoch | side as u8,
            bytes: &mut self.bytes,
        }
    }
}

/// The states as seen from a side.
pub(super) struct View<'a> {
    bytes: &'a mut [u8; INDICES],
    /// The byte of a state that this side has reached.
    own: u8,
}

impl View<'_> {
    /// Marks a state as reached, if the other side has not reached it, and
    /// tells what was known.
    #[inline(always)]
    pub(super) fn mark(&mut self, index: usize) -> Seen {
        let byte = &mut self.bytes[index & (INDICES - 1)];
        let seen = *byte;
        let is_met = seen == self.own ^ SIDE;
        if !is_met {
            *byte = self.own;
        }
        Seen {
            is_new: seen < (self.own & !SIDE),
            is_met,
        }
    }

    /// Whether the other side has reached a state.
    #[inline]
    pub(super) fn is_met(&self, index: usize) -> bool {
        self.bytes[index & (INDICES - 1)] == self.own ^ SIDE
    }

    /// Marks the state a side begins with.
    #[inline]
    pub(super) fn root(&mut self, root: Place) {
        self.mark(root.index());
    }
}
