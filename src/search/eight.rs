//! The large levels of a breadth-first search on 3x3.
//!
//! A level is kept as a list for each cell of the blank and move that brought
//! it there. All states of a list then have the same moves on, known when this
//! is compiled: what is left for each successor is one look-up of its rank (or
//! none, along a row), one of what is known of it, and three writes.
//!
//! A third of the successors are known already, which no predictor can
//! foresee, so nothing branches on it: each is written to the end of its list,
//! and the end moves if it is new.

#![expect(
    clippy::cast_possible_truncation,
    reason = "half a rank of 3x3 is below 20,160"
)]
#![expect(
    clippy::indexing_slicing,
    reason = "lists are indexed by constants, and have more room than any level of 3x3 fills"
)]

use super::index::Place;
use super::meter::{Meter, Stop};
use super::transitions::{
    HALF_BITS, INDICES, Packed, Ranks, Short, Transitions, arrival_of, pack, unpack,
};
use super::visited::{Seen, Tag, filled_box};
use crate::puzzle::{Direction, Shape};

/// Room in a list: the longest of any search has 3,157 states.
const ROOM: usize = 1 << 12;

/// Lists of cells of one colour: four for each of five cells at most.
const LISTS: usize = 20;

/// States whose blank is in a cell of one colour: half their ranks, by cell
/// and arrival.
struct Lists {
    halves: Box<[[u16; ROOM]; LISTS]>,
    lengths: [usize; LISTS],
}

impl Lists {
    fn new() -> Lists {
        Lists {
            halves: filled_box([0; ROOM]),
            lengths: [0; LISTS],
        }
    }
}

/// A level, and the lists that the next one goes to.
pub(super) struct Eight {
    /// By the colour of the blank's cell.
    lists: [Lists; 2],
    colour: usize,
}

impl Eight {
    /// An empty one.
    pub(super) fn new() -> Eight {
        Eight {
            lists: [Lists::new(), Lists::new()],
            colour: 0,
        }
    }

    /// Takes over a level. Moves must have led to all of its states.
    pub(super) fn begin(&mut self, states: &[Packed]) {
        for lists in &mut self.lists {
            lists.lengths = [0; LISTS];
        }
        for &state in states {
            let Place { cell, half } = unpack(state);
            self.colour = cell % 2;
            let list = list_of(cell, arrival_of(state));
            let lists = &mut self.lists[self.colour];
            lists.halves[list][lists.lengths[list]] = half as u16;
            lists.lengths[list] += 1;
        }
    }

    /// The number of states.
    pub(super) fn length(&self) -> usize {
        self.lists[self.colour].lengths.iter().sum()
    }

    /// The number of states in the longest list.
    #[cfg(test)]
    pub(super) fn longest_list(&self) -> usize {
        let lengths = self.lists.iter().flat_map(|lists| lists.lengths);
        lengths.max().unwrap_or(0)
    }

    /// Replaces the level by the next one, or stops at the first state that
    /// has a successor which the other side has reached.
    ///
    /// # Errors
    /// [`Stop`] where the search may not go on.
    pub(super) fn expand(
        &mut self,
        transitions: &Transitions,
        visited: &mut [u8; INDICES],
        tag: Tag,
        meter: &mut Meter<'_>,
    ) -> Result<Option<Packed>, Stop> {
        let [even, odd] = &mut self.lists;
        let (level, next) = if self.colour == 0 {
            (even, odd)
        } else {
            (odd, even)
        };
        next.lengths = [0; LISTS];
        let mut work = Work {
            level,
            next,
            ranks: transitions.ranks(),
            short: transitions.short(),
            visited,
            tag,
        };
        // Most levels are within one grant, so lists are not metered one by one.
        let (mut granted, mut expanded, mut generated) = (0, 0, 0);
        let mut found = None;
        'lists: for kernel in KERNELS[self.colour] {
            let length = work.level.lengths[kernel.list];
            let mut done = 0;
            while done < length {
                if expanded == granted {
                    meter.spend(expanded, generated);
                    (expanded, generated) = (0, 0);
                    granted = meter.grant(usize::MAX)?;
                }
                let end = length.min(done + granted - expanded);
                let met = (kernel.expand)(&mut work, done, end);
                let count = met.map_or(end, |met| met + 1) - done;
                expanded += count;
                generated += count as u64 * kernel.degree;
                if let Some(met) = met {
                    let half = work.level.halves[kernel.list][met];
                    found = Some(kernel.code | Packed::from(half));
                    break 'lists;
                }
                done = end;
            }
        }
        meter.spend(expanded, generated);
        if found.is_some() {
            return Ok(found);
        }
        self.colour ^= 1;
        Ok(None)
    }
}

/// What the expansion of a level reads and writes.
struct Work<'a> {
    level: &'a mut Lists,
    next: &'a mut Lists,
    ranks: Ranks<'a>,
    short: &'a Short,
    visited: &'a mut [u8; INDICES],
    tag: Tag,
}

/// Expands some states of the list of a cell and an arrival, up to the
/// first that meets the other side: its place in the list.
#[inline(never)]
fn expand_list<const CELL: usize, const ARRIVAL: usize>(
    work: &mut Work<'_>,
    begin: usize,
    end: usize,
) -> Option<usize> {
    let moves = const { Onward::from(CELL, ARRIVAL) };
    let (tag, ranks, short) = (work.tag, work.ranks, work.short);
    let (visited, next) = (&mut *work.visited, &mut *work.next);
    let halves = &mut *next.halves;
    let states = &work.level.halves[list_of(CELL, Direction::ALL[ARRIVAL])][begin..end];
    let mut ends = moves.moves.map(|step| next.lengths[step.list]);
    let mut met = None;
    let mut rest = states.iter();
    'states: while let Some(&half) = rest.next() {
        // All three, so that the loop is unrolled for certain.
        for (number, (step, end_of_list)) in moves.moves.iter().zip(&mut ends).enumerate() {
            if number >= moves.count {
                continue;
            }
            let next_half = short.follow(ranks, CELL, step.direction, half);
            let byte =
                &mut visited[((step.cell << HALF_BITS) + usize::from(next_half)) & (INDICES - 1)];
            let seen = tag.mark(byte, Seen::by(step.direction));
            if seen.is_met() {
                met = Some(end - rest.len() - 1);
                break 'states;
            }
            halves[step.list][*end_of_list & (ROOM - 1)] = next_half;
            *end_of_list += usize::from(seen.is_new());
        }
    }
    for (step, end_of_list) in moves.moves.iter().zip(ends).take(moves.count) {
        next.lengths[step.list] = end_of_list;
    }
    met
}

/// The expansion of one list.
struct Kernel {
    list: usize,
    /// A state of the list, less its half rank.
    code: Packed,
    /// The legal moves of a state, the way back included.
    degree: u64,
    expand: fn(&mut Work<'_>, usize, usize) -> Option<usize>,
}

const fn kernel<const CELL: usize, const ARRIVAL: usize>() -> Kernel {
    let arrival = Direction::ALL[ARRIVAL];
    Kernel {
        list: list_of(CELL, arrival),
        code: pack(CELL, arrival as u32, 0),
        degree: Onward::from(CELL, ARRIVAL).count as u64 + 1,
        expand: expand_list::<CELL, ARRIVAL>,
    }
}

const UP: usize = Direction::Up as usize;
const LEFT: usize = Direction::Left as usize;
const RIGHT: usize = Direction::Right as usize;
const DOWN: usize = Direction::Down as usize;

/// The kernels by the colour of the cell, in the order in which they run.
static KERNELS: [&[Kernel]; 2] = [
    &[
        kernel::<4, UP>(),
        kernel::<4, LEFT>(),
        kernel::<4, RIGHT>(),
        kernel::<4, DOWN>(),
        kernel::<0, UP>(),
        kernel::<0, LEFT>(),
        kernel::<2, UP>(),
        kernel::<2, RIGHT>(),
        kernel::<6, LEFT>(),
        kernel::<6, DOWN>(),
        kernel::<8, RIGHT>(),
        kernel::<8, DOWN>(),
    ],
    &[
        kernel::<1, UP>(),
        kernel::<3, LEFT>(),
        kernel::<5, RIGHT>(),
        kernel::<7, DOWN>(),
        kernel::<1, LEFT>(),
        kernel::<1, RIGHT>(),
        kernel::<3, UP>(),
        kernel::<3, DOWN>(),
        kernel::<5, UP>(),
        kernel::<5, DOWN>(),
        kernel::<7, LEFT>(),
        kernel::<7, RIGHT>(),
    ],
];

/// Where a cell and an arrival have their list.
const fn list_of(cell: usize, arrival: Direction) -> usize {
    cell / 2 * 4 + arrival as usize
}

/// A move on.
#[derive(Clone, Copy)]
struct Step {
    /// The blank's new cell.
    cell: usize,
    direction: Direction,
    list: usize,
}

/// The moves on from a cell, without the one that takes the arrival back.
struct Onward {
    moves: [Step; 3],
    count: usize,
}

impl Onward {
    const fn from(cell: usize, arrival: usize) -> Onward {
        let mut onward = Onward {
            moves: [Step {
                cell,
                direction: Direction::Up,
                list: 0,
            }; 3],
            count: 0,
        };
        let back = Direction::ALL[arrival].opposite() as usize;
        let mut number = 0;
        while number < Direction::ALL.len() {
            let direction = Direction::ALL[number];
            if number != back
                && let Some(next) = Shape::EIGHT.neighbour(cell, direction)
            {
                onward.moves[onward.count] = Step {
                    cell: next,
                    direction,
                    list: list_of(next, direction),
                };
                onward.count += 1;
            }
            number += 1;
        }
        onward
    }
}
