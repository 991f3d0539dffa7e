//! A search stops where it is told to, and leaves its workspace ready.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loyd::puzzle::{Problem, Shape};
use loyd::search::{
    Budget, Detail, Heuristic, Interrupted, Method, Outcome, SearchOptions, Workspace,
    WorkspacePool, solve,
};

use crate::common::{a_star, goal, method, run, solved};

/// One of the two states that are 31 moves away.
fn hardest() -> Problem {
    Problem::to_standard_goal(goal("8 6 7 2 5 4 3 x 1", Shape::EIGHT))
}

/// Every method that expands states.
fn searches() -> [SearchOptions; 6] {
    [
        method(Method::BidirectionalBfs),
        method(Method::Bfs),
        method(Method::GreedyBestFirst),
        a_star(Heuristic::Manhattan, 1.0),
        a_star(Heuristic::MisplacedTiles, 2.0),
        a_star(Heuristic::LinearConflict, 1.37),
    ]
}

#[test]
fn exactly_so_many_states_are_expanded() {
    let problem = hardest();
    let mut workspace = Workspace::new();
    for options in searches() {
        let mut moves = String::new();
        let whole = run(&mut workspace, &problem, &options, &mut moves);
        let needed = whole.expanded;
        for max_expanded in [0, 1, 2, 3, 17, 100, 1023, 1024, 1025, 2048, needed - 1] {
            if max_expanded >= needed {
                continue;
            }
            let limited = SearchOptions {
                max_expanded,
                ..options
            };
            let mut moves = String::from("kept");
            let solution = run(&mut workspace, &problem, &limited, &mut moves);
            assert_eq!(solution.outcome, Outcome::LimitReached, "{limited:?}");
            assert_eq!(solution.expanded, max_expanded, "{limited:?}");
            assert!(
                solution.generated >= max_expanded,
                "{limited:?} {solution:?}"
            );
            assert!(
                solution.generated <= 4 * max_expanded,
                "{limited:?} {solution:?}"
            );
            assert_eq!(moves, "kept");
        }
        for max_expanded in [needed, needed + 1] {
            let limited = SearchOptions {
                max_expanded,
                ..options
            };
            let mut moves = String::new();
            assert_eq!(run(&mut workspace, &problem, &limited, &mut moves), whole);
        }
    }
}

#[test]
fn the_first_state_has_as_many_successors_as_legal_moves() {
    for (text, degree) in [
        ("8 6 7 2 5 4 3 x 1", 3),
        ("8 6 7 2 x 4 3 5 1", 4),
        ("x 8 7 6 5 4 3 2 1", 2),
    ] {
        let problem = Problem::to_standard_goal(goal(text, Shape::EIGHT));
        for options in searches() {
            let limited = SearchOptions {
                max_expanded: 1,
                ..options
            };
            let solution = run(
                &mut Workspace::new(),
                &problem,
                &limited,
                &mut String::new(),
            );
            assert_eq!(
                (solution.expanded, solution.generated),
                (1, degree),
                "{options:?}"
            );
        }
    }
}

#[test]
fn a_table_has_no_limit() {
    let options = SearchOptions {
        max_expanded: 0,
        ..method(Method::GoalTable)
    };
    let solution = run(
        &mut Workspace::new(),
        &hardest(),
        &options,
        &mut String::new(),
    );
    let (length, optimal) = (31, true);
    assert_eq!(solution.outcome, Outcome::Solved { length, optimal });
    assert_eq!((solution.expanded, solution.generated), (0, 0));
}

#[test]
fn length_only_writes_nothing() {
    let mut workspace = Workspace::new();
    for options in searches().into_iter().chain([method(Method::GoalTable)]) {
        let with_moves = run(&mut workspace, &hardest(), &options, &mut String::new());
        let options = SearchOptions {
            detail: Detail::LengthOnly,
            ..options
        };
        let mut moves = String::from("kept");
        assert_eq!(
            run(&mut workspace, &hardest(), &options, &mut moves),
            with_moves
        );
        assert_eq!(moves, "kept");
    }
}

/// The searches of [`searches`] that are long enough to be polled.
fn long_searches(workspace: &mut Workspace) -> Vec<SearchOptions> {
    let mut moves = String::new();
    searches()
        .into_iter()
        .filter(|options| {
            run(workspace, &hardest(), options, &mut moves).expanded > Budget::POLL_EVERY
        })
        .collect()
}

#[test]
fn a_search_is_broken_off_at_its_first_poll_and_the_next_one_is_right() {
    let mut workspace = Workspace::new();
    let cancelled = AtomicBool::new(true);
    let in_time = AtomicBool::new(false);
    let past = Instant::now() - Duration::from_secs(1);
    let long = long_searches(&mut workspace);
    assert!(long.len() >= 3, "{long:?}");
    // Often enough for every epoch of a visited array to come round.
    for _ in 0..40 {
        for options in &long {
            for (budget, expected) in [
                (Budget::new(None, &cancelled), Interrupted::Cancelled),
                (
                    Budget::new(Some(past), &in_time),
                    Interrupted::DeadlineExceeded,
                ),
            ] {
                let mut moves = String::from("kept");
                let result = solve(&mut workspace, &hardest(), options, &budget, &mut moves);
                assert_eq!(result, Err(expected), "{options:?}");
                assert_eq!(moves, "kept");
            }
        }
        for options in &long {
            let (_, _) = solved(&mut workspace, &hardest(), options, &mut String::new());
        }
        let shortest = method(Method::BidirectionalBfs);
        let answer = solved(&mut workspace, &hardest(), &shortest, &mut String::new());
        assert_eq!(answer, (31, true));
    }
}

/// The limit stands in for the clock: a search that may expand 4,096 states
/// and is cancelled from the beginning does not get that far.
#[test]
fn cancelling_takes_effect_within_4096_states() {
    let mut workspace = Workspace::new();
    let cancelled = AtomicBool::new(true);
    let budget = Budget::new(None, &cancelled);
    for options in long_searches(&mut workspace) {
        let limited = SearchOptions {
            max_expanded: Budget::POLL_EVERY + 1,
            ..options
        };
        let result = solve(
            &mut workspace,
            &hardest(),
            &limited,
            &budget,
            &mut String::new(),
        );
        assert_eq!(result, Err(Interrupted::Cancelled), "{options:?}");
    }
}

#[test]
fn another_thread_can_cancel() {
    let cancelled = AtomicBool::new(false);
    let budget = Budget::new(None, &cancelled);
    let mut workspace = Workspace::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            cancelled.store(true, Ordering::Relaxed);
        });
        let begin = Instant::now();
        let options = method(Method::Bfs);
        loop {
            let mut moves = String::new();
            match solve(&mut workspace, &hardest(), &options, &budget, &mut moves) {
                Ok(solution) => assert!(matches!(solution.outcome, Outcome::Solved { .. })),
                Err(interrupted) => break assert_eq!(interrupted, Interrupted::Cancelled),
            }
            assert!(begin.elapsed() < Duration::from_secs(20));
        }
    });
    let answer = solved(
        &mut workspace,
        &hardest(),
        &method(Method::Bfs),
        &mut String::new(),
    );
    assert_eq!(answer, (31, true));
}

#[test]
fn a_pool_gives_back_a_workspace_that_is_ready() {
    let pool = WorkspacePool::new();
    let cancelled = AtomicBool::new(true);
    for options in searches() {
        let budget = Budget::new(None, &cancelled);
        let _ = solve(
            &mut pool.lease(),
            &hardest(),
            &options,
            &budget,
            &mut String::new(),
        );
        assert_eq!(pool.idle_count(), 1);
        let mut lease = pool.lease();
        assert_eq!(pool.idle_count(), 0);
        let fresh = run(
            &mut Workspace::new(),
            &hardest(),
            &options,
            &mut String::new(),
        );
        assert_eq!(
            run(&mut lease, &hardest(), &options, &mut String::new()),
            fresh
        );
    }
}

#[test]
fn a_pool_keeps_sixteen() {
    let pool = WorkspacePool::new();
    let leases: Vec<_> = (0..20).map(|_| pool.lease()).collect();
    assert_eq!(pool.idle_count(), 0);
    drop(leases);
    assert_eq!(pool.idle_count(), 16);
}

/// However many threads ask: what is kept is shared once it is enough.
#[test]
fn a_thread_gets_its_own_workspace_back_and_the_pool_stays_small() {
    let pool = WorkspacePool::new();
    let lease_in_thread = || {
        std::thread::scope(|scope| scope.spawn(|| drop(pool.lease())).join().unwrap());
        pool.idle_count()
    };
    drop(pool.lease());
    assert_eq!(lease_in_thread(), 2, "the first thread's is left to it");
    drop(pool.lease());
    assert_eq!(pool.idle_count(), 2);
    for _ in 0..40 {
        assert!(lease_in_thread() <= 16);
    }
    assert_eq!(pool.idle_count(), 16);
}

#[test]
fn a_workspace_is_thrown_away_by_a_panic() {
    let pool = WorkspacePool::new();
    drop(pool.lease());
    assert_eq!(pool.idle_count(), 1);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _lease = pool.lease();
        panic!("on purpose");
    }));
    assert!(result.is_err());
    assert_eq!(pool.idle_count(), 0);
}

/// One workspace serves all shapes and methods in turn.
#[test]
fn shapes_and_methods_do_not_see_each_other() {
    let mut workspace = Workspace::new();
    for round in 0..70 {
        for shape in Shape::ALL {
            let start = crate::common::board(shape, 20 - round % 3);
            let problem = Problem::to_standard_goal(start);
            if !problem.is_solvable() {
                continue;
            }
            for options in searches() {
                let fresh = run(
                    &mut Workspace::new(),
                    &problem,
                    &options,
                    &mut String::new(),
                );
                let again = run(&mut workspace, &problem, &options, &mut String::new());
                assert_eq!(again, fresh, "{problem:?} {options:?}");
            }
        }
    }
}
