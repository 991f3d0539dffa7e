//! Every state of every board is solved, optimally where that is promised, by
//! moves that lead to the goal; and every other state is found unsolvable.

use loyd::puzzle::{Board, Problem, Shape};
use loyd::search::{Heuristic, Method, Outcome, SearchOptions, Workspace};

use crate::common::{
    a_star, all_boards, distribution_of, goals_of_eight, method, run, smaller_shapes, solved,
};

/// Solves every board of the goal's shape and compares the distances.
fn solve_all(goal: Board, options: &SearchOptions) {
    let mut workspace = Workspace::new();
    let mut moves = String::new();
    let mut counts = Vec::new();
    for start in all_boards(goal.shape()) {
        let problem = Problem::new(start, goal).unwrap();
        if problem.is_solvable() {
            let (length, optimal) = solved(&mut workspace, &problem, options, &mut moves);
            assert!(optimal);
            if counts.len() <= length as usize {
                counts.resize(length as usize + 1, 0_u64);
            }
            counts[length as usize] += 1;
        } else {
            moves.clear();
            let solution = run(&mut workspace, &problem, options, &mut moves);
            assert_eq!(solution.outcome, Outcome::Unsolvable, "{problem:?}");
            assert_eq!((solution.expanded, solution.generated), (0, 0));
            assert_eq!(moves, "");
        }
    }
    assert_eq!(counts, distribution_of(&goal), "{goal} {options:?}");
}

fn solve_all_smaller(options: &SearchOptions) {
    for shape in smaller_shapes() {
        solve_all(Board::standard_goal(shape), options);
    }
}

#[test]
fn bidirectional_to_the_standard_goal() {
    solve_all(goals_of_eight()[0], &method(Method::BidirectionalBfs));
}

#[test]
fn bidirectional_to_a_goal_with_its_blank_on_an_edge() {
    solve_all(goals_of_eight()[1], &method(Method::BidirectionalBfs));
}

#[test]
fn bidirectional_to_a_goal_with_its_blank_in_the_centre() {
    solve_all(goals_of_eight()[2], &method(Method::BidirectionalBfs));
}

#[test]
fn bidirectional_on_the_smaller_boards() {
    solve_all_smaller(&method(Method::BidirectionalBfs));
}

#[test]
fn goal_table_to_three_goals() {
    for goal in goals_of_eight() {
        solve_all(goal, &method(Method::GoalTable));
    }
}

#[test]
fn goal_table_on_the_smaller_boards() {
    solve_all_smaller(&method(Method::GoalTable));
}

/// The whole state space to the standard goal, as the literature has it.
#[test]
fn bidirectional_expands_and_generates_what_it_should() {
    let goal = Board::standard_goal(Shape::EIGHT);
    let mut workspace = Workspace::new();
    let mut moves = String::new();
    let options = method(Method::BidirectionalBfs);
    let (mut states, mut expanded, mut generated) = (0.0, 0, 0);
    for start in all_boards(Shape::EIGHT) {
        let problem = Problem::new(start, goal).unwrap();
        if problem.is_solvable() {
            moves.clear();
            let solution = run(&mut workspace, &problem, &options, &mut moves);
            states += 1.0;
            expanded += solution.expanded;
            generated += solution.generated;
        }
    }
    let mean_expanded = expanded as f64 / states;
    let mean_generated = generated as f64 / states;
    println!("means: expanded {mean_expanded:.1}, generated {mean_generated:.1}");
    assert!(
        (mean_expanded / 1661.5 - 1.0).abs() < 0.01,
        "{mean_expanded}"
    );
    assert!(
        (mean_generated / 4544.6 - 1.0).abs() < 0.01,
        "{mean_generated}"
    );
}

#[test]
fn a_star_on_the_smaller_boards() {
    for heuristic in HEURISTICS {
        solve_all_smaller(&a_star(heuristic, 1.0));
    }
}

#[test]
fn bfs_on_the_smaller_boards() {
    solve_all_smaller(&method(Method::Bfs));
}

#[test]
fn a_star_with_linear_conflict_to_the_standard_goal() {
    solve_all(goals_of_eight()[0], &a_star(Heuristic::LinearConflict, 1.0));
}

#[test]
fn a_star_with_manhattan_distance_to_a_goal_with_its_blank_in_the_centre() {
    solve_all(goals_of_eight()[2], &a_star(Heuristic::Manhattan, 1.0));
}

#[test]
#[ignore = "a minute: the other goals of the two tests above"]
fn a_star_to_all_three_goals() {
    for goal in goals_of_eight() {
        solve_all(goal, &a_star(Heuristic::Manhattan, 1.0));
        solve_all(goal, &a_star(Heuristic::LinearConflict, 1.0));
    }
}

const HEURISTICS: [Heuristic; 3] = [
    Heuristic::Manhattan,
    Heuristic::MisplacedTiles,
    Heuristic::LinearConflict,
];

/// Solves every `step`th board of the goal's shape that can be solved, and
/// hands over the length, the least length, and whether the first is said to
/// be the second.
fn sample(
    goal: Board,
    step: usize,
    options: &SearchOptions,
    mut check: impl FnMut(&Problem, u32, u32, bool),
) {
    let mut workspace = Workspace::new();
    let mut moves = String::new();
    let problems = all_boards(goal.shape()).map(|start| Problem::new(start, goal).unwrap());
    for problem in problems.filter(Problem::is_solvable).step_by(step) {
        let table = method(Method::GoalTable);
        let (least, _) = solved(&mut workspace, &problem, &table, &mut moves);
        let (length, optimal) = solved(&mut workspace, &problem, options, &mut moves);
        check(&problem, length, least, optimal);
    }
}

/// Every state of the smaller boards, and every 64th of 3x3.
fn sample_all(options: &SearchOptions, mut check: impl FnMut(&Problem, u32, u32, bool)) {
    for shape in smaller_shapes() {
        sample(Board::standard_goal(shape), 1, options, &mut check);
    }
    for goal in goals_of_eight() {
        sample(goal, 64, options, &mut check);
    }
}

#[test]
fn bfs_from_every_64th_state() {
    for goal in goals_of_eight() {
        sample(
            goal,
            64,
            &method(Method::Bfs),
            |problem, length, least, optimal| {
                assert_eq!((length, optimal), (least, true), "{problem:?}");
            },
        );
    }
}

#[test]
fn a_star_with_misplaced_tiles_from_every_64th_state() {
    let options = a_star(Heuristic::MisplacedTiles, 1.0);
    for goal in goals_of_eight() {
        sample(goal, 64, &options, |problem, length, least, optimal| {
            assert_eq!((length, optimal), (least, true), "{problem:?}");
        });
    }
}

#[test]
fn greedy_claims_to_be_optimal_only_where_it_is() {
    for heuristic in HEURISTICS {
        let options = SearchOptions {
            heuristic,
            ..method(Method::GreedyBestFirst)
        };
        sample_all(&options, |problem, length, least, optimal| {
            assert!(length >= least, "{problem:?}");
            assert!(!optimal || length == least, "{problem:?}");
        });
    }
}

/// Weights that are ordered by whole numbers and weights that are not, up to
/// those that are all but infinite.
#[test]
fn weighted_a_star_keeps_its_bound() {
    for weight in [1.5, 2.0, 5.0, 1.37, 1.000_000_1, 300.0, 1e300, f64::MAX] {
        let options = a_star(Heuristic::Manhattan, weight);
        sample_all(&options, |problem, length, least, optimal| {
            let bound = weight * f64::from(least);
            assert!(
                f64::from(length) <= bound,
                "{problem:?}: {length} x {weight}"
            );
            assert!(
                length >= least && (!optimal || length == least),
                "{problem:?}"
            );
        });
    }
}

#[test]
fn weighted_a_star_keeps_its_bound_with_the_other_heuristics() {
    for (heuristic, weight) in [
        (Heuristic::MisplacedTiles, 2.0),
        (Heuristic::LinearConflict, 1.37),
    ] {
        sample_all(&a_star(heuristic, weight), |problem, length, least, _| {
            assert!(
                f64::from(length) <= weight * f64::from(least),
                "{problem:?}"
            );
        });
    }
}
