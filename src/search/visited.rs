//! Which states a search has seen, from which side, and by which move.
//!
//! One byte a state, at its Cantor index: five bits of *epoch*, one of side,
//! two of the move that led to the state. A byte with another epoch is from
//! another search and means nothing, so there is nothing to clear between
//! searches but once in 31, and a search that was broken off leaves nothing
//! behind.

#![expect(
    clippy::indexing_slicing,
    reason = "indices are those of states, for as many of which `begin` makes room"
)]

use super::index::Place;
use super::transitions::Transitions;
use crate::puzzle::Direction;

/// The end from which a state was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// From the start, forwards.
    Start = 0,
    /// From the goal, backwards.
    Goal = 4,
}

const EPOCH: u8 = 8;

/// A byte, as seen from a side of the running search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen(u8);

impl Seen {
    /// Neither side has reached the state.
    #[inline]
    pub(super) fn is_new(self) -> bool {
        self.0 >= EPOCH
    }

    /// The other side has reached the state.
    #[inline]
    pub(super) fn is_met(self) -> bool {
        self.0.wrapping_sub(4) < 4
    }
}

/// The byte that stands for a side of the running search, the move being 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag(u8);

impl Tag {
    /// What a byte of the array means to this side.
    #[inline]
    pub(super) fn read(self, byte: u8) -> Seen {
        Seen(byte ^ self.0)
    }

    /// The byte of a state to which this move led.
    #[inline]
    pub(super) fn mark(self, direction: u8) -> u8 {
        self.0 | direction
    }
}

/// A byte for each state.
#[derive(Default)]
pub(super) struct Visited {
    bytes: Vec<u8>,
    /// A multiple of [`EPOCH`], never 0 in a search.
    epoch: u8,
}

impl Visited {
    /// Forgets all states, and has room for so many.
    pub(super) fn begin(&mut self, states: usize) {
        if self.bytes.len() < states {
            self.bytes = vec![0; states];
        }
        self.epoch = self.epoch.wrapping_add(EPOCH);
        if self.epoch == 0 {
            self.bytes.fill(0);
            self.epoch = EPOCH;
        }
    }

    /// The bytes themselves, for the loops that run over them.
    #[inline]
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The tag of a side in this search.
    #[inline]
    pub(super) fn tag(&self, side: Side) -> Tag {
        Tag(self.epoch | side as u8)
    }

    /// Marks the state a side begins with.
    #[inline]
    pub(super) fn root(&mut self, index: usize, side: Side) {
        self.bytes[index] = self.tag(side).mark(0);
    }

    /// The move that led to a state of this search.
    #[inline]
    fn direction(&self, index: usize) -> Direction {
        Direction::ALL[usize::from(self.bytes[index] & 3)]
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
            let direction = self.direction(transitions.index(place));
            tell(direction);
            place = transitions.step(place, direction.opposite());
        }
    }
}
