//! Equal options give equal answers: on every thread, and whatever a workspace
//! was used for before.

use std::thread;

use loyd::puzzle::{Problem, Shape};
use loyd::search::{Heuristic, Method, Outcome, SearchOptions, Solution, Workspace};

use crate::common::{a_star, board, goals_of_eight, method, run};

fn everything() -> Vec<SearchOptions> {
    let mut all = vec![
        method(Method::BidirectionalBfs),
        method(Method::GoalTable),
        method(Method::Bfs),
        a_star(Heuristic::Manhattan, 1.37),
        a_star(Heuristic::LinearConflict, 3.0),
    ];
    for heuristic in [
        Heuristic::Manhattan,
        Heuristic::MisplacedTiles,
        Heuristic::LinearConflict,
    ] {
        all.push(a_star(heuristic, 1.0));
        all.push(SearchOptions {
            heuristic,
            ..method(Method::GreedyBestFirst)
        });
    }
    all
}

fn problems() -> Vec<Problem> {
    let mut problems = Vec::new();
    for shape in Shape::ALL {
        let states = loyd::puzzle::cantor::factorial(shape.cells());
        for number in 0..20 {
            let start = board(shape, number * 100_003 % states);
            problems.push(Problem::to_standard_goal(start));
        }
    }
    let [_, edge, centre] = goals_of_eight();
    problems.push(Problem::new(edge, centre).unwrap());
    problems.push(Problem::new(centre, edge).unwrap());
    problems
}

fn answers(workspace: &mut Workspace) -> Vec<(Solution, String)> {
    let mut answers = Vec::new();
    for problem in problems() {
        for options in everything() {
            let mut moves = String::new();
            answers.push((run(workspace, &problem, &options, &mut moves), moves));
        }
    }
    answers
}

#[test]
fn on_every_thread_and_in_every_workspace() {
    let first = answers(&mut Workspace::new());
    let solved =
        |(solution, _): &&(Solution, String)| matches!(solution.outcome, Outcome::Solved { .. });
    assert!(first.iter().filter(solved).count() > first.len() / 3);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut workspace = Workspace::new();
                assert!(answers(&mut workspace) == first);
                // Again, where another search has been.
                assert!(answers(&mut workspace) == first);
            });
        }
    });
}
