//! The same problem has the same answer, to the last move and count: today, in
//! a used workspace, on another thread, and as it was when `tests/data/golden`
//! was written.
//!
//! A tie broken in another way changes these files and nothing that is
//! promised. After such a change write them anew, and say so in the commit:
//! `cargo test --test search write_golden_files -- --ignored`.

use std::fmt::Write as _;
use std::path::PathBuf;

use loyd::puzzle::{Board, Problem, Shape, cantor};
use loyd::search::{Heuristic, Method, Outcome, SearchOptions, Workspace};

use crate::common::{a_star, board, method, run};

const BOARDS: usize = 2_000;

fn methods() -> [(&'static str, SearchOptions); 10] {
    let greedy = SearchOptions {
        heuristic: Heuristic::LinearConflict,
        ..method(Method::GreedyBestFirst)
    };
    [
        ("bidirectional_bfs", method(Method::BidirectionalBfs)),
        ("goal_table", method(Method::GoalTable)),
        ("bfs", method(Method::Bfs)),
        ("a_star_manhattan", a_star(Heuristic::Manhattan, 1.0)),
        (
            "a_star_misplaced_tiles",
            a_star(Heuristic::MisplacedTiles, 1.0),
        ),
        (
            "a_star_linear_conflict",
            a_star(Heuristic::LinearConflict, 1.0),
        ),
        ("a_star_manhattan_1.5", a_star(Heuristic::Manhattan, 1.5)),
        ("a_star_manhattan_1.37", a_star(Heuristic::Manhattan, 1.37)),
        ("greedy_manhattan", method(Method::GreedyBestFirst)),
        ("greedy_linear_conflict", greedy),
    ]
}

/// The same problems each time, of all sizes and with all goals, most of them
/// 3x3 to the standard goal.
fn problems() -> Vec<Problem> {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: u32| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        u32::try_from(random % u64::from(below)).unwrap()
    };
    let mut problems = Vec::new();
    while problems.len() < BOARDS {
        let shape = if next(4) == 0 {
            Shape::ALL[next(6) as usize]
        } else {
            Shape::EIGHT
        };
        let states = cantor::factorial(shape.cells());
        let start = board(shape, next(states));
        let goal = if next(4) == 0 {
            board(shape, next(states))
        } else {
            Board::standard_goal(shape)
        };
        let problem = Problem::new(start, goal).unwrap();
        if problem.is_solvable() {
            problems.push(problem);
        }
    }
    problems
}

/// A line a problem: its Cantor ranks, the length, what was expanded and
/// generated, and the FNV-1a hash of the moves.
fn answers(workspace: &mut Workspace, options: &SearchOptions) -> String {
    let mut lines = String::from("shape\tstart\tgoal\tlength\texpanded\tgenerated\tmoves\n");
    let mut moves = String::new();
    for problem in problems() {
        moves.clear();
        let solution = run(workspace, &problem, options, &mut moves);
        let Outcome::Solved { length, .. } = solution.outcome else {
            panic!("{problem:?}: {solution:?}");
        };
        let hash = moves.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        writeln!(
            lines,
            "{}\t{}\t{}\t{length}\t{}\t{}\t{hash:08x}",
            problem.shape(),
            cantor::rank(problem.start().tiles()),
            cantor::rank(problem.goal().tiles()),
            solution.expanded,
            solution.generated,
        )
        .unwrap();
    }
    lines
}

fn path(name: &str) -> PathBuf {
    [
        env!("CARGO_MANIFEST_DIR"),
        "tests/data/golden",
        &format!("{name}.tsv"),
    ]
    .iter()
    .collect()
}

#[test]
fn answers_are_as_they_were() {
    // One workspace for all: what was in it does not matter.
    let mut workspace = Workspace::new();
    for (name, options) in methods() {
        let expected = std::fs::read_to_string(path(name)).unwrap();
        let found = answers(&mut workspace, &options);
        let different = expected.lines().zip(found.lines()).find(|(a, b)| a != b);
        assert_eq!(different, None, "{name}");
        assert_eq!(expected.len(), found.len(), "{name}");
    }
}

#[test]
fn threads_do_not_change_answers() {
    let options = method(Method::BidirectionalBfs);
    let here = answers(&mut Workspace::new(), &options);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| answers(&mut Workspace::new(), &options)))
            .collect();
        for thread in threads {
            assert!(thread.join().unwrap() == here);
        }
    });
}

#[test]
#[ignore = "writes tests/data/golden anew"]
fn write_golden_files() {
    std::fs::create_dir_all(path("").parent().unwrap()).unwrap();
    for (name, options) in methods() {
        std::fs::write(path(name), answers(&mut Workspace::new(), &options)).unwrap();
    }
}
