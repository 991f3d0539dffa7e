//! The heuristics never say more than is true, and never change faster than
//! the distance: on every state and every move of every board.

use loyd::puzzle::{Board, Direction, Problem, Shape};
use loyd::search::{Heuristic, Method, Workspace, estimate};

use crate::common::{all_boards, method, smaller_shapes, solved};

/// A goal for each cell of the blank, tiles in order.
fn goals(shape: Shape) -> impl Iterator<Item = Board> {
    (0..shape.cells()).map(move |blank| {
        let mut tiles: Vec<u8> = (1..).take(shape.cells() - 1).collect();
        tiles.insert(blank, 0);
        Board::from_bytes(shape, &tiles).unwrap()
    })
}

fn check(heuristic: Heuristic, goal: Board) {
    let mut workspace = Workspace::new();
    let mut moves = String::new();
    let table = method(Method::GoalTable);
    let to_goal = |start| Problem::new(start, goal).unwrap();
    assert_eq!(estimate(heuristic, &to_goal(goal)), 0);
    for problem in all_boards(goal.shape())
        .map(to_goal)
        .filter(Problem::is_solvable)
    {
        let here = estimate(heuristic, &problem);
        let (distance, _) = solved(&mut workspace, &problem, &table, &mut moves);
        assert!(
            here <= distance,
            "{heuristic:?} of {problem:?}: {here} > {distance}"
        );
        for direction in Direction::ALL {
            if let Some(next) = problem.start().slide(direction) {
                let there = estimate(heuristic, &to_goal(next));
                assert!(
                    here <= there + 1,
                    "{heuristic:?} of {problem:?}: {here}, {there}"
                );
            }
        }
    }
}

#[test]
fn manhattan_distance_is_admissible_and_consistent() {
    goals(Shape::EIGHT).for_each(|goal| check(Heuristic::Manhattan, goal));
}

#[test]
fn misplaced_tiles_are_admissible_and_consistent() {
    goals(Shape::EIGHT).for_each(|goal| check(Heuristic::MisplacedTiles, goal));
}

#[test]
fn linear_conflict_is_admissible_and_consistent() {
    goals(Shape::EIGHT).for_each(|goal| check(Heuristic::LinearConflict, goal));
}

#[test]
fn all_are_admissible_and_consistent_on_the_smaller_boards() {
    for goal in smaller_shapes().flat_map(goals) {
        for heuristic in [
            Heuristic::Manhattan,
            Heuristic::MisplacedTiles,
            Heuristic::LinearConflict,
        ] {
            check(heuristic, goal);
        }
    }
}

/// Three tiles in reverse order: two must step aside, where counting the pairs
/// says three.
#[test]
fn linear_conflict_counts_tiles_and_not_pairs() {
    let start = Board::new(&[3, 2, 1, 4, 5, 6, 7, 8, 0], 3, 3).unwrap();
    let problem = Problem::to_standard_goal(start);
    assert_eq!(estimate(Heuristic::Manhattan, &problem), 4);
    assert_eq!(estimate(Heuristic::LinearConflict, &problem), 8);
}

/// The blank is never counted.
#[test]
fn one_move_away_is_one() {
    let start = Board::new(&[1, 2, 3, 4, 5, 6, 7, 0, 8], 3, 3).unwrap();
    for heuristic in [
        Heuristic::Manhattan,
        Heuristic::MisplacedTiles,
        Heuristic::LinearConflict,
    ] {
        assert_eq!(estimate(heuristic, &Problem::to_standard_goal(start)), 1);
    }
}
