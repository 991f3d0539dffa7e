//! Which problems can be solved: start and goal are compared, whatever the goal.

use loyd::puzzle::{Board, Problem, Shape};
use loyd::search::{Method, Outcome, Workspace};

use crate::common::{all_boards, goal, method, run, smaller_shapes};

const METHODS: [Method; 5] = [
    Method::BidirectionalBfs,
    Method::GoalTable,
    Method::AStar,
    Method::GreedyBestFirst,
    Method::Bfs,
];

fn outcome(problem: &Problem, with: Method) -> (Outcome, String) {
    let mut moves = String::new();
    let solution = run(&mut Workspace::new(), problem, &method(with), &mut moves);
    (solution.outcome, moves)
}

#[test]
fn known_answers() {
    for (text, length) in [("2 3 4 1 5 x 7 6 8", 19), ("1 2 3 x 4 6 7 5 8", 3)] {
        let problem = Problem::to_standard_goal(goal(text, Shape::EIGHT));
        for method in [
            Method::BidirectionalBfs,
            Method::GoalTable,
            Method::AStar,
            Method::Bfs,
        ] {
            let (outcome, moves) = outcome(&problem, method);
            let optimal = true;
            assert_eq!(
                outcome,
                Outcome::Solved { length, optimal },
                "{text} {method:?}"
            );
            assert_eq!(moves.len(), length as usize);
        }
    }
    let problem = Problem::to_standard_goal(goal("1 2 3 x 4 6 7 5 8", Shape::EIGHT));
    assert_eq!(outcome(&problem, Method::BidirectionalBfs).1, "rdr");
}

#[test]
fn two_tiles_changed_cannot_be_solved_by_any_method() {
    let problem = Problem::to_standard_goal(goal("2 1 3 4 5 6 7 8 x", Shape::EIGHT));
    for method in METHODS {
        assert_eq!(
            outcome(&problem, method),
            (Outcome::Unsolvable, String::new())
        );
    }
}

#[test]
fn a_goal_is_solved_by_no_moves() {
    for shape in Shape::ALL {
        let goal = Board::standard_goal(shape);
        let problem = Problem::new(goal, goal).unwrap();
        for with in METHODS {
            let mut moves = String::from("kept");
            let solution = run(&mut Workspace::new(), &problem, &method(with), &mut moves);
            let (length, optimal) = (0, true);
            assert_eq!(solution.outcome, Outcome::Solved { length, optimal });
            assert_eq!((solution.expanded, solution.generated), (0, 0));
            assert_eq!(moves, "kept");
        }
    }
}

/// Half of the starts reach a goal, for every goal of the smallest boards.
#[test]
fn exactly_half_of_all_pairs_can_be_solved() {
    for shape in smaller_shapes().filter(|shape| shape.cells() <= 6) {
        for goal in all_boards(shape) {
            let all = all_boards(shape).count();
            let problems = all_boards(shape).map(|start| Problem::new(start, goal).unwrap());
            assert_eq!(
                problems.filter(Problem::is_solvable).count() * 2,
                all,
                "{goal}"
            );
        }
    }
}

/// Not only parity says so: from an unsolvable 2x2 or 2x3 state no moves lead
/// to the goal.
#[test]
fn unsolvable_states_of_the_smallest_boards_are_out_of_reach() {
    for shape in [(2, 2), (2, 3), (3, 2)].map(|(r, c)| Shape::new(r, c).unwrap()) {
        for goal in [Board::standard_goal(shape), board_with_blank_first(shape)] {
            let mut reached = std::collections::HashSet::from([goal]);
            let mut queue = vec![goal];
            while let Some(board) = queue.pop() {
                for direction in loyd::puzzle::Direction::ALL {
                    if let Some(next) = board.slide(direction)
                        && reached.insert(next)
                    {
                        queue.push(next);
                    }
                }
            }
            for start in all_boards(shape) {
                let problem = Problem::new(start, goal).unwrap();
                for method in METHODS {
                    let is_unsolvable = outcome(&problem, method).0 == Outcome::Unsolvable;
                    assert_eq!(
                        is_unsolvable,
                        !reached.contains(&start),
                        "{problem:?} {method:?}"
                    );
                }
            }
        }
    }
}

fn board_with_blank_first(shape: Shape) -> Board {
    let tiles: Vec<u8> = (0..).take(shape.cells()).collect();
    Board::from_bytes(shape, &tiles).unwrap()
}
