//! One breadth-first search from a goal, kept: it answers every start.
//!
//! Moves can be taken back, so the distance *from* the goal is the distance
//! *to* it. Any goal is that of its blank's cell with the tiles relabelled, so
//! a 3x3 board has nine tables, of 1.5 MB each. A table has the whole solution
//! of each state in one word, so an answer is one look-up and no walk.

#![expect(
    clippy::indexing_slicing,
    reason = "indices are those of states of the shape that the table was built for"
)]

use std::ops::{BitOr, Shl};
use std::sync::OnceLock;

use super::index::{Labels, Place};
use super::transitions::{Packed, Transitions, half_of, pack_root, unpack};
use super::{Detail, Outcome, Solution};
use crate::puzzle::{Direction, MAX_CELLS, Problem, Shape};

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

/// Solves a problem.
#[inline]
pub(super) fn solve(problem: &Problem, detail: Detail, moves: &mut String) -> Solution {
    let goal = problem.goal();
    let Some(start) = Labels::new(goal).place(problem.start()) else {
        return Solution::free(Outcome::Unsolvable);
    };
    let shape = problem.shape();
    let transitions = Transitions::of(shape, goal.blank());
    let index = transitions.dense(start);
    let length = match Table::of(shape, goal.blank()) {
        Table::Narrow(words) => write(u128::from(words[index]), detail, moves),
        Table::Wide(words) => write(words[index], detail, moves),
    };
    Solution::free(Outcome::Solved {
        length,
        optimal: true,
    })
}

/// Writes a word's moves, and returns their number.
#[inline]
fn write(word: u128, detail: Detail, moves: &mut String) -> u32 {
    let length = (u128::BITS - 1 - word.leading_zeros()) / 2;
    if detail == Detail::Moves {
        // Whole bytes of moves, the useless ones behind the last included.
        let mut letters = [[0; MOVES_A_BYTE]; ROOM / MOVES_A_BYTE];
        for (four, byte) in letters.iter_mut().zip(word.to_le_bytes()) {
            *four = LETTERS[usize::from(byte)];
        }
        let letters = letters.as_flattened();
        let letters = letters.get(..length as usize).unwrap_or_default();
        // They are all ASCII, so this does not fail.
        moves.push_str(std::str::from_utf8(letters).unwrap_or_default());
    }
    length
}

/// Moves in a byte of a word.
const MOVES_A_BYTE: usize = 4;

/// The most moves of any board, 36, in whole bytes of a word.
const ROOM: usize = 40;

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
    let ranks = transitions.ranks();
    let mut head = 0;
    while let Some(&state) = queue.get(head) {
        head += 1;
        let word = words[transitions.dense(unpack(state))];
        for exit in transitions.exits(state) {
            let next = ranks.follow(exit, half_of(state));
            let place = &mut words[transitions.dense(unpack(next))];
            if *place == nothing {
                // What led here from the goal, taken back, leads there.
                let back = exit.reached.direction().opposite();
                *place = word << 2 | Word::from(back as u8);
                queue.push(next);
            }
        }
    }
    words.into_boxed_slice()
}
