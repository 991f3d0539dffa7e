//! `Solve` answers one board.

use loyd::puzzle::{Board, text};
use loyd::wire::v1::{Algorithm, Detail, Heuristic, Outcome, Solution, SolveOptions, SolveRequest};

use crate::support::{Server, algorithm, replay, soon, square, to_wire};

async fn solve(server: &Server, request: SolveRequest) -> Solution {
    let mut client = server.client().await;
    soon(client.solve(request))
        .await
        .unwrap()
        .into_inner()
        .solution
        .unwrap()
}

fn board(text: &str) -> Board {
    text::parse(text, None).unwrap()
}

fn request(start: &str, goal: Option<&str>, options: Option<SolveOptions>) -> SolveRequest {
    SolveRequest {
        board: Some(to_wire(&board(start))),
        goal: goal.map(|goal| to_wire(&board(goal))),
        options,
    }
}

#[tokio::test]
async fn the_sample_takes_19_moves() {
    let server = Server::start().await;
    let solution = solve(
        &server,
        SolveRequest {
            board: Some(square(&[2, 3, 4, 1, 5, 0, 7, 6, 8])),
            ..Default::default()
        },
    )
    .await;
    assert_eq!(solution.outcome(), Outcome::Solved);
    assert_eq!(solution.length, 19);
    assert!(solution.optimal);
    let start = board("2 3 4 1 5 x 7 6 8");
    assert_eq!(
        replay(&start, &solution.moves),
        Board::standard_goal(start.shape())
    );
    let stats = solution.stats.unwrap();
    assert_eq!(stats.algorithm(), Algorithm::BidirectionalBfs);
    assert!(stats.expanded > 0 && stats.generated > stats.expanded);
    assert!(stats.elapsed.is_some());
}

#[tokio::test]
async fn unsolvable_is_an_answer() {
    let server = Server::start().await;
    let solution = solve(&server, request("2 1 3 4 5 6 7 8 x", None, None)).await;
    assert_eq!(solution.outcome(), Outcome::Unsolvable);
    assert_eq!(
        (solution.moves.as_str(), solution.length, solution.optimal),
        ("", 0, false)
    );
}

#[tokio::test]
async fn a_solved_board_needs_no_moves() {
    let server = Server::start().await;
    let solution = solve(&server, request("1 2 3 4 5 6 7 8 x", None, None)).await;
    assert_eq!(solution.outcome(), Outcome::Solved);
    assert_eq!(
        (solution.moves.as_str(), solution.length, solution.optimal),
        ("", 0, true)
    );
}

#[tokio::test]
async fn any_goal_and_any_size() {
    let server = Server::start().await;
    for (start, goal, length) in [
        ("2 8 3 / 1 6 4 / 7 x 5", Some("1 2 3 / 8 x 4 / 7 6 5"), 5),
        ("1 2 3 x 4 6 7 5 8", None, 3),
        ("3 2 1 x", Some("x 3 1 2"), 2),
        ("1 2 x / 4 5 3", None, 1),
        ("1 2 / x 4 / 3 5", None, 2),
    ] {
        let solution = solve(&server, request(start, goal, None)).await;
        assert_eq!(solution.outcome(), Outcome::Solved, "{start}");
        let start = board(start);
        let goal = goal.map_or_else(|| Board::standard_goal(start.shape()), board);
        assert_eq!(replay(&start, &solution.moves), goal, "{start}");
        assert_eq!(solution.length, length, "{start}");
    }
}

#[tokio::test]
async fn every_method_of_nine_cells_answers_as_itself() {
    let server = Server::start().await;
    for method in [
        Algorithm::BidirectionalBfs,
        Algorithm::GoalTable,
        Algorithm::AStar,
        Algorithm::GreedyBestFirst,
        Algorithm::Bfs,
    ] {
        let start = board("2 3 4 1 5 x 7 6 8");
        let solution = solve(
            &server,
            request("2 3 4 1 5 x 7 6 8", None, algorithm(method)),
        )
        .await;
        assert_eq!(solution.stats.unwrap().algorithm(), method);
        assert_eq!(
            replay(&start, &solution.moves),
            Board::standard_goal(start.shape())
        );
        assert_eq!(solution.moves.len() as u32, solution.length);
        if method != Algorithm::GreedyBestFirst {
            assert!(solution.optimal, "{method:?}");
            assert_eq!(solution.length, 19, "{method:?}");
        }
    }
}

#[tokio::test]
async fn the_length_alone_on_request() {
    let server = Server::start().await;
    for method in [
        Algorithm::BidirectionalBfs,
        Algorithm::GoalTable,
        Algorithm::Bfs,
    ] {
        let options = SolveOptions {
            algorithm: method.into(),
            detail: Detail::LengthOnly.into(),
            ..Default::default()
        };
        let solution = solve(&server, request("8 6 7 2 5 4 3 0 1", None, Some(options))).await;
        assert_eq!(
            (solution.moves.as_str(), solution.length),
            ("", 31),
            "{method:?}"
        );
        assert!(solution.optimal);
    }
}

#[tokio::test]
async fn a_limit_ends_the_search_with_its_stats() {
    let server = Server::start().await;
    let options = SolveOptions {
        algorithm: Algorithm::AStar.into(),
        heuristic: Heuristic::LinearConflict.into(),
        max_expanded: 10,
        ..Default::default()
    };
    let solution = solve(&server, request("8 6 7 2 5 4 3 0 1", None, Some(options))).await;
    assert_eq!(solution.outcome(), Outcome::LimitReached);
    assert_eq!(solution.stats.unwrap().expanded, 10);
    assert_eq!(
        (solution.moves.as_str(), solution.length, solution.optimal),
        ("", 0, false)
    );
}

#[tokio::test]
async fn the_servers_limit_is_the_larger_one() {
    let settings = loyd::service::Settings {
        max_expanded: 5.try_into().unwrap(),
        ..Default::default()
    };
    let server = Server::with(settings, Default::default()).await;
    for asked in [0, 4, 5, 6, u64::MAX] {
        let options = SolveOptions {
            max_expanded: asked,
            ..Default::default()
        };
        let solution = solve(&server, request("8 6 7 2 5 4 3 0 1", None, Some(options))).await;
        assert_eq!(solution.outcome(), Outcome::LimitReached);
        let expected = if asked == 4 { 4 } else { 5 };
        assert_eq!(solution.stats.unwrap().expanded, expected, "{asked}");
    }
}
