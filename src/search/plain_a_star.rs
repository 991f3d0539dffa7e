//! The loop of A* without a weight.
//!
//! A move changes a consistent heuristic by one at most, so `f = g + h` rises
//! by 0, 1 or 2 with each: all that waits fits on three stacks, and the loop
//! reads from a table of one byte a state by how much each move raises `f`. It
//! never asks for `g`: a state's *level* is by how much its `f` is above the
//! start's, and of two ways to the same state the shorter is on the lower
//! level.
//!
//! States are taken from the stack a few at a time. One by one, each would wait
//! until it is known which successors of the last are new: an expansion would
//! last as long as its memory accesses together. Nor does anything branch on
//! what no predictor can foresee: a successor is written to the end of every
//! stack, and one end moves if this is the best way to it.

#![expect(
    clippy::cast_possible_truncation,
    reason = "age, level and move fill a word"
)]
#![expect(
    clippy::indexing_slicing,
    reason = "indices are those of states, or masked to the length of their array"
)]

use std::hint::select_unpredictable;
use std::mem::swap;

use super::arrays::{fill, filled_box};
use super::heuristic::Rises;
use super::index::Place;
use super::meter::{Meter, Stop};
use super::route::Route;
use super::transitions::{Exit, INDICES, Packed, half_of, index_of, pack_root};
use crate::puzzle::Direction;

/// How many states are taken at a time. Two are not enough to hide the wait;
/// sixteen expand a twentieth more states on the goal's level, where the
/// latest states are the nearest.
const AT_A_TIME: usize = 8;

/// Room in a stack: more than there are states, and each is on it at most once.
const ROOM: usize = 1 << 18;

/// The levels of a search, and what is known of each state: the best level on
/// which it was reached, and the move that led there.
///
/// From the top of a word: eight bits of *age*, six of level, two of the move.
/// Ages count down from search to search, so a state that this one has not
/// reached is on a level above all others: better ways have lower words.
pub(super) struct Levels {
    words: Box<[u16; INDICES]>,
    /// More than the words of this search.
    age: u32,
    /// The states that wait on the level at hand, and on the next two.
    stacks: [Box<[Packed; ROOM]>; 3],
}

const MOVE_BITS: u32 = 2;
const MOVES: u32 = (1 << MOVE_BITS) - 1;
/// One level more. No shape has a longer solution than the 36 moves of 2x4, so
/// six bits are enough.
const LEVEL: u32 = 1 << MOVE_BITS;
const AGE: u32 = 1 << 8;

impl Levels {
    /// Empty ones. The memory of the stacks is taken as they are written to.
    pub(super) fn new() -> Levels {
        Levels {
            words: filled_box(0),
            age: 0,
            stacks: std::array::from_fn(|_| filled_box(0)),
        }
    }

    /// Forgets all states, and tells the word of the lowest level.
    fn begin(&mut self) -> u32 {
        if self.age == 0 {
            fill(&mut self.words, u16::MAX);
            self.age = u32::from(u16::MAX) & !(AGE - 1);
        }
        self.age -= AGE;
        self.age
    }

    /// The move by which the best way leads to a state that was reached.
    pub(super) fn arrival(&self, place: Place) -> Direction {
        Direction::ALL[usize::from(self.words[place.index()] & 3)]
    }
}

/// A move on from a state that was taken.
#[derive(Clone, Copy, Default)]
struct Way {
    successor: Packed,
    /// What is known of the successor if no better way is.
    word: u32,
}

/// Moves of a state that was taken, and of the first one.
const MOST_WAYS: usize = 4;

/// For a byte of rises the lowest bits of the successors' words, less the
/// level: four bits a move.
static WORDS_BY_RISES: [u16; 1 << 8] = {
    let mut all = [0; 1 << 8];
    let mut rises = 0;
    while rises < all.len() {
        let mut direction = 0;
        while direction < Direction::ALL.len() {
            let rise = rises >> (2 * direction) & 3;
            all[rises] |= ((rise << MOVE_BITS | direction) << (4 * direction)) as u16;
            direction += 1;
        }
        rises += 1;
    }
    all
};

/// Searches, and returns by how much `f` of the goal is above that of the
/// start.
///
/// `HAS_ODD` says that a move may raise `f` by 1: only the number of misplaced
/// tiles may stay as it is.
#[inline]
pub(super) fn search<const HAS_ODD: bool>(
    route: &Route,
    rises: &Rises,
    levels: &mut Levels,
    meter: &mut Meter<'_>,
) -> Result<Option<u32>, Stop> {
    let transitions = route.transitions;
    let added = transitions.added();
    let goal = route.goal.index();
    let base = levels.begin();
    let words = &mut *levels.words;
    let [this, next, last] = &mut levels.stacks;
    let (mut this, mut next, mut last) = (&mut **this, &mut **next, &mut **last);
    let (mut this_end, mut next_end, mut last_end) = (1, 0, 0);
    let root = pack_root(route.start);
    let mut level = base;
    this[0] = root;
    words[index_of(root)] = level as u16;
    let mut granted = meter.grant(usize::MAX)?;
    let mut expanded = 0;
    // Each state has a way back besides its moves on, but for the first.
    let mut roots = 1;
    let mut onward = 0;
    let mut ways = [Way::default(); MOST_WAYS * AT_A_TIME];
    let found = 'search: loop {
        while this_end > 0 {
            let count = AT_A_TIME.min(this_end);
            this_end -= count;
            // The moves on of all of them first: there is no branch in that
            // but those that hardly ever go another way.
            let mut ways_end = 0;
            for place in (this_end..this_end + count).rev() {
                let state = this[place & (ROOM - 1)];
                let index = index_of(state);
                // Otherwise a better way was found after this one.
                let is_best = u32::from(words[index]) & !MOVES == level;
                if index == goal && is_best {
                    break 'search Ok(Some((level - base) / LEVEL));
                }
                if expanded == granted && is_best {
                    meter.spend(expanded, onward + expanded as u64 - roots);
                    (expanded, onward, roots) = (0, 0, 0);
                    match meter.grant(usize::MAX) {
                        Ok(more) => granted = more,
                        Err(stop) => break 'search Err(stop),
                    }
                }
                let (exits, exit_count) = transitions.padded_exits(state);
                let words_on = u32::from(WORDS_BY_RISES[usize::from(rises[index])]);
                let Some(room) = ways[ways_end..].first_chunk_mut::<MOST_WAYS>() else {
                    break;
                };
                let way = |exit: &Exit| Way {
                    successor: added.follow(exit, half_of(state)),
                    word: level + (words_on >> (4 * exit.direction as u32) & 15),
                };
                // All but the first state have three at most.
                let [first, second, third, fourth] = exits;
                room[0] = way(first);
                room[1] = way(second);
                room[2] = way(third);
                if exit_count > 3 {
                    room[3] = way(fourth);
                }
                let new = select_unpredictable(is_best, exit_count, 0);
                ways_end += new;
                expanded += usize::from(is_best);
                onward += new as u64;
            }
            for &Way { successor, word } in &ways[..ways_end] {
                let known = &mut words[index_of(successor)];
                let is_better = u32::from(*known) > word | MOVES;
                *known = select_unpredictable(is_better, word as u16, *known);
                let rise = (word & !MOVES) - level;
                this[this_end & (ROOM - 1)] = successor;
                this_end += usize::from(is_better & (rise == 0));
                if HAS_ODD {
                    next[next_end & (ROOM - 1)] = successor;
                    next_end += usize::from(is_better & (rise == LEVEL));
                }
                last[last_end & (ROOM - 1)] = successor;
                last_end += usize::from(is_better & (rise == 2 * LEVEL));
            }
        }
        if next_end + last_end == 0 {
            break Ok(None);
        }
        swap(&mut this, &mut next);
        swap(&mut next, &mut last);
        (this_end, next_end, last_end) = (next_end, last_end, 0);
        level += LEVEL;
    };
    meter.spend(expanded, onward + expanded as u64 - roots);
    found
}
