//! Lower bounds on the moves that are left.
//!
//! The search reads them, or what they make of each move, from a table of one
//! byte a state, built at first use for each heuristic and cell of the goal's
//! blank (181 KB for 3x3): all three are then as cheap as an array access.

#![expect(
    clippy::indexing_slicing,
    reason = "indices are cells and tiles of the shape at hand"
)]

use std::sync::OnceLock;

use super::Heuristic;
use super::arrays::filled_box;
use super::index::{Place, arrange, halves, phase};
use super::transitions::{INDICES, Transitions};
use crate::puzzle::{Direction, MAX_CELLS, Problem, Shape};

/// The estimate of the moves from a problem's start to its goal: never more
/// than there are, and 0 at the goal.
///
/// Manhattan distance and misplaced tiles are from J. E. Doran and D. Michie,
/// "Experiments with the Graph Traverser Program", 1966; linear conflict from
/// O. Hansson, A. Mayer and M. Yung, "Criticizing Solutions to Relaxed Models
/// Yields Powerful Admissible Heuristics", 1992.
pub fn estimate(heuristic: Heuristic, problem: &Problem) -> u32 {
    let mut goal_cells = [0; MAX_CELLS];
    for (cell, &tile) in problem.goal().tiles().iter().enumerate() {
        goal_cells[usize::from(tile)] = cell;
    }
    let mut targets = [None; MAX_CELLS];
    for (target, &tile) in targets.iter_mut().zip(problem.start().tiles()) {
        *target = (tile != 0).then(|| goal_cells[usize::from(tile)]);
    }
    value(heuristic, problem.shape(), &targets)
}

/// The estimate of a state, given the goal cell of the tile in each cell.
fn value(heuristic: Heuristic, shape: Shape, targets: &[Option<usize>; MAX_CELLS]) -> u32 {
    let tiles = || {
        let by_cell = targets.iter().enumerate();
        by_cell.filter_map(|(cell, target)| target.map(|target| (cell, target)))
    };
    let manhattan = || {
        let columns = shape.columns();
        let steps = tiles().map(|(cell, target)| {
            (cell / columns).abs_diff(target / columns)
                + (cell % columns).abs_diff(target % columns)
        });
        steps.sum::<usize>()
    };
    let value = match heuristic {
        Heuristic::MisplacedTiles => tiles().filter(|(cell, target)| cell != target).count(),
        Heuristic::Manhattan => manhattan(),
        Heuristic::LinearConflict => manhattan() + 2 * conflicts(shape, targets),
    };
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The least number of tiles that must step out of their lines: in each line,
/// the tiles that belong there less the most of them that are in order.
///
/// Counting the pairs in conflict instead counts too much: of three tiles in
/// reverse order two must step aside, not three.
fn conflicts(shape: Shape, targets: &[Option<usize>; MAX_CELLS]) -> usize {
    let (rows, columns) = (shape.rows(), shape.columns());
    let row = |cell: usize| cell / columns;
    let column = |cell: usize| cell % columns;
    let in_rows: usize = (0..rows)
        .map(|line| {
            let cells = (0..columns).map(|place| line * columns + place);
            let targets = cells.filter_map(|cell| targets[cell]);
            out_of_order(targets.filter(|&target| row(target) == line).map(column))
        })
        .sum();
    let in_columns: usize = (0..columns)
        .map(|line| {
            let cells = (0..rows).map(|place| place * columns + line);
            let targets = cells.filter_map(|cell| targets[cell]);
            out_of_order(targets.filter(|&target| column(target) == line).map(row))
        })
        .sum();
    in_rows + in_columns
}

/// How many of at most four items have to go for the others to ascend.
fn out_of_order(items: impl Iterator<Item = usize>) -> usize {
    /// No line is longer.
    const LINE: usize = 4;
    let mut seen = [(0, 0); LINE];
    let mut count = 0;
    let mut longest = 0;
    for item in items {
        // The longest ascending run that ends here.
        let before = seen[..count].iter().filter(|(other, _)| *other < item);
        let run = 1 + before.map(|&(_, run)| run).max().unwrap_or(0);
        seen[count] = (item, run);
        count += 1;
        longest = longest.max(run);
    }
    count - longest
}

/// Something of all states, by index.
type OfStates = [u8; INDICES];

/// By the goal's blank and the heuristic.
type OfShape = [[OnceLock<Box<OfStates>>; 3]; MAX_CELLS];

/// For each shape. Not a constant, but an initial value that is repeated.
macro_rules! of_shapes {
    () => {
        [const { [const { [const { OnceLock::new() }; 3] }; MAX_CELLS] }; Shape::SLOTS]
    };
}

/// The estimates of all states.
pub(super) fn table(
    heuristic: Heuristic,
    transitions: &Transitions,
    goal_blank: usize,
) -> &'static OfStates {
    static ALL: [OfShape; Shape::SLOTS] = of_shapes!();
    ALL[transitions.shape().slot()][goal_blank][heuristic as usize]
        .get_or_init(|| build(heuristic, transitions, goal_blank))
}

/// By how much each move of a state raises `f = g + h`: two bits for each
/// direction, the first one's lowest.
pub(super) type Rises = OfStates;

/// What the moves of all states raise `f` by: 0 to 2, as the heuristics are
/// consistent.
pub(super) fn rises(
    heuristic: Heuristic,
    transitions: &Transitions,
    goal_blank: usize,
) -> &'static Rises {
    static ALL: [OfShape; Shape::SLOTS] = of_shapes!();
    ALL[transitions.shape().slot()][goal_blank][heuristic as usize].get_or_init(|| {
        let estimates = table(heuristic, transitions, goal_blank);
        let mut values: Box<Rises> = filled_box(0);
        for place in transitions.places() {
            let estimate = estimates[place.index()];
            for direction in Direction::ALL {
                if let Some(next) = transitions.legal_step(place, direction) {
                    let rise = estimates[next.index()] + 1 - estimate;
                    values[place.index()] |= rise << (2 * direction as u32);
                }
            }
        }
        values
    })
}

fn build(heuristic: Heuristic, transitions: &Transitions, goal_blank: usize) -> Box<OfStates> {
    let shape = transitions.shape();
    let items = shape.cells() - 1;
    // The goal cell of each item of an arrangement, the blank left out.
    let target = |item: u8| usize::from(item) + usize::from(usize::from(item) >= goal_blank);
    let mut values: Box<OfStates> = filled_box(0);
    for half in halves(shape) {
        // By parity: all cells of the blank share these two.
        let arrangements = [0, 1].map(|parity| {
            let mut arrangement = [0; MAX_CELLS];
            arrange(half, parity, &mut arrangement[..items]);
            arrangement
        });
        for cell in 0..shape.cells() {
            let parity = phase(shape, cell) ^ phase(shape, goal_blank);
            let arrangement = &arrangements[parity as usize & 1][..items];
            let (before, after) = arrangement.split_at(cell);
            let mut targets = [None; MAX_CELLS];
            for (place, &item) in targets.iter_mut().zip(before) {
                *place = Some(target(item));
            }
            for (place, &item) in targets[cell + 1..].iter_mut().zip(after) {
                *place = Some(target(item));
            }
            let index = Place { cell, half }.index();
            // No estimate of a board up to 3x3 comes near 255.
            values[index] = u8::try_from(value(heuristic, shape, &targets)).unwrap_or(u8::MAX);
        }
    }
    values
}
