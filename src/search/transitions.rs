//! What the moves do to a state's index, as tables.
//!
//! A move along a row leaves the arrangement as it is. A move between rows
//! takes one tile past `columns - 1` others, which changes as many digits of
//! the Cantor rank and one more: a table for each of these moves tells what it
//! adds to half the rank. On 3x3 most of them need few entries, as few bits
//! decide: 120 KB in all, built at first use.

#![expect(
    clippy::indexing_slicing,
    reason = "indices are ranks, cells and codes of the shape that the tables were built for"
)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "ranks, cells and codes are far below 16 bits for at most nine cells"
)]

use std::sync::OnceLock;

use super::arrays::filled_box;
use super::index::{LOW_BITS, Place, digits_of, half_of_digits, halves, phase};

use crate::puzzle::{Direction, MAX_CELLS, Shape};

/// A state in a list or queue: half the rank in the lowest bits, then the
/// blank's cell, then the move that brought it there. The first two are the
/// state's *index*: indices have gaps, so that a mask is all it takes to get
/// one, and to keep it within an array of [`INDICES`].
pub(super) type Packed = u32;

/// Bits of half a rank: below [`HALVES`].
pub(super) const HALF_BITS: u32 = 15;

/// Bits of an index: a cell and half a rank.
const INDEX_BITS: u32 = HALF_BITS + 4;

/// More than any index.
pub(super) const INDICES: usize = 1 << INDEX_BITS;

/// The move of a state that no move led to: one more than the others.
const NO_MOVE: u32 = Direction::ALL.len() as u32;

/// More than any *code*: a cell and the move that led there.
const CODES: usize = 1 << 7;

/// How a move takes a state to its successor.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
pub(super) struct Exit {
    /// What it does to half the rank.
    table: Table,
    /// The successor, less its half rank.
    pub(super) code: Packed,
    /// The move itself.
    pub(super) direction: Direction,
}

impl Exit {
    /// What stands where there is no move.
    const NONE: Exit = Exit {
        table: Table::UNCHANGED,
        code: 0,
        direction: Direction::Up,
    };
}

/// A part of [`Transitions::added`]: an entry for each value of the bits of
/// half a rank that matter to a move.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    /// The place of its first entry, in units of [`UNIT`].
    begin: u16,
    /// What is left of half a rank once it is shifted.
    mask: u16,
    shift: u8,
}

/// Entries that fill a cache line.
const UNIT: usize = 32;

/// Room for the tables of a shape: so much that no table can lead outside.
const TABLES: usize = (UNIT + 1) << u16::BITS;

/// Bits of half a rank on the boards that are not 3x3: the first of their
/// digits is 0.
const FEW_BITS: u32 = 12;

impl Table {
    /// Of the moves along a row: one entry, that changes nothing.
    const UNCHANGED: Table = Table {
        begin: 0,
        mask: 0,
        shift: 0,
    };

    /// Of the move between a cell and the one below, up or down.
    const fn between_rows(shape: Shape, above: usize, way: usize) -> Table {
        let mut units = 1;
        let mut cell = 0;
        while cell < above {
            units += 2 * Table::units(shape, cell);
            cell += 1;
        }
        let (shift, bits) = Table::decisive(shape, above);
        Table {
            begin: (units + way * Table::units(shape, above)) as u16,
            mask: (1 << bits) - 1,
            shift: shift as u8,
        }
    }

    const fn units(shape: Shape, above: usize) -> usize {
        (1 << Table::decisive(shape, above).1) / UNIT
    }

    /// The bits that decide: how many others are below them, and how many
    /// they are.
    ///
    /// On 3x3 a move between the first cells of the first two rows changes
    /// the first three digits, and they decide it; between the second cells
    /// all but the last decide; and from the second row on the last three, and
    /// the bit that has the parity of the first. All but two of the tables fit
    /// in the first cache together.
    const fn decisive(shape: Shape, above: usize) -> (u32, u32) {
        if shape.cells() < MAX_CELLS {
            return (0, FEW_BITS);
        }
        match above {
            0 => (LOW_BITS, HALF_BITS - LOW_BITS),
            1 => (2, HALF_BITS - 2),
            2 => (0, HALF_BITS),
            _ => (0, LOW_BITS + 1),
        }
    }

    /// The table of a legal move from a cell.
    pub(super) const fn of(shape: Shape, cell: usize, direction: Direction) -> Table {
        match direction {
            Direction::Left | Direction::Right => Table::UNCHANGED,
            Direction::Down => Table::between_rows(shape, cell, 0),
            Direction::Up => Table::between_rows(shape, cell - shape.columns(), 1),
        }
    }

    /// Where the entry of half a rank is: below [`TABLES`].
    #[inline(always)]
    const fn place(self, half: u32) -> usize {
        self.begin as usize * UNIT + (half >> (self.shift & 15) & self.mask as u32) as usize
    }
}

/// The moves of one shape. For an even number of columns the parity of an
/// arrangement follows from the blank's row *and* the goal's, so there are two
/// sets of these tables.
pub(super) struct Transitions {
    shape: Shape,
    /// More than half of any rank.
    room: u32,
    /// The tables: what a move adds to half a rank, modulo 2^16.
    added: Box<[u16; TABLES]>,
    /// For each code the moves on, without the one back.
    exits: [[Exit; 4]; CODES],
    /// How many of them there are.
    counts: [u8; CODES],
    /// For each cell and move, whether or not it leads back.
    steps: [[Exit; 4]; MAX_CELLS],
}

impl Transitions {
    /// The tables for a goal with its blank in this cell.
    #[inline]
    pub(super) fn of(shape: Shape, goal_blank: usize) -> &'static Transitions {
        static ALL: [[OnceLock<Transitions>; 2]; Shape::SLOTS] =
            [const { [const { OnceLock::new() }; 2] }; Shape::SLOTS];
        let goal_phase = phase(shape, goal_blank);
        ALL[shape.slot()][goal_phase as usize & 1]
            .get_or_init(|| Transitions::build(shape, goal_phase))
    }

    fn build(shape: Shape, goal_phase: u32) -> Transitions {
        let cells = shape.cells();
        let mut added = filled_box(0);
        let mut steps = [[Exit::NONE; 4]; MAX_CELLS];
        for (cell, steps) in steps.iter_mut().enumerate().take(cells) {
            for (direction, step) in Direction::ALL.into_iter().zip(steps) {
                if let Some(next) = shape.neighbour(cell, direction) {
                    *step = exit(shape, cell, next, direction);
                }
            }
            if let Some(below) = shape.neighbour(cell, Direction::Down) {
                let down = Table::of(shape, cell, Direction::Down);
                let up = Table::of(shape, below, Direction::Up);
                let parity = phase(shape, cell) ^ goal_phase;
                for half in halves(shape) {
                    let next = half_below(shape, cell, half, parity);
                    added[down.place(half)] = (next as u16).wrapping_sub(half as u16);
                    added[up.place(next)] = (half as u16).wrapping_sub(next as u16);
                }
            }
        }
        let mut exits = [[Exit::NONE; 4]; CODES];
        let mut counts = [0; CODES];
        for (cell, steps) in steps.iter().enumerate().take(cells) {
            let moves =
                Direction::ALL.map(|direction| (direction as u32, Some(direction.opposite())));
            for (arrival, back) in moves.into_iter().chain([(NO_MOVE, None)]) {
                let code = code_of(pack(cell, arrival, 0));
                let onward: Vec<Exit> = Direction::ALL
                    .into_iter()
                    .filter(|direction| Some(*direction) != back)
                    .filter(|direction| shape.neighbour(cell, *direction).is_some())
                    .map(|direction| steps[direction as usize])
                    .collect();
                counts[code] = onward.len() as u8;
                exits[code][..onward.len()].copy_from_slice(&onward);
            }
        }
        Transitions {
            shape,
            room: halves(shape).max().map_or(0, |most| most + 1),
            added,
            exits,
            counts,
            steps,
        }
    }

    /// The shape that the tables are for.
    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// Every state that reaches a goal.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> + use<> {
        let cells = self.shape.cells();
        halves(self.shape).flat_map(move |half| (0..cells).map(move |cell| Place { cell, half }))
    }

    /// More than any dense index.
    pub(super) fn dense_room(&self) -> usize {
        self.shape.cells() * self.room as usize
    }

    /// An index with smaller gaps, for arrays of what is large.
    #[inline]
    pub(super) fn dense(&self, place: Place) -> usize {
        place.cell * self.room as usize + place.half as usize
    }

    /// The place that a move leads to, if it is legal.
    pub(super) fn legal_step(&self, place: Place, direction: Direction) -> Option<Place> {
        let is_legal = self.shape.neighbour(place.cell, direction).is_some();
        is_legal.then(|| self.step(place, direction))
    }

    /// The moves on from a state, without the way back.
    #[inline]
    pub(super) fn exits(&self, state: Packed) -> &[Exit] {
        let code = code_of(state);
        // No count is above four: that is said here so that it is not checked.
        &self.exits[code][..usize::from(self.counts[code] & 7).min(4)]
    }

    /// The moves on from a state, without the way back, how many they are, and
    /// something after them.
    #[inline]
    pub(super) fn padded_exits(&self, state: Packed) -> (&[Exit; 4], usize) {
        let code = code_of(state);
        (&self.exits[code], usize::from(self.counts[code] & 7))
    }

    /// The tables, in an array in which any masked index is good.
    #[inline]
    pub(super) fn added(&self) -> Added<'_> {
        Added(&self.added)
    }

    /// The place that a legal move leads to.
    #[inline]
    pub(super) fn step(&self, place: Place, direction: Direction) -> Place {
        let exit = &self.steps[place.cell][direction as usize];
        unpack(self.added().follow(exit, place.half))
    }
}

/// The tables of a shape.
#[derive(Clone, Copy)]
pub(super) struct Added<'a>(&'a [u16; TABLES]);

impl Added<'_> {
    /// The successor of a state with this half rank.
    #[inline]
    pub(super) fn follow(self, exit: &Exit, half: u32) -> Packed {
        exit.code | Packed::from(self.half(exit.table, half as u16))
    }

    /// Half the rank after a move that has this table.
    #[inline(always)]
    pub(super) fn half(self, table: Table, half: u16) -> u16 {
        half.wrapping_add(self.0[table.place(u32::from(half))])
    }
}

#[inline]
pub(super) const fn pack(cell: usize, arrival: u32, half: u32) -> Packed {
    arrival << INDEX_BITS | (cell as u32) << HALF_BITS | half
}

/// A state that no move led to.
#[inline]
pub(super) fn pack_root(place: Place) -> Packed {
    pack(place.cell, NO_MOVE, place.half)
}

/// The place of a state.
#[inline]
pub(super) fn unpack(state: Packed) -> Place {
    Place {
        cell: index_of(state) >> HALF_BITS,
        half: half_of(state),
    }
}

impl Place {
    /// The index of the state.
    #[inline]
    pub(super) fn index(self) -> usize {
        index_of(pack(self.cell, 0, self.half))
    }
}

/// The index of a state: below [`INDICES`].
#[inline]
pub(super) fn index_of(state: Packed) -> usize {
    state as usize & (INDICES - 1)
}

/// Half the rank of a state.
#[inline]
pub(super) fn half_of(state: Packed) -> u32 {
    state & ((1 << HALF_BITS) - 1)
}

/// The move that led to a state, of one that is no root.
#[inline]
pub(super) fn arrival_of(state: Packed) -> Direction {
    Direction::ALL[(state >> INDEX_BITS) as usize & 3]
}

#[inline]
fn code_of(state: Packed) -> usize {
    (state >> HALF_BITS) as usize & (CODES - 1)
}

fn exit(shape: Shape, from: usize, to: usize, direction: Direction) -> Exit {
    Exit {
        table: Table::of(shape, from, direction),
        code: pack(to, direction as u32, 0),
        direction,
    }
}

/// Half the rank after the blank went down from `cell`, for an arrangement of
/// that parity.
pub(super) fn half_below(shape: Shape, cell: usize, half: u32, parity: u32) -> u32 {
    let mut digits = digits_of(half, parity).unwrap_or_default();
    // The tile from below passes the others one at a time. Two neighbours that
    // change places also change their digits, and the one that is larger
    // counts the other only where it stands on the left.
    let first = MAX_CELLS - shape.cells() + cell;
    for left in (first..first + shape.columns() - 1).rev() {
        let (a, b) = (digits[left], digits[left + 1]);
        (digits[left], digits[left + 1]) = if a > b { (b, a - 1) } else { (b + 1, a) };
    }
    half_of_digits(digits)
}

#[cfg(test)]
mod tests {
    use super::super::index::Labels;
    use super::*;
    use crate::puzzle::{Board, Problem, cantor};

    /// Every board of a shape.
    fn boards(shape: Shape) -> impl Iterator<Item = Board> {
        (0..cantor::factorial(shape.cells())).map(move |rank| {
            let mut tiles = [0; MAX_CELLS];
            cantor::unrank(rank, &mut tiles[..shape.cells()]);
            Board::from_bytes(shape, &tiles[..shape.cells()]).unwrap()
        })
    }

    #[test]
    fn every_move_of_every_state_agrees_with_the_board() {
        for shape in Shape::ALL {
            let mut goals = vec![Board::standard_goal(shape)];
            goals.push(goals[0].slide(Direction::Up).unwrap());
            for goal in goals {
                let labels = Labels::new(&goal);
                let transitions = Transitions::of(shape, goal.blank());
                let mut seen = vec![false; transitions.dense_room()];
                for board in boards(shape) {
                    let place = labels.place(&board);
                    let problem = Problem::new(board, goal).unwrap();
                    assert_eq!(place.is_some(), problem.is_solvable(), "{board}");
                    let Some(place) = place else { continue };
                    let index = transitions.dense(place);
                    assert!(!seen[index]);
                    seen[index] = true;
                    for direction in Direction::ALL {
                        let Some(next) = board.slide(direction) else {
                            continue;
                        };
                        let stepped = transitions.step(place, direction);
                        assert_eq!(labels.place(&next), Some(stepped), "{board} {direction:?}");
                    }
                }
                let mut places = transitions.places();
                assert!(places.all(|place| std::mem::take(&mut seen[transitions.dense(place)])));
                assert!(!seen.contains(&true));
            }
        }
    }
}
