//! The states of one level of a breadth-first search, and how to get the next.

#![expect(
    clippy::indexing_slicing,
    reason = "indices are states' and masked places in lists"
)]

use super::eight::Eight;
use super::index::Place;
use super::meter::{Meter, Stop};
use super::transitions::{INDICES, Packed, Transitions, half_of, index_of, pack_root, unpack};
use super::visited::{Tag, Visited, filled_box};
use crate::puzzle::{Direction, Shape};

/// Room in a list: no board but 3x3, whose large levels [`Eight`] has, has
/// more than 1,999 states in one.
const ROOM: usize = 1 << 12;

/// The number of states from which on [`Eight`] is quicker: it is dear to
/// begin with a list, and each level has twelve.
const LARGE: usize = 32;

/// One level of one side.
pub(super) struct Frontier {
    /// The level, as long as it is small or the board is.
    few: Box<[Packed; ROOM]>,
    /// The number of states in `few`.
    length: usize,
    /// Where the next level goes to.
    next: Box<[Packed; ROOM]>,
    /// The level, once it is large.
    many: Eight,
    is_large: bool,
    depth: u32,
}

/// Where two sides met: a move from a state of the side that was expanded to
/// one of the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meeting {
    /// The state that was expanded.
    pub(super) from: Place,
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
            length: 0,
            next: filled_box(0),
            many: Eight::new(),
            is_large: false,
            depth: 0,
        }
    }

    /// Makes it one state.
    pub(super) fn begin(&mut self, root: Place) {
        self.few[0] = pack_root(root);
        self.length = 1;
        self.is_large = false;
        self.depth = 0;
    }

    /// The number of states.
    #[inline]
    pub(super) fn length(&self) -> usize {
        if self.is_large {
            self.many.length()
        } else {
            self.length
        }
    }

    /// The number of levels before this one.
    #[inline]
    pub(super) fn depth(&self) -> u32 {
        self.depth
    }

    /// Replaces the level by the next one, or stops where the other side is met.
    ///
    /// # Errors
    /// [`Stop`] where the search may not go on.
    pub(super) fn expand(
        &mut self,
        transitions: &Transitions,
        visited: &mut Visited,
        tag: Tag,
        meter: &mut Meter<'_>,
    ) -> Result<Option<Meeting>, Stop> {
        let ranks = transitions.ranks();
        let visited = visited.bytes();
        if !self.is_large && self.length >= LARGE && transitions.shape() == Shape::EIGHT {
            self.many.begin(&self.few[..self.length]);
            self.is_large = true;
        }
        let met = if self.is_large {
            self.many.expand(transitions, visited, tag, meter)?
        } else {
            self.expand_few(transitions, visited, tag, meter)?
        };
        let meeting = met.and_then(|state| {
            transitions.exits(state).iter().find_map(|exit| {
                let next = ranks.follow(exit, half_of(state));
                let seen = tag.read(visited[index_of(next)]);
                seen.is_met().then(|| Meeting {
                    from: unpack(state),
                    direction: exit.reached.direction(),
                    to: unpack(next),
                })
            })
        });
        self.depth += u32::from(meeting.is_none());
        Ok(meeting)
    }

    /// Expands a level of any shape, up to the first state that meets the
    /// other side.
    fn expand_few(
        &mut self,
        transitions: &Transitions,
        visited: &mut [u8; INDICES],
        tag: Tag,
        meter: &mut Meter<'_>,
    ) -> Result<Option<Packed>, Stop> {
        let ranks = transitions.ranks();
        let next = &mut self.next;
        let mut end = 0;
        // The one state of the first level has no way back.
        let back = u64::from(self.depth > 0);
        let mut rest = &self.few[..self.length];
        while !rest.is_empty() {
            let (chunk, others) = rest.split_at(meter.grant(rest.len())?);
            rest = others;
            let mut onward = 0;
            for (position, &state) in chunk.iter().enumerate() {
                let exits = transitions.exits(state);
                onward += exits.len() as u64;
                for exit in exits {
                    let successor = ranks.follow(exit, half_of(state));
                    let seen = tag.mark(&mut visited[index_of(successor)], exit.reached);
                    if seen.is_met() {
                        let expanded = position + 1;
                        meter.spend(expanded, onward + back * expanded as u64);
                        return Ok(Some(state));
                    }
                    next[end] = successor;
                    end += usize::from(seen.is_new());
                }
            }
            meter.spend(chunk.len(), onward + back * chunk.len() as u64);
        }
        self.length = end;
        std::mem::swap(&mut self.few, &mut self.next);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::visited::Side;
    use super::super::{Budget, SearchOptions};
    use super::*;

    /// From each cell of the blank to the last level: that is every search
    /// there can be, as tiles are only names. What the lists have room for is
    /// enough, and every state comes up once.
    #[test]
    fn every_level_of_every_board_fits() {
        let (mut longest, mut most_few) = (0, 0);
        for shape in Shape::ALL {
            for cell in 0..shape.cells() {
                let transitions = Transitions::of(shape, cell);
                let mut visited = Visited::new();
                let mut frontier = Frontier::new();
                let options = SearchOptions::default();
                let mut meter = Meter::new(&options, &Budget::UNLIMITED);
                visited.begin();
                let root = Place::of_goal(cell);
                visited.root(root, Side::Start);
                frontier.begin(root);
                let tag = visited.tag(Side::Start);
                let mut states = 0;
                while frontier.length() > 0 {
                    states += frontier.length();
                    let met = frontier.expand(transitions, &mut visited, tag, &mut meter);
                    assert!(met.unwrap().is_none());
                    let few = if frontier.is_large {
                        0
                    } else {
                        frontier.length
                    };
                    most_few = most_few.max(few);
                    longest = longest.max(frontier.many.longest_list());
                }
                assert_eq!(states, transitions.places().count(), "{shape} {cell}");
            }
        }
        assert_eq!((longest, most_few), (3_157, 1_999));
    }
}
