//! One breadth-first search from a goal, kept: it answers every start.
//!
//! Moves can be taken back, so the distance *from* the goal is the distance
//! *to* it. Any goal is that of its blank's cell with the tiles relabelled, so
//! a 3x3 board has nine tables, of 1.5 MB each. A table has the whole solution
//! of each state in one word, so an answer is one look-up and no walk.

#![expect(
    clippy::cast_possible_truncation,
    reason = "the words of a narrow table fit in half of what was fetched, and no \
              table has 2^32 words"
)]
#![expect(
    clippy::indexing_slicing,
    reason = "indices are those of states of the shape that the table was built for"
)]

use std::ops::{BitOr, Shl};
use std::sync::OnceLock;

use super::index::{Labels, Place};
use super::transitions::{Packed, Transitions, half_of, pack_root, unpack};
use super::{Detail, Outcome, Solution};
use crate::puzzle::{Board, Direction, MAX_CELLS, Problem, Shape};

/// The most moves between any two boards: those of 2x4 and 4x2, and 31 for 3x3.
pub const MAX_MOVES: usize = 36;

/// Two bits a move, the first move in the lowest, and a 1 above the last. Zero
/// is no word.
enum Table {
    /// Up to 31 moves: 3x3, and what is smaller than eight cells.
    Narrow(Box<[u64]>),
    /// Up to 36 moves: 2x4 and 4x2.
    Wide(Box<[u128]>),
}

impl Table {
    fn of(shape: Shape, goal_blank: usize) -> &'static Table {
        static ALL: [[OnceLock<Table>; MAX_CELLS]; Shape::SLOTS] =
            [const { [const { OnceLock::new() }; MAX_CELLS] }; Shape::SLOTS];
        ALL[shape.slot()][goal_blank].get_or_init(|| {
            let transitions = Transitions::of(shape, goal_blank);
            if shape.cells() == 8 {
                Table::Wide(build(transitions, goal_blank))
            } else {
                Table::Narrow(build(transitions, goal_blank))
            }
        })
    }
}

/// Builds the table for goals of this shape with their blank in this cell, if
/// there is none yet: for a service that wants its first answer to be as quick
/// as the others. A table that is being built is waited for, never built twice.
///
/// ```
/// use loyd::puzzle::Shape;
/// loyd::search::goal_table::warm(Shape::EIGHT, 8);
/// ```
pub fn warm(shape: Shape, goal_blank: usize) {
    if goal_blank < shape.cells() {
        Table::of(shape, goal_blank);
    }
}

/// All solutions to one goal: what starts to the same goal share is found once.
///
/// ```
/// use loyd::puzzle::{Board, Shape};
/// use loyd::search::{Detail, goal_table::Solutions};
///
/// let solutions = Solutions::to(&Board::standard_goal(Shape::EIGHT));
/// let start = Board::from_bytes(Shape::EIGHT, &[1, 2, 3, 0, 4, 6, 7, 5, 8])?;
/// let mut moves = String::new();
/// let found = solutions.find(&start);
/// solutions.answer(solutions.fetch(found), Detail::Moves, &mut moves);
/// assert_eq!(moves, "rdr");
/// # Ok::<(), loyd::puzzle::BoardError>(())
/// ```
pub struct Solutions {
    labels: Labels,
    transitions: &'static Transitions,
    table: &'static Table,
}

/// The solutions to the goal that was asked for last, which most goals are.
#[derive(Default)]
pub struct LastSolutions(Option<(Board, Solutions)>);

impl LastSolutions {
    /// The solutions to this goal.
    #[inline]
    pub fn to(&mut self, goal: &Board) -> &Solutions {
        if self.0.as_ref().is_some_and(|(of, _)| of != goal) {
            self.0 = None;
        }
        let kept = self.0.get_or_insert_with(|| (*goal, Solutions::to(goal)));
        &kept.1
    }
}

/// Where [`Solutions`] has the solution of a start, if there is one.
#[derive(Clone, Copy, Debug)]
pub struct Found(u32);

impl Found {
    /// What a start has that no moves lead from to the goal: beyond any table.
    pub const NONE: Found = Found(u32::MAX);
}

/// A solution as the table has it: all moves in a word, and zero where there is
/// none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched(u128);

impl Fetched {
    /// What is fetched for [`Found::NONE`].
    pub const NONE: Fetched = Fetched(0);
}

impl Solutions {
    /// The solutions to this goal; builds its table if there is none yet.
    #[inline]
    pub fn to(goal: &Board) -> Solutions {
        Solutions {
            labels: Labels::new(goal),
            transitions: Transitions::of(goal.shape(), goal.blank()),
            table: Table::of(goal.shape(), goal.blank()),
        }
    }

    /// Where the solution of a start is. One of another shape has none.
    #[inline]
    pub fn find(&self, start: &Board) -> Found {
        if start.shape() != self.transitions.shape() {
            return Found::NONE;
        }
        let place = self.labels.place(start);
        place.map_or(Found::NONE, |place| {
            Found(self.transitions.dense(place) as u32)
        })
    }

    /// Reads the table. To fetch several solutions in a row, before the first of
    /// them is written, lets the memory accesses overlap.
    #[inline]
    pub fn fetch(&self, found: Found) -> Fetched {
        let index = found.0 as usize;
        Fetched(match self.table {
            Table::Narrow(words) => words.get(index).copied().unwrap_or_default().into(),
            Table::Wide(words) => words.get(index).copied().unwrap_or_default(),
        })
    }

    /// Asks the memory for what is to be fetched: to fetch it a little later,
    /// with something else done in between, then waits for nothing.
    #[inline]
    pub fn prefetch(&self, found: Found) {
        let index = found.0 as usize;
        match self.table {
            Table::Narrow(words) => words.get(index).map_or((), prefetch),
            Table::Wide(words) => words.get(index).map_or((), prefetch),
        }
    }

    /// The answer; its moves are appended to `moves`.
    #[inline]
    pub fn answer(&self, fetched: Fetched, detail: Detail, moves: &mut String) -> Solution {
        let length = self.length_of(fetched, detail, moves);
        Solution::free(
            length.map_or(Outcome::Unsolvable, |length| Outcome::Solved {
                length,
                optimal: true,
            }),
        )
    }

    /// The number of moves of the answer, `None` where no moves lead to the
    /// goal; the moves are appended to `moves`.
    #[inline]
    pub fn length_of(&self, fetched: Fetched, detail: Detail, moves: &mut String) -> Option<u32> {
        if fetched == Fetched::NONE {
            return None;
        }
        let Fetched(word) = fetched;
        Some(match self.table {
            Table::Narrow(_) => {
                let low = word as u64;
                let length = (u64::BITS - 1 - low.leading_zeros()) / 2;
                if detail == Detail::Moves {
                    write(low.to_le_bytes(), length, moves);
                }
                length
            }
            Table::Wide(_) => {
                let length = (u128::BITS - 1 - word.leading_zeros()) / 2;
                if detail == Detail::Moves {
                    write(word.to_le_bytes(), length, moves);
                }
                length
            }
        })
    }
}

/// Solves a problem.
#[inline]
pub(super) fn solve(problem: &Problem, detail: Detail, moves: &mut String) -> Solution {
    let solutions = Solutions::to(problem.goal());
    let found = solutions.find(problem.start());
    solutions.answer(solutions.fetch(found), detail, moves)
}

/// Asks for a word's line of the cache, where there is a stable way to.
#[inline]
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(unused_variables, reason = "the processor guesses for itself there")
)]
fn prefetch<Word>(word: &Word) {
    #[cfg(target_arch = "x86_64")]
    #[expect(
        unsafe_code,
        reason = "a plain read holds up all that comes after it: a twentieth of \
                  what a message of one board takes"
    )]
    // SAFETY: it reads nothing that the program sees, and the word is there.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast());
    }
}

/// Writes so many of a word's moves.
#[inline]
fn write<const BYTES: usize>(word: [u8; BYTES], length: u32, moves: &mut String) {
    // All of the word's bytes, and then what is no move taken away again: a
    // number of bytes that is known needs no loop.
    let letters = word.map(|byte| LETTERS[usize::from(byte)]);
    #[expect(
        unsafe_code,
        reason = "to check the letters took a quarter of the time of an answer"
    )]
    // SAFETY: the letters are all ASCII, and what was there before ends where
    // it did, so the bytes are UTF-8 at every step.
    let moves = unsafe { moves.as_mut_vec() };
    let before = moves.len();
    moves.extend_from_slice(letters.as_flattened());
    moves.truncate(before + length as usize);
}

/// Moves in a byte of a word.
const MOVES_A_BYTE: usize = 4;

/// The letters of the moves in a byte, that in the lowest bits first.
static LETTERS: [[u8; MOVES_A_BYTE]; 256] = {
    let mut letters = [[0; MOVES_A_BYTE]; 256];
    let mut byte = 0;
    while byte < letters.len() {
        let mut place = 0;
        while place < MOVES_A_BYTE {
            let direction = Direction::ALL[byte >> (2 * place) & 3];
            letters[byte][place] = direction.letter() as u8;
            place += 1;
        }
        byte += 1;
    }
    letters
};

fn build<Word>(transitions: &Transitions, goal_blank: usize) -> Box<[Word]>
where
    Word: Copy + Default + Eq + From<u8> + Shl<u32, Output = Word> + BitOr<Output = Word>,
{
    let nothing = Word::default();
    let root: Place = Place::of_goal(goal_blank);
    let mut words = vec![nothing; transitions.dense_room()];
    let mut queue: Vec<Packed> = Vec::with_capacity(transitions.dense_room());
    words[transitions.dense(root)] = Word::from(1);
    queue.push(pack_root(root));
    let added = transitions.added();
    let mut head = 0;
    while let Some(&state) = queue.get(head) {
        head += 1;
        let word = words[transitions.dense(unpack(state))];
        for exit in transitions.exits(state) {
            let next = added.follow(exit, half_of(state));
            let place = &mut words[transitions.dense(unpack(next))];
            if *place == nothing {
                // What led here from the goal, taken back, leads there.
                let back = exit.direction.opposite();
                *place = word << 2 | Word::from(back as u8);
                queue.push(next);
            }
        }
    }
    words.into_boxed_slice()
}
