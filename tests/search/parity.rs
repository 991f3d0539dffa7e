//! Solvable is exactly what moves can reach: the parity rule against a search
//! that knows nothing of it, for every goal of the smaller boards.

use std::collections::HashSet;

use loyd::puzzle::{Board, Direction, Problem, Shape};

use crate::common::{all_boards, goals_of_eight};

/// All boards that moves lead to.
fn reachable(from: Board) -> HashSet<Board> {
    let mut seen = HashSet::from([from]);
    let mut frontier = vec![from];
    while let Some(board) = frontier.pop() {
        for direction in Direction::ALL {
            if let Some(next) = board.slide(direction)
                && seen.insert(next)
            {
                frontier.push(next);
            }
        }
    }
    seen
}

fn check(goal: Board) {
    let reachable = reachable(goal);
    for start in all_boards(goal.shape()) {
        let solvable = Problem::new(start, goal).unwrap().is_solvable();
        assert_eq!(solvable, reachable.contains(&start), "{start} to {goal}");
    }
}

#[test]
fn every_goal_of_the_smallest_boards() {
    for (rows, columns) in [(2, 2), (2, 3), (3, 2)] {
        let shape = Shape::new(rows, columns).unwrap();
        // Every blank cell and both parities of the tiles.
        all_boards(shape).step_by(7).for_each(check);
    }
}

#[test]
fn some_goals_of_the_larger_boards() {
    for (rows, columns) in [(2, 4), (4, 2)] {
        let shape = Shape::new(rows, columns).unwrap();
        all_boards(shape).step_by(5_003).for_each(check);
    }
    goals_of_eight().into_iter().for_each(check);
}

#[test]
fn a_move_and_its_opposite_change_nothing() {
    for board in all_boards(Shape::new(2, 3).unwrap()) {
        for direction in Direction::ALL {
            if let Some(next) = board.slide(direction) {
                assert_ne!(next, board);
                assert_eq!(next.slide(direction.opposite()), Some(board));
            }
        }
    }
}
