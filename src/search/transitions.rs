//! What the moves do to a state's index, as tables.
//!
//! A move along a row leaves the arrangement as it is. A move between rows
//! takes one tile past `columns - 1` others, which changes as many digits of
//! the Cantor rank and one more: one table of ranks for each of these moves,
//! half a megabyte in all for 3x3, built at first use.

#![expect(
    clippy::indexing_slicing,
    reason = "indices are ranks, cells and codes of the shape that the tables were built for"
)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "ranks, cells and codes are far below 16 bits for at most nine cells"
)]

use std::sync::OnceLock;

use super::index::{HALVES, LOW_BITS, Place, digits_of, half_of_digits, halves, phase};
use super::visited::{Seen, filled_box};
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
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(16))]
pub(super) struct Exit {
    /// Where its table of ranks starts in [`Transitions::ranks`].
    pub(super) table: u32,
    /// The successor, less its half rank.
    pub(super) code: Packed,
    /// What is to be noted at the successor's index.
    pub(super) reached: Seen,
}

/// The moves of one shape. For an even number of columns the parity of an
/// arrangement follows from the blank's row *and* the goal's, so there are two
/// sets of these tables.
pub(super) struct Transitions {
    shape: Shape,
    /// More than half of any rank.
    room: u32,
    /// The tables: the new half of a rank at the place of the old one. The
    /// first one changes nothing: moves along a row share it. For 3x3 there
    /// are thirteen, and [`INDICES`] leave room for sixteen.
    ranks: Box<[u16; INDICES]>,
    /// What they come to for moves that change few digits: all 0 for shapes
    /// that are not 3x3, which never look at them.
    short: Box<Short>,
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
        let mut ranks = filled_box(0);
        for (half, rank) in ranks.iter_mut().enumerate().take(HALVES as usize) {
            *rank = half as u16;
        }
        let mut steps = [[Exit::default(); 4]; MAX_CELLS];
        for (cell, steps) in steps.iter_mut().enumerate().take(cells) {
            for (direction, step) in Direction::ALL.into_iter().zip(steps) {
                if let Some(next) = shape.neighbour(cell, direction) {
                    *step = exit(shape, cell, next, direction);
                }
            }
            if let Some(below) = shape.neighbour(cell, Direction::Down) {
                let down_table = exit(shape, cell, below, Direction::Down).table;
                let up_table = exit(shape, below, cell, Direction::Up).table;
                let parity = phase(shape, cell) ^ goal_phase;
                for half in halves(shape) {
                    let next = half_below(shape, cell, half, parity);
                    ranks[(down_table | half) as usize] = next as u16;
                    ranks[(up_table | next) as usize] = half as u16;
                }
            }
        }
        let mut exits = [[Exit::default(); 4]; CODES];
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
            short: Short::of(shape, &ranks),
            ranks,
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

    /// The tables of ranks, in an array in which any masked index is good.
    #[inline]
    pub(super) fn ranks(&self) -> Ranks<'_> {
        Ranks(&self.ranks)
    }

    /// The short tables, of 3x3.
    #[inline]
    pub(super) fn short(&self) -> &Short {
        &self.short
    }

    /// The place that a legal move leads to.
    #[inline]
    pub(super) fn step(&self, place: Place, direction: Direction) -> Place {
        let exit = &self.steps[place.cell][direction as usize];
        unpack(self.ranks().follow(exit, place.half))
    }
}

/// Tables of ranks in which there is one entry for all half ranks that agree
/// in the digits that matter: together they fit in the first cache. By the
/// cell above and the direction; for 3x3, where all three are true.
pub(super) struct Short {
    /// From the first cell: what the high bits become.
    high: [[u16; 1 << (HALF_BITS - LOW_BITS)]; 2],
    /// From the second cell: what is added, by all but the last two bits.
    added: [[u16; 1 << (HALF_BITS - 2)]; 2],
    /// From the second row: what the low bits and the one above become.
    low: [[[u8; 1 << (LOW_BITS + 1)]; 2]; 3],
}

/// The bits that a move from the second row changes, and the parity that
/// decides how.
const LOW: u16 = (1 << (LOW_BITS + 1)) - 1;

impl Short {
    fn of(shape: Shape, ranks: &[u16; INDICES]) -> Box<Short> {
        let mut short = Box::new(Short {
            high: [[0; 1 << (HALF_BITS - LOW_BITS)]; 2],
            added: [[0; 1 << (HALF_BITS - 2)]; 2],
            low: [[[0; 1 << (LOW_BITS + 1)]; 2]; 3],
        });
        if shape != Shape::EIGHT {
            return short;
        }
        for half in halves(shape) {
            let place = half as usize;
            for (way, direction) in Short::WAYS.into_iter().enumerate() {
                let next = |above| ranks[Short::table(above, direction) << HALF_BITS | place];
                short.high[way][place >> LOW_BITS] = next(0) >> LOW_BITS << LOW_BITS;
                short.added[way][place >> 2] = next(1).wrapping_sub(half as u16);
                for (row, tables) in short.low.iter_mut().enumerate() {
                    tables[way][place & usize::from(LOW)] = (next(3 + row) & LOW) as u8;
                }
            }
        }
        short
    }

    /// The ways of the tables.
    const WAYS: [Direction; 2] = [Direction::Up, Direction::Down];

    /// The whole table between a cell and the one below.
    const fn table(above: usize, direction: Direction) -> usize {
        let columns = Shape::EIGHT.columns();
        match direction {
            Direction::Down => table_of(above, columns, direction),
            _ => table_of(above + columns, columns, direction),
        }
    }

    /// The half rank after a move from a cell of 3x3.
    #[inline(always)]
    pub(super) fn follow(
        &self,
        ranks: Ranks<'_>,
        cell: usize,
        direction: Direction,
        half: u16,
    ) -> u16 {
        let (above, way) = match direction {
            Direction::Left | Direction::Right => return half,
            Direction::Up => (cell - Shape::EIGHT.columns(), 0),
            Direction::Down => (cell, 1),
        };
        let place = usize::from(half) & ((1 << HALF_BITS) - 1);
        match above {
            0 => self.high[way][place >> LOW_BITS] | half & (LOW >> 1),
            1 => half.wrapping_add(self.added[way][place >> 2]),
            2 => ranks.0[Short::table(above, direction) << HALF_BITS | place],
            _ => half & !LOW | u16::from(self.low[above - 3][way][place & usize::from(LOW)]),
        }
    }
}

/// The tables of ranks of a shape.
#[derive(Clone, Copy)]
pub(super) struct Ranks<'a>(pub(super) &'a [u16; INDICES]);

impl Ranks<'_> {
    /// The successor of a state with this half rank.
    #[inline]
    pub(super) fn follow(self, exit: &Exit, half: u32) -> Packed {
        let place = (exit.table | half) as usize & (INDICES - 1);
        exit.code | Packed::from(self.0[place])
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

/// The table of the ranks that a legal move leads to: 0 along a row, else two
/// for each cell with another below.
pub(super) const fn table_of(cell: usize, columns: usize, direction: Direction) -> usize {
    match direction {
        Direction::Left | Direction::Right => 0,
        Direction::Down => 1 + 2 * cell,
        Direction::Up => 2 + 2 * (cell - columns),
    }
}

#[inline]
fn code_of(state: Packed) -> usize {
    (state >> HALF_BITS) as usize & (CODES - 1)
}

fn exit(shape: Shape, from: usize, to: usize, direction: Direction) -> Exit {
    Exit {
        table: (table_of(from, shape.columns(), direction) << HALF_BITS) as u32,
        code: pack(to, direction as u32, 0),
        reached: Seen::by(direction),
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
