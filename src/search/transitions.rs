//! What the moves do to a state's index, as tables.
//!
//! A move along a row leaves the arrangement as it is. A move between rows
//! takes one tile past `columns - 1` others, which changes as many digits of
//! the Cantor rank and no others: one table of ranks for each of these moves,
//! 484 KB in all for 3x3, built at first use.

#![expect(
    clippy::indexing_slicing,
    reason = "indices are ranks, cells and codes of the shape that the tables were built for"
)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "ranks, cells and codes are far below 16 bits for at most nine cells"
)]

use std::sync::OnceLock;

use super::index::{Place, phase};
use crate::puzzle::{Direction, MAX_CELLS, Shape, cantor};

/// A state in a list or queue: half the rank in the low 16 bits, above it a
/// *code*: the blank's cell and the move that brought it there, or
/// [`ROOT`] and the cell.
pub(super) type Packed = u32;

/// Codes of states that no move led to start here.
pub(super) const ROOT: usize = 4 * MAX_CELLS;

/// A power of two, so that a mask keeps any code in bounds.
pub(super) const CODES: usize = 64;

/// How a move takes a state to its successor.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(16))]
pub(super) struct Exit {
    /// Where its table of ranks starts in [`Transitions::ranks`].
    pub(super) table: u32,
    /// The index of the first state with the blank in the new cell.
    pub(super) offset: u32,
    /// The code of the successor, where [`Packed`] has it.
    pub(super) code: u32,
    /// The move: its place in [`Direction::ALL`].
    pub(super) direction: u8,
    /// The list of [`super::frontier`] that the successor belongs to.
    pub(super) class: u8,
}

/// The moves of one shape. For an even number of columns the parity of an
/// arrangement follows from the blank's row *and* the goal's, so there are two
/// sets of these tables.
pub(super) struct Transitions {
    shape: Shape,
    /// States with the blank in one cell.
    pub(super) arrangements: u32,
    /// For each table, the new half of a rank at the place of the old one. The
    /// first table changes nothing: moves along a row share it.
    pub(super) ranks: Vec<u16>,
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
        let arrangements = cantor::factorial(cells - 1) / 2;
        let mut ranks: Vec<u16> = (0..arrangements as u16).collect();
        let mut steps = [[Exit::default(); 4]; MAX_CELLS];
        for cell in 0..cells {
            for direction in [Direction::Left, Direction::Right] {
                if let Some(next) = shape.neighbour(cell, direction) {
                    steps[cell][direction as usize] =
                        exit(shape, arrangements, cell, next, direction, 0);
                }
            }
            if let Some(below) = shape.neighbour(cell, Direction::Down) {
                let down_table = ranks.len();
                let up_table = down_table + arrangements as usize;
                ranks.resize(up_table + arrangements as usize, 0);
                let parity = phase(shape, cell) ^ goal_phase;
                for half in 0..arrangements {
                    let next = half_below(shape, cell, half, parity);
                    ranks[down_table + half as usize] = next as u16;
                    ranks[up_table + next as usize] = half as u16;
                }
                let (down, up) = (Direction::Down, Direction::Up);
                steps[cell][down as usize] =
                    exit(shape, arrangements, cell, below, down, down_table);
                steps[below][up as usize] = exit(shape, arrangements, below, cell, up, up_table);
            }
        }
        let mut exits = [[Exit::default(); 4]; CODES];
        let mut counts = [0; CODES];
        for cell in 0..cells {
            let codes = Direction::ALL
                .into_iter()
                .map(|direction| (cell * 4 + direction as usize, Some(direction.opposite())));
            for (code, back) in codes.chain([(ROOT + cell, None)]) {
                let mut onward: Vec<Exit> = Direction::ALL
                    .into_iter()
                    .filter(|direction| Some(*direction) != back)
                    .filter(|direction| shape.neighbour(cell, *direction).is_some())
                    .map(|direction| steps[cell][direction as usize])
                    .collect();
                onward.sort_by_key(|exit| exit.class);
                counts[code] = onward.len() as u8;
                exits[code][..onward.len()].copy_from_slice(&onward);
            }
        }
        Transitions {
            shape,
            arrangements,
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

    /// The number of states that reach a goal.
    #[inline]
    pub(super) fn states(&self) -> usize {
        self.arrangements as usize * self.shape.cells()
    }

    /// The place with the tiles in the goal's order and the blank in this cell.
    #[inline]
    pub(super) fn root(cell: usize) -> Place {
        Place { cell, half: 0 }
    }

    /// The index of a state.
    #[inline]
    pub(super) fn index(&self, place: Place) -> usize {
        place.cell * self.arrangements as usize + place.half as usize
    }

    /// The moves on from states with this code, without the way back, and as
    /// an array of which that many count.
    #[inline]
    pub(super) fn onward(&self, code: usize) -> &[Exit; 4] {
        &self.exits[code & (CODES - 1)]
    }

    /// The moves on from a state, without the way back.
    #[inline]
    pub(super) fn exits(&self, state: Packed) -> &[Exit] {
        let code = code_of(state);
        &self.exits[code][..usize::from(self.counts[code])]
    }

    /// The number of legal moves from a state, the way back included.
    #[inline]
    pub(super) fn degree(&self, state: Packed) -> u64 {
        let code = code_of(state);
        u64::from(self.counts[code]) + u64::from(code < ROOT)
    }

    /// The rank that a move leads to.
    #[inline]
    pub(super) fn follow(&self, exit: &Exit, half: u32) -> u32 {
        u32::from(self.ranks[exit.table as usize + half as usize])
    }

    /// The place that a legal move leads to.
    #[inline]
    pub(super) fn step(&self, place: Place, direction: Direction) -> Place {
        let exit = &self.steps[place.cell][direction as usize];
        Place {
            cell: exit.code as usize >> 18,
            half: self.follow(exit, place.half),
        }
    }
}

/// A state that no move led to.
#[inline]
pub(super) fn pack_root(place: Place) -> Packed {
    ((ROOT + place.cell) << 16) as u32 | place.half
}

/// The place of a state.
#[inline]
pub(super) fn unpack(state: Packed) -> Place {
    let code = code_of(state);
    Place {
        cell: if code < ROOT { code / 4 } else { code - ROOT },
        half: half_of(state),
    }
}

/// The code of a state.
#[inline]
pub(super) fn code_of(state: Packed) -> usize {
    (state >> 16) as usize & (CODES - 1)
}

/// Half the rank of a state.
#[inline]
pub(super) fn half_of(state: Packed) -> u32 {
    state & 0xffff
}

/// The class of states with the blank in a cell: its colour on a checkerboard,
/// which every move changes, times two. On 3x3 the last bit tells the states
/// of a colour apart by the number of moves on: first the blank in the centre,
/// or come from there.
pub(super) fn class_of(shape: Shape, cell: usize, from: Option<usize>) -> u8 {
    let colour = ((cell / shape.columns() + cell % shape.columns()) % 2) as u8;
    let centre = 4;
    let off_centre = shape == Shape::EIGHT && cell != centre && from != Some(centre);
    colour * 2 + u8::from(off_centre)
}

fn exit(
    shape: Shape,
    arrangements: u32,
    from: usize,
    to: usize,
    direction: Direction,
    table: usize,
) -> Exit {
    Exit {
        table: table as u32,
        offset: to as u32 * arrangements,
        code: ((to * 4 + direction as usize) << 16) as u32,
        direction: direction as u8,
        class: class_of(shape, to, Some(from)),
    }
}

/// Half the rank after the blank went down from `cell`, for an arrangement of
/// that parity.
fn half_below(shape: Shape, cell: usize, half: u32, parity: u32) -> u32 {
    let items = shape.cells() - 1;
    let mut digits = [0_u8; MAX_CELLS];
    let mut rest = half;
    let mut sum = 0;
    for place in (0..items.saturating_sub(2)).rev() {
        let choices = (items - place) as u32;
        // `half` lacks the factor 2 of the last digit but one.
        digits[place] = (rest % choices) as u8;
        sum += rest % choices;
        rest /= choices;
    }
    digits[items - 2] = ((sum ^ parity) & 1) as u8;
    // The tile from below passes the others one at a time. Two neighbours that
    // change places also change their digits, and the one that is larger
    // counts the other only where it stands on the left.
    let last = cell + shape.columns() - 1;
    for left in (cell..last).rev() {
        let (a, b) = (digits[left], digits[left + 1]);
        (digits[left], digits[left + 1]) = if a > b { (b, a - 1) } else { (b + 1, a) };
    }
    let mut rank = 0;
    for (place, &digit) in digits[..items].iter().enumerate() {
        rank = rank * (items - place) as u32 + u32::from(digit);
    }
    rank / 2
}

#[cfg(test)]
mod tests {
    use super::super::index::Labels;
    use super::*;
    use crate::puzzle::{Board, Problem};

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
                let mut seen = vec![false; transitions.states()];
                for board in boards(shape) {
                    let place = labels.place(&board);
                    let problem = Problem::new(board, goal).unwrap();
                    assert_eq!(place.is_some(), problem.is_solvable(), "{board}");
                    let Some(place) = place else { continue };
                    let index = transitions.index(place);
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
                assert!(seen.into_iter().all(|seen| seen));
            }
        }
    }
}
