//! What the modules share: boards, goals and the check of one answer.

use loyd::puzzle::{Board, Direction, Problem, Shape, cantor};
use loyd::search::{
    Budget, Heuristic, Method, Outcome, SearchOptions, Solution, Weight, Workspace, solve,
};

/// All boards of a shape, reachable or not, by their Cantor ranks.
pub(crate) fn all_boards(shape: Shape) -> impl Iterator<Item = Board> {
    (0..cantor::factorial(shape.cells())).map(move |rank| board(shape, rank))
}

/// The board of a Cantor rank.
pub(crate) fn board(shape: Shape, rank: u32) -> Board {
    let mut tiles = [0; 9];
    cantor::unrank(rank, &mut tiles[..shape.cells()]);
    Board::from_bytes(shape, &tiles[..shape.cells()]).unwrap()
}

/// A goal as text, with the number of columns of its shape.
pub(crate) fn goal(text: &str, shape: Shape) -> Board {
    loyd::puzzle::text::parse(text, Some(shape.columns())).unwrap()
}

/// The standard goal and one with its blank on an edge and in the centre.
pub(crate) fn goals_of_eight() -> [Board; 3] {
    [
        "1 2 3 4 5 6 7 8 0",
        "1 0 2 3 4 5 6 7 8",
        "1 2 3 8 0 4 7 6 5",
    ]
    .map(|text| goal(text, Shape::EIGHT))
}

/// The shapes below 3x3.
pub(crate) fn smaller_shapes() -> impl Iterator<Item = Shape> {
    Shape::ALL
        .into_iter()
        .filter(|&shape| shape != Shape::EIGHT)
}

/// The options for a method, its other options being the default.
pub(crate) fn method(method: Method) -> SearchOptions {
    SearchOptions {
        method,
        ..SearchOptions::default()
    }
}

/// The options for A* with a heuristic and a weight.
pub(crate) fn a_star(heuristic: Heuristic, weight: f64) -> SearchOptions {
    SearchOptions {
        method: Method::AStar,
        heuristic,
        weight: Weight::new(weight).unwrap(),
        ..SearchOptions::default()
    }
}

/// Solves without a budget.
pub(crate) fn run(
    workspace: &mut Workspace,
    problem: &Problem,
    options: &SearchOptions,
    moves: &mut String,
) -> Solution {
    solve(workspace, problem, options, &Budget::UNLIMITED, moves).unwrap()
}

/// Solves a problem that can be solved, replays the moves, and returns their
/// number and whether that is proved to be the least.
pub(crate) fn solved(
    workspace: &mut Workspace,
    problem: &Problem,
    options: &SearchOptions,
    moves: &mut String,
) -> (u32, bool) {
    moves.clear();
    let solution = run(workspace, problem, options, moves);
    let Outcome::Solved { length, optimal } = solution.outcome else {
        panic!("{problem:?} with {options:?}: {solution:?}");
    };
    assert_eq!(moves.len(), length as usize, "{problem:?} {options:?}");
    let mut here = *problem.start();
    for letter in moves.chars() {
        let direction = Direction::from_letter(letter).unwrap();
        here = here
            .slide(direction)
            .unwrap_or_else(|| panic!("{problem:?} {options:?}: {moves} leaves the board"));
    }
    assert_eq!(here, *problem.goal(), "{problem:?} {options:?}: {moves}");
    (length, optimal)
}

/// The rows of `tests/data/distance_distribution.tsv`: how many states there
/// are at each distance.
pub(crate) fn distribution(row: &str) -> Vec<u64> {
    let file = include_str!("../data/distance_distribution.tsv");
    let (_, counts) = file
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .find(|(name, _)| *name == row)
        .unwrap_or_else(|| panic!("no row {row}"));
    counts
        .split(' ')
        .map(|count| count.parse().unwrap())
        .collect()
}

/// The row of a goal in that file.
pub(crate) fn distribution_of(goal: &Board) -> Vec<u64> {
    let shape = goal.shape();
    if *goal == Board::standard_goal(shape) {
        distribution(&format!("{shape} blank last"))
    } else {
        let tiles = goal.tiles().iter().map(u8::to_string).collect::<Vec<_>>();
        distribution(&format!("{shape} goal {}", tiles.join(" ")))
    }
}
