//! A search ends when it has expanded what it may, or when it is told to, and
//! its workspace is as good as new.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use loyd::puzzle::{Board, Problem, Shape};
use loyd::search::{
    Budget, Detail, Heuristic, Interrupted, Method, Outcome, SearchOptions, Workspace,
    WorkspacePool, solve,
};

use crate::common::{goals_of_eight, method, run, solved};

/// Every method that searches.
fn searching() -> Vec<SearchOptions> {
    let mut all = vec![method(Method::BidirectionalBfs), method(Method::Bfs)];
    for heuristic in [
        Heuristic::Manhattan,
        Heuristic::MisplacedTiles,
        Heuristic::LinearConflict,
    ] {
        for led in [Method::AStar, Method::GreedyBestFirst] {
            all.push(SearchOptions {
                heuristic,
                ..method(led)
            });
        }
    }
    all
}

fn hard() -> Problem {
    let start = Board::from_bytes(Shape::EIGHT, &[8, 6, 7, 2, 5, 4, 3, 0, 1]).unwrap();
    Problem::to_standard_goal(start)
}

#[test]
fn a_limit_is_the_most_that_is_expanded() {
    let mut workspace = Workspace::new();
    let mut moves = String::from("before");
    for options in searching() {
        let needed = run(&mut workspace, &hard(), &options, &mut moves).expanded;
        moves.truncate(6);
        for limit in [1, 2, 3, 7, needed - 1] {
            let limited = SearchOptions {
                max_expanded: limit,
                ..options
            };
            let solution = run(&mut workspace, &hard(), &limited, &mut moves);
            assert_eq!(solution.outcome, Outcome::LimitReached, "{limited:?}");
            assert_eq!(solution.expanded, limit, "{limited:?}");
            assert!(solution.generated >= solution.expanded);
            assert_eq!(moves, "before");
        }
        let enough = SearchOptions {
            max_expanded: needed,
            ..options
        };
        let solution = run(&mut workspace, &hard(), &enough, &mut moves);
        assert!(
            matches!(solution.outcome, Outcome::Solved { .. }),
            "{enough:?}"
        );
        assert_eq!(solution.expanded, needed);
        moves.truncate(6);
    }
}

#[test]
fn a_table_has_no_limit() {
    let options = SearchOptions {
        max_expanded: 1,
        ..method(Method::GoalTable)
    };
    let (length, optimal) = solved(&mut Workspace::new(), &hard(), &options, &mut String::new());
    assert_eq!((length, optimal), (31, true));
}

#[test]
fn the_length_alone_writes_no_moves_and_changes_nothing_else() {
    let mut workspace = Workspace::new();
    for options in searching().into_iter().chain([method(Method::GoalTable)]) {
        let mut moves = String::new();
        let with_moves = run(&mut workspace, &hard(), &options, &mut moves);
        assert!(!moves.is_empty());
        moves.clear();
        let options = SearchOptions {
            detail: Detail::LengthOnly,
            ..options
        };
        assert_eq!(
            run(&mut workspace, &hard(), &options, &mut moves),
            with_moves
        );
        assert_eq!(moves, "");
    }
}

#[test]
fn a_search_that_is_told_to_stop_does_and_its_workspace_is_clean() {
    let mut workspace = Workspace::new();
    let others = goals_of_eight().map(|start| Problem::new(start, start).unwrap());
    for options in searching() {
        let mut moves = String::from("before");
        let cancelled = AtomicBool::new(true);
        let budget = Budget::new(None, &cancelled);
        let long = method(options.method) == method(Method::Bfs)
            || options.heuristic == Heuristic::MisplacedTiles && options.method == Method::AStar;
        let stopped = solve(&mut workspace, &hard(), &options, &budget, &mut moves);
        if long {
            assert_eq!(stopped, Err(Interrupted::Cancelled), "{options:?}");
        }
        if stopped.is_err() {
            assert_eq!(moves, "before");
        }
        moves.clear();
        let past = Budget::new(Some(Instant::now()), &AtomicBool::new(false)).poll();
        assert_eq!(past, Err(Interrupted::DeadlineExceeded));
        // The next search finds nothing of the one before.
        for problem in [hard()].iter().chain(&others) {
            let fresh = run(&mut Workspace::new(), problem, &options, &mut String::new());
            assert_eq!(
                run(&mut workspace, problem, &options, &mut moves),
                fresh,
                "{options:?}"
            );
        }
    }
}

#[test]
fn no_more_than_4096_states_after_a_cancel() {
    // A flag that is set from the beginning: everything expanded comes after.
    let cancelled = AtomicBool::new(true);
    let budget = Budget::new(None, &cancelled);
    for options in searching() {
        let limited = SearchOptions {
            max_expanded: 4_096,
            ..options
        };
        let stopped = solve(
            &mut Workspace::new(),
            &hard(),
            &limited,
            &budget,
            &mut String::new(),
        );
        // Never so long that the limit ends it instead.
        let by_limit = stopped.is_ok_and(|found| found.outcome == Outcome::LimitReached);
        assert!(!by_limit, "{options:?}");
    }
}

#[test]
fn a_cancel_comes_from_another_thread() {
    let cancelled = AtomicBool::new(false);
    thread::scope(|scope| {
        let searching = scope.spawn(|| {
            let budget = Budget::new(None, &cancelled);
            let mut workspace = Workspace::new();
            let mut moves = String::new();
            loop {
                let options = method(Method::Bfs);
                if let Err(stopped) = solve(&mut workspace, &hard(), &options, &budget, &mut moves)
                {
                    return stopped;
                }
            }
        });
        thread::sleep(Duration::from_millis(20));
        cancelled.store(true, Ordering::Relaxed);
        assert_eq!(searching.join().unwrap(), Interrupted::Cancelled);
    });
}

#[test]
fn a_pool_hands_out_clean_workspaces_and_keeps_few() {
    let pool = WorkspacePool::new();
    let leases: Vec<_> = (0..40).map(|_| pool.lease()).collect();
    drop(leases);
    assert_eq!(pool.idle_count(), 16);
    let cancelled = AtomicBool::new(true);
    let options = method(Method::Bfs);
    let budget = Budget::new(None, &cancelled);
    for _ in 0..20 {
        let mut moves = String::new();
        assert!(solve(&mut pool.lease(), &hard(), &options, &budget, &mut moves).is_err());
    }
    let mut workspace = pool.lease();
    assert_eq!(
        solved(&mut workspace, &hard(), &options, &mut String::new()),
        (31, true)
    );
}

#[test]
fn a_workspace_that_saw_a_panic_is_thrown_away() {
    let pool = WorkspacePool::new();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _lease = pool.lease();
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert_eq!(pool.idle_count(), 0);
}
