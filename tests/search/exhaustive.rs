//! Every state of every board is solved, optimally where that is promised, by
//! moves that lead to the goal; and every other state is found unsolvable.

use loyd::puzzle::{Board, Problem, Shape};
use loyd::search::{Method, Outcome, SearchOptions, Workspace};

use crate::common::{
    all_boards, distribution_of, goals_of_eight, method, run, smaller_shapes, solved,
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
