//! One side of a breadth-first search: its levels, and how to get the next.
//!
//! All levels are kept. A state's list tells by which move it was reached, so
//! the way back is looked up there, once, and nothing but a mark has to be
//! noted at each of the thousands of states that the way does not use.

#![expect(
    clippy::cast_possible_truncation,
    reason = "levels, and places in lists, are far below 32 bits"
)]
#![expect(
    clippy::indexing_slicing,
    reason = "indices are states' and masked places in lists"
)]

use std::ops::Range;

use super::arrays::filled_box;
use super::eight::Eight;
use super::index::Place;
use super::meter::{Meter, Stop};
use super::transitions::{
    Packed, Transitions, arrival_of, half_of, index_of, pack, pack_root, unpack,
};
use super::visited::{Side, View, Visited};
use crate::puzzle::{Direction, Shape};

/// Room for every level: the larger boards but 3x3 have 20,160 states.
const ROOM: usize = 1 << 15;

/// More than the levels of any search: 2x4 has the most, 37.
const LEVELS: usize = 40;

/// The number of states from which on [`Eight`] is quicker: it is dear to
/// begin with a list, and each level has twelve.
const LARGE: usize = 32;

/// One side of a search: its states, level by level.
pub(super) struct Frontier {
    /// The levels of a small board, and the small ones of 3x3.
    few: Box<[Packed; ROOM]>,
    /// Where these levels end.
    ends: [u32; LEVELS],
    /// The levels since they became large.
    many: Eight,
    /// The level that those began with.
    many_from: usize,
    /// The latest level, which is not expanded.
    depth: usize,
}

/// Where two sides met: a move from a state of the side that was expanded to
/// one of the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meeting {
    /// The state that was expanded.
    pub(super) from: Packed,
    /// The move.
    pub(super) direction: Direction,
    /// The other side's state.
    pub(super) to: Place,
}

impl Frontier {
    /// An empty one. This is where its memory is allocated.
    pub(super) fn new() -> Frontier {
        Frontier {
            few: filled_box(0),
            ends: [0; LEVELS],
            many: Eight::new(),
            many_from: usize::MAX,
            depth: 0,
        }
    }

    /// Makes it one state.
    pub(super) fn begin(&mut self, root: Place) {
        self.few[0] = pack_root(root);
        self.ends[0] = 1;
        self.many_from = usize::MAX;
        self.depth = 0;
    }

    fn is_large(&self) -> bool {
        self.depth >= self.many_from
    }

    /// The number of states of the latest level.
    #[inline]
    pub(super) fn length(&self) -> usize {
        if self.is_large() {
            self.many.length()
        } else {
            self.few_at(self.depth).len()
        }
    }

    /// The places of a level among the few.
    fn few_at(&self, level: usize) -> Range<usize> {
        let begin = level.checked_sub(1).map_or(0, |before| self.ends[before]);
        begin as usize..self.ends[level] as usize
    }

    /// The number of levels before the latest.
    #[inline]
    pub(super) fn depth(&self) -> u32 {
        self.depth as u32
    }

    /// Goes on to the next level, or stops where the other side is met.
    ///
    /// # Errors
    /// [`Stop`] where the search may not go on.
    pub(super) fn expand(
        &mut self,
        transitions: &Transitions,
        visited: &mut Visited,
        side: Side,
        meter: &mut Meter<'_>,
    ) -> Result<Option<Meeting>, Stop> {
        let added = transitions.added();
        if !self.is_large() && transitions.shape() == Shape::EIGHT {
            let level = self.few_at(self.depth);
            if level.len() >= LARGE {
                self.many.begin(&self.few[level]);
                self.many_from = self.depth;
            }
        }
        let view = visited.of(side);
        let met = if self.is_large() {
            self.many.expand(transitions, view, meter)?
        } else {
            self.expand_few(transitions, view, meter)?
        };
        let view = visited.of(side);
        let meeting = met.and_then(|state| {
            transitions.exits(state).iter().find_map(|exit| {
                let next = added.follow(exit, half_of(state));
                view.is_met(index_of(next)).then(|| Meeting {
                    from: state,
                    direction: exit.direction,
                    to: unpack(next),
                })
            })
        });
        self.depth += usize::from(meeting.is_none());
        Ok(meeting)
    }

    /// Expands a level of any shape, up to the first state that meets the
    /// other side.
    fn expand_few(
        &mut self,
        transitions: &Transitions,
        mut visited: View<'_>,
        meter: &mut Meter<'_>,
    ) -> Result<Option<Packed>, Stop> {
        let added = transitions.added();
        let level = self.few_at(self.depth);
        let (known, next) = self.few.split_at_mut(level.end);
        let mut end = 0;
        // The one state of the first level has no way back.
        let back = u64::from(self.depth > 0);
        let mut rest = &known[level.start..];
        while !rest.is_empty() {
            let (chunk, others) = rest.split_at(meter.grant(rest.len())?);
            rest = others;
            let mut onward = 0;
            for (position, &state) in chunk.iter().enumerate() {
                let exits = transitions.exits(state);
                onward += exits.len() as u64;
                for exit in exits {
                    let successor = added.follow(exit, half_of(state));
                    let seen = visited.mark(index_of(successor));
                    if seen.is_met {
                        let expanded = position + 1;
                        meter.spend(expanded, onward + back * expanded as u64);
                        return Ok(Some(state));
                    }
                    next[end] = successor;
                    end += usize::from(seen.is_new);
                }
            }
            meter.spend(chunk.len(), onward + back * chunk.len() as u64);
        }
        self.ends[self.depth + 1] = (level.end + end) as u32;
        Ok(None)
    }

    /// The state of this place in the latest level.
    pub(super) fn latest(&self, place: Place) -> Packed {
        self.find(place, self.depth, None)
    }

    /// Goes from a state of the latest level back to where the side began, and
    /// tells the moves that led here, the last one first.
    pub(super) fn walk_back(
        &self,
        transitions: &Transitions,
        from: Packed,
        mut tell: impl FnMut(Direction),
    ) {
        let mut state = from;
        for level in (0..self.depth).rev() {
            let arrival = arrival_of(state);
            tell(arrival);
            let back = arrival.opposite();
            state = self.find(transitions.step(unpack(state), back), level, Some(back));
        }
    }

    /// The state of this place in a level; the move that led there was not
    /// `other`.
    fn find(&self, place: Place, level: usize, other: Option<Direction>) -> Packed {
        if let Some(level) = level.checked_sub(self.many_from) {
            let arrival = self.many.arrival(place, level, other);
            return pack(place.cell, arrival as u32, place.half);
        }
        let index = place.index();
        let mut few = self.few[self.few_at(level)].iter();
        // Each state of a way is in its level.
        few.find(|&&state| index_of(state) == index)
            .copied()
            .unwrap_or_else(|| pack_root(place))
    }
}

#[cfg(test)]
mod tests {
    use super::super::visited::Side;
    use super::super::{Budget, SearchOptions};
    use super::*;

    /// From each cell of the blank to the last level: that is every search
    /// there can be, as tiles are only names. What there is room for is
    /// enough, and every state comes up once.
    #[test]
    fn every_level_of_every_board_fits() {
        let (mut most_taken, mut most_few, mut deepest) = (0, 0, 0);
        for shape in Shape::ALL {
            for cell in 0..shape.cells() {
                let transitions = Transitions::of(shape, cell);
                let mut visited = Visited::new();
                let mut frontier = Frontier::new();
                let options = SearchOptions::default();
                let mut meter = Meter::new(&options, &Budget::UNLIMITED);
                let root = Place::of_goal(cell);
                visited.begin();
                visited.of(Side::Start).root(root);
                frontier.begin(root);
                let mut states = 0;
                while frontier.length() > 0 {
                    states += frontier.length();
                    deepest = deepest.max(frontier.depth);
                    let met = frontier.expand(transitions, &mut visited, Side::Start, &mut meter);
                    assert!(met.unwrap().is_none());
                    if frontier.is_large() {
                        most_taken = most_taken.max(frontier.many.taken());
                    } else {
                        most_few = most_few.max(frontier.few_at(frontier.depth).end);
                    }
                }
                assert_eq!(states, transitions.places().count(), "{shape} {cell}");
            }
        }
        assert_eq!((most_taken, most_few, deepest), (290_659, 20_160, 36));
    }
}
