//! The states of one level of a breadth-first search, and how to get the next.

#![expect(
    clippy::indexing_slicing,
    reason = "indices are states' and masked places in lists"
)]

use super::index::Place;
use super::meter::{Meter, Stop};
use super::transitions::{
    INDICES, Packed, Transitions, class_of, half_of, index_of, pack_root, unpack,
};
use super::visited::{Tag, Visited};
use crate::puzzle::{Direction, Shape};

/// Room in a list: so much that 16 bits are always a place in it. No level of
/// any board up to 3x3 has more than 24,968 states; memory that is never
/// written to is never taken.
const ROOM: usize = 1 << 16;

/// States of one class.
struct List {
    states: Box<[Packed]>,
    length: usize,
}

impl List {
    fn new() -> List {
        List {
            states: vec![0; ROOM].into_boxed_slice(),
            length: 0,
        }
    }
}

/// One level of one side: the states in two of four lists, by
/// [`class_of`]. The level after it goes into the other two.
pub(super) struct Frontier {
    lists: [List; 4],
    /// The colour of the blank's cell: 0 or 1.
    colour: usize,
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
            lists: [List::new(), List::new(), List::new(), List::new()],
            colour: 0,
            depth: 0,
        }
    }

    /// Makes it one state.
    pub(super) fn begin(&mut self, shape: Shape, root: Place) {
        self.lists.iter_mut().for_each(|list| list.length = 0);
        let class = class_of(shape, root.cell, None) as usize & 2;
        self.colour = class / 2;
        self.lists[class].states[0] = pack_root(root);
        self.lists[class].length = 1;
        self.depth = 0;
    }

    /// The number of states.
    #[inline]
    pub(super) fn length(&self) -> usize {
        let first = self.colour * 2;
        self.lists[first].length + self.lists[first + 1].length
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
        let (even, odd) = self.lists.split_at_mut(2);
        let (level, next) = if self.colour == 0 {
            (even, odd)
        } else {
            (odd, even)
        };
        next.iter_mut().for_each(|list| list.length = 0);
        let [next_first, next_last] = next else {
            return Ok(None);
        };
        let straight = transitions.shape() == Shape::EIGHT && self.depth > 0;
        for (last, list) in level.iter().enumerate() {
            let states = &list.states[..list.length];
            let mut done = 0;
            while done < states.len() {
                let granted = meter.grant(states.len() - done)?;
                let chunk = &states[done..done + granted];
                let mut level = Level {
                    transitions,
                    visited: visited.bytes(),
                    tag,
                    next: [&mut *next_first, &mut *next_last],
                };
                let met = match (straight, self.colour * 2 + last) {
                    (true, 0) => level.expand::<3, 0b000>(chunk, meter),
                    (true, 1) => level.expand::<1, 0b1>(chunk, meter),
                    (true, 2) => level.expand::<2, 0b11>(chunk, meter),
                    (true, _) => level.expand::<2, 0b10>(chunk, meter),
                    (false, _) => level.expand_any(chunk, meter),
                };
                if let Some(state) = met {
                    return Ok(level.meeting(state));
                }
                done += granted;
            }
        }
        self.colour ^= 1;
        self.depth += 1;
        Ok(None)
    }
}

/// What the expansion of a level reads and writes.
struct Level<'a> {
    transitions: &'a Transitions,
    visited: &'a mut [u8],
    tag: Tag,
    next: [&'a mut List; 2],
}

impl Level<'_> {
    /// Expands states of any shape and class, up to the first that meets the
    /// other side.
    fn expand_any(&mut self, states: &[Packed], meter: &mut Meter<'_>) -> Option<Packed> {
        let mut generated = 0;
        for (position, &state) in states.iter().enumerate() {
            generated += self.transitions.degree(state);
            for exit in self.transitions.exits(state) {
                let next = self.transitions.ranks().follow(exit, half_of(state));
                let seen = self
                    .tag
                    .mark(&mut self.visited[index_of(next)], exit.reached);
                if seen.is_met() {
                    meter.spend(position + 1, generated);
                    return Some(state);
                }
                let list = &mut self.next[exit.class as usize & 1];
                list.states[list.length] = next;
                list.length += usize::from(seen.is_new());
            }
        }
        meter.spend(states.len(), generated);
        None
    }

    /// Expands states of one class of 3x3, up to the first that meets the
    /// other side. Each has `MOVES` moves on besides the one back; bit `n` of
    /// `LAST` says whether successor `n` goes to the last list.
    ///
    /// A third of the successors are known already, which no predictor can
    /// foresee, so nothing here branches on it: each is written to the end of
    /// its list, and the end moves if it is new. Arrays of fixed length and
    /// masked indices leave no bounds to check.
    #[inline(never)]
    fn expand<const MOVES: usize, const LAST: u8>(
        &mut self,
        states: &[Packed],
        meter: &mut Meter<'_>,
    ) -> Option<Packed> {
        let [first, last] = &mut self.next;
        let (Some(visited), Some(first_states), Some(last_states)) = (
            self.visited.first_chunk_mut::<INDICES>(),
            first.states.first_chunk_mut::<ROOM>(),
            last.states.first_chunk_mut::<ROOM>(),
        ) else {
            return self.expand_any(states, meter);
        };
        let (mut first_end, mut last_end) = (first.length as u16, last.length as u16);
        let tag = self.tag;
        let ranks = self.transitions.ranks();
        let mut result = None;
        let mut rest = states.iter();
        'states: while let Some(&state) = rest.next() {
            let exits = self.transitions.onward(state);
            for (number, exit) in exits[..MOVES].iter().enumerate() {
                let next = ranks.follow(exit, half_of(state));
                let seen = tag.mark(&mut visited[index_of(next)], exit.reached);
                if seen.is_met() {
                    result = Some(state);
                    break 'states;
                }
                if LAST >> number & 1 == 0 {
                    first_states[usize::from(first_end)] = next;
                    first_end += u16::from(seen.is_new());
                } else {
                    last_states[usize::from(last_end)] = next;
                    last_end += u16::from(seen.is_new());
                }
            }
        }
        first.length = usize::from(first_end);
        last.length = usize::from(last_end);
        let expanded = states.len() - rest.len();
        meter.spend(expanded, expanded as u64 * (MOVES as u64 + 1));
        result
    }

    /// The first move from this state that meets the other side.
    #[cold]
    fn meeting(&self, state: Packed) -> Option<Meeting> {
        self.transitions.exits(state).iter().find_map(|exit| {
            let next = self.transitions.ranks().follow(exit, half_of(state));
            let seen = self.tag.read(self.visited[index_of(next)]);
            seen.is_met().then(|| Meeting {
                from: unpack(state),
                direction: exit.reached.direction(),
                to: unpack(next),
            })
        })
    }
}
