//! The states of one level of a breadth-first search, and how to get the next.

#![expect(
    clippy::indexing_slicing,
    reason = "indices are states' and masked places in lists"
)]

use super::index::Place;
use super::meter::{Meter, Stop};
use super::transitions::{Packed, Transitions, class_of, half_of, pack_root, unpack};
use super::visited::{Tag, Visited};
use crate::puzzle::{Direction, Shape};

/// Room in a list. No level of any board up to 3x3 has more than 24,968
/// states; a power of two, so that a mask keeps every place in bounds.
const ROOM: usize = 1 << 15;

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
        let class = usize::from(class_of(shape, root.cell, None)) & 2;
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
        for list in level {
            let states = &list.states[..list.length];
            let mut done = 0;
            while done < states.len() {
                let granted = meter.grant(states.len() - done)?;
                let chunk = &states[done..done + granted];
                let met = expand_any(chunk, transitions, visited.bytes(), tag, next, meter);
                if let Some(state) = met {
                    return Ok(meeting(state, transitions, visited.bytes(), tag));
                }
                done += granted;
            }
        }
        self.colour ^= 1;
        self.depth += 1;
        Ok(None)
    }
}

/// Expands states of any shape and class, up to the first that meets the other
/// side.
fn expand_any(
    states: &[Packed],
    transitions: &Transitions,
    visited: &mut [u8],
    tag: Tag,
    next: &mut [List],
    meter: &mut Meter<'_>,
) -> Option<Packed> {
    let mut generated = 0;
    for (position, &state) in states.iter().enumerate() {
        generated += transitions.degree(state);
        let mut met = false;
        for exit in transitions.exits(state) {
            let half = transitions.follow(exit, half_of(state));
            let byte = &mut visited[(exit.offset + half) as usize];
            let seen = tag.read(*byte);
            if seen.is_new() {
                *byte = tag.mark(exit.direction);
                let list = &mut next[usize::from(exit.class & 1)];
                list.states[list.length & (ROOM - 1)] = exit.code | half;
                list.length += 1;
            }
            met |= seen.is_met();
        }
        if met {
            meter.spend(position + 1, generated);
            return Some(state);
        }
    }
    meter.spend(states.len(), generated);
    None
}

/// The first move from this state that meets the other side.
#[cold]
fn meeting(state: Packed, transitions: &Transitions, visited: &[u8], tag: Tag) -> Option<Meeting> {
    let from = unpack(state);
    transitions.exits(state).iter().find_map(|exit| {
        let half = transitions.follow(exit, from.half);
        let seen = tag.read(visited[(exit.offset + half) as usize]);
        seen.is_met().then(|| {
            let direction = Direction::ALL[usize::from(exit.direction)];
            Meeting {
                from,
                direction,
                to: transitions.step(from, direction),
            }
        })
    })
}
