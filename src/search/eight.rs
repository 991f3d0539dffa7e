//! The large levels of a breadth-first search on 3x3.
//!
//! A level is kept as a list for each cell of the blank and move that brought
//! it there. All states of a list then have the same moves on, known when this
//! is compiled: what is left for each successor is one look-up of its rank (or
//! none, along a row), one of what is known of it, and three writes.
//!
//! The lists are parts of one arena, one after the other: a list of the next
//! level cannot become longer than those it comes from. So what a level writes
//! to is a few pages, not one for each list.
//!
//! A third of the successors are known already, which no predictor can
//! foresee, so nothing branches on it: each is written to the end of its list,
//! and the end moves if it is new.

#![expect(
    clippy::cast_possible_truncation,
    reason = "half a rank of 3x3 is below 21,504, and a place in the arena below 2^19"
)]
#![expect(
    clippy::indexing_slicing,
    reason = "lists are indexed by constants, and have more room than all levels of 3x3 fill"
)]

use super::arrays::filled_box;
use super::index::Place;
use super::meter::{Meter, Stop};
use super::transitions::{Added, HALF_BITS, Packed, Table, Transitions, arrival_of, pack, unpack};
use super::visited::View;
use crate::puzzle::{Direction, Shape};

/// Room for every level of a search: 290,659 places in the longest there can be.
const ROOM: usize = 1 << 19;

/// Lists of cells of one colour: four for each of five cells at most.
const LISTS: usize = 20;

/// A list that has no states, in every level.
const EMPTY: usize = LISTS;

/// More than the levels of any search: no board needs more than 31 moves.
const LEVELS: usize = 32;

/// The states of a level whose blank is in one cell, and that one move led to:
/// half their ranks are in this part of the arena.
#[derive(Clone, Copy, Default)]
struct List {
    begin: u32,
    end: u32,
}

impl List {
    fn length(self) -> usize {
        (self.end - self.begin) as usize
    }
}

/// The lists of a level. The blank of all its states is in cells of one
/// colour.
type Lists = [List; LISTS + 1];

/// All levels of a search since they became large: the ways back lead through
/// them.
pub(super) struct Eight {
    /// Half ranks, list by list, level by level.
    halves: Box<[u16; ROOM]>,
    levels: Box<[Lists; LEVELS]>,
    /// The latest level.
    latest: usize,
    /// Its states.
    length: usize,
    /// The colour of its cells.
    colour: usize,
}

impl Eight {
    /// An empty one.
    pub(super) fn new() -> Eight {
        Eight {
            halves: filled_box(0),
            levels: filled_box([List::default(); LISTS + 1]),
            latest: 0,
            length: 0,
            colour: 0,
        }
    }

    /// Begins with a level that moves have led to all states of.
    pub(super) fn begin(&mut self, states: &[Packed]) {
        let mut lengths = [0; LISTS];
        for &state in states {
            let cell = unpack(state).cell;
            self.colour = cell % 2;
            lengths[list_of(cell, arrival_of(state))] += 1;
        }
        let lists = &mut self.levels[0];
        let mut begin = 0;
        for (list, length) in lists.iter_mut().zip(lengths) {
            *list = List { begin, end: begin };
            begin += length;
        }
        for &state in states {
            let Place { cell, half } = unpack(state);
            let list = &mut lists[list_of(cell, arrival_of(state))];
            self.halves[list.end as usize & (ROOM - 1)] = half as u16;
            list.end += 1;
        }
        (self.latest, self.length) = (0, states.len());
    }

    /// The number of states of the latest level.
    #[inline]
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// The number of places that are taken in the arena.
    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        let lists = &self.levels[self.latest];
        lists
            .iter()
            .map(|list| list.end as usize)
            .max()
            .unwrap_or(0)
    }

    /// The move that led to a state of a level, counted from the first one. It
    /// was not `other`.
    pub(super) fn arrival(
        &self,
        place: Place,
        level: usize,
        other: Option<Direction>,
    ) -> Direction {
        let mut last = Direction::Up;
        for arrival in Direction::ALL {
            let is_possible = Shape::EIGHT
                .neighbour(place.cell, arrival.opposite())
                .is_some();
            if !is_possible || Some(arrival) == other {
                continue;
            }
            last = arrival;
            let list = self.levels[level][list_of(place.cell, arrival)];
            let halves = &self.halves[list.begin as usize..list.end as usize];
            if halves.contains(&(place.half as u16)) {
                break;
            }
        }
        last
    }

    /// Goes on to the next level, or stops at the first state that has a
    /// successor which the other side has reached.
    ///
    /// # Errors
    /// [`Stop`] where the search may not go on.
    pub(super) fn expand(
        &mut self,
        transitions: &Transitions,
        visited: View<'_>,
        meter: &mut Meter<'_>,
    ) -> Result<Option<Packed>, Stop> {
        let Some([level, next]) = self
            .levels
            .get_mut(self.latest..)
            .and_then(<[Lists]>::first_chunk_mut::<2>)
        else {
            // No level is left where there is no room for one more.
            return Ok(None);
        };
        let kernels = &KERNELS[self.colour];
        let mut begin = kernels
            .iter()
            .map(|kernel| level[kernel.list].end)
            .max()
            .unwrap_or(0);
        for kernel in &KERNELS[self.colour ^ 1] {
            // One more, for what is written where a list ends and not kept.
            begin += 1;
            next[kernel.list] = List { begin, end: begin };
            let most: usize = kernel
                .sources
                .iter()
                .map(|&source| level[source].length())
                .sum();
            begin += most as u32;
        }
        let mut work = Work {
            halves: &mut self.halves,
            level,
            next,
            added: transitions.added(),
            visited,
        };
        // Most levels are within one grant, so lists are not metered one by one.
        let (mut granted, mut expanded, mut generated) = (0, 0, 0);
        let mut found = None;
        'lists: for kernel in kernels {
            let List {
                begin,
                end: end_of_list,
            } = work.level[kernel.list];
            let (mut done, end_of_list) = (begin as usize, end_of_list as usize);
            while done < end_of_list {
                if expanded == granted {
                    meter.spend(expanded, generated);
                    (expanded, generated) = (0, 0);
                    granted = meter.grant(usize::MAX)?;
                }
                let end = end_of_list.min(done + granted - expanded);
                let met = (kernel.expand)(&mut work, done, end);
                let count = met.map_or(end, |met| met + 1) - done;
                expanded += count;
                generated += count as u64 * kernel.degree;
                if let Some(met) = met {
                    let half = work.halves[met];
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
        self.length = KERNELS[self.colour]
            .iter()
            .map(|kernel| work.next[kernel.list].length())
            .sum();
        self.latest += 1;
        Ok(None)
    }
}

/// What the expansion of a level reads and writes.
struct Work<'a> {
    halves: &'a mut [u16; ROOM],
    level: &'a Lists,
    next: &'a mut Lists,
    added: Added<'a>,
    visited: View<'a>,
}

/// Expands some states of the list of a cell and an arrival, up to the
/// first that meets the other side: its place in the arena.
#[inline(never)]
fn expand_list<const CELL: usize, const ARRIVAL: usize>(
    work: &mut Work<'_>,
    begin: usize,
    end: usize,
) -> Option<usize> {
    let moves = const { Onward::from(CELL, ARRIVAL) };
    let added = work.added;
    let (visited, next) = (&mut work.visited, &mut *work.next);
    let halves = &mut *work.halves;
    let mut ends = moves.moves.map(|step| next[step.list].end as usize);
    let mut met = None;
    'states: for place in begin..end {
        let half = halves[place & (ROOM - 1)];
        // All three, so that the loop is unrolled for certain.
        for (number, (step, end_of_list)) in moves.moves.iter().zip(&mut ends).enumerate() {
            if number >= moves.count {
                continue;
            }
            let next_half = added.half(step.table, half);
            let seen = visited.mark(step.cell << HALF_BITS | usize::from(next_half));
            if seen.is_met {
                met = Some(place);
                break 'states;
            }
            halves[*end_of_list & (ROOM - 1)] = next_half;
            *end_of_list += usize::from(seen.is_new);
        }
    }
    for (step, end_of_list) in moves.moves.iter().zip(ends).take(moves.count) {
        next[step.list].end = end_of_list as u32;
    }
    met
}

/// The expansion of one list.
struct Kernel {
    list: usize,
    /// A state of the list, less its half rank.
    code: Packed,
    /// The lists of the level before from which moves lead to this one.
    sources: [usize; 3],
    /// The legal moves of a state, the way back included.
    degree: u64,
    expand: fn(&mut Work<'_>, usize, usize) -> Option<usize>,
}

const fn kernel<const CELL: usize, const ARRIVAL: usize>() -> Kernel {
    let arrival = Direction::ALL[ARRIVAL];
    Kernel {
        list: list_of(CELL, arrival),
        code: pack(CELL, arrival as u32, 0),
        sources: sources(CELL, arrival),
        degree: Onward::from(CELL, ARRIVAL).count as u64 + 1,
        expand: expand_list::<CELL, ARRIVAL>,
    }
}

const UP: usize = Direction::Up as usize;
const LEFT: usize = Direction::Left as usize;
const RIGHT: usize = Direction::Right as usize;
const DOWN: usize = Direction::Down as usize;

/// The kernels by the colour of the cell, in the order in which they run.
static KERNELS: [[Kernel; 12]; 2] = [
    [
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
    [
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

/// The lists from which one move leads to a cell: those of the cell it comes
/// from, but for the list that it would take back.
const fn sources(cell: usize, arrival: Direction) -> [usize; 3] {
    let mut sources = [EMPTY; 3];
    let mut count = 0;
    if let Some(from) = Shape::EIGHT.neighbour(cell, arrival.opposite()) {
        let mut number = 0;
        while number < Direction::ALL.len() {
            let before = Direction::ALL[number];
            if before as usize != arrival.opposite() as usize
                && Shape::EIGHT.neighbour(from, before.opposite()).is_some()
            {
                sources[count] = list_of(from, before);
                count += 1;
            }
            number += 1;
        }
    }
    sources
}

/// A move on.
#[derive(Clone, Copy)]
struct Step {
    /// The blank's new cell.
    cell: usize,
    table: Table,
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
                table: Table::of(Shape::EIGHT, cell, Direction::Left),
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
                    table: Table::of(Shape::EIGHT, cell, direction),
                    list: list_of(next, direction),
                };
                onward.count += 1;
            }
            number += 1;
        }
        onward
    }
}
