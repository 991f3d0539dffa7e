//! A panic in a search costs the answer to its board: not the call, the
//! connection, the thread or the process. Needs the feature `panic-injection`.

use loyd::puzzle::{Board, Shape};
use loyd::wire::v1::solver_service_client::SolverServiceClient;
use loyd::wire::v1::{
    Algorithm, ErrorReason, Outcome, SolveRequest, board_result, solve_batch_response,
};
use tonic::Code;

use crate::server_life::Process;
use crate::support::{Server, algorithm, batch, list, packed, replay, soon, spread, to_wire};

/// The board whose search panics under the feature.
fn panicking() -> Board {
    Board::from_bytes(Shape::EIGHT, &[8, 7, 6, 5, 4, 3, 2, 1, 0]).unwrap()
}

/// One that runs where it is read, and ones that a compute thread runs.
const METHODS: [Algorithm; 3] = [
    Algorithm::GoalTable,
    Algorithm::BidirectionalBfs,
    Algorithm::Bfs,
];

/// Enough boards that the default method needs a compute thread; every fourth
/// of them panics.
fn boards() -> Vec<Board> {
    let mut boards = spread(200);
    for board in boards.iter_mut().step_by(4) {
        *board = panicking();
    }
    boards
}

fn check(index: usize, board: &Board, outcome: Outcome, moves: &str, error: Option<ErrorReason>) {
    if index.is_multiple_of(4) {
        assert_eq!(error, Some(ErrorReason::Internal), "board {index}");
        return;
    }
    assert_eq!(error, None, "board {index}");
    if outcome == Outcome::Solved {
        assert_eq!(replay(board, moves), Board::standard_goal(Shape::EIGHT));
    } else {
        assert_eq!(outcome, Outcome::Unsolvable);
    }
}

#[tokio::test]
async fn in_a_packed_batch_only_its_board_is_an_error() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let all = boards();
    // So few are looked up while the next message is read.
    for (method, count) in METHODS
        .iter()
        .flat_map(|method| [(*method, 200), (*method, 4)])
    {
        let mut request = packed(1, &all[..count]);
        request.options = algorithm(method);
        let mut index = 0;
        // The second time on workspaces that follow those thrown away.
        for response in batch(&mut client, vec![request.clone(), request])
            .await
            .unwrap()
        {
            let Some(solve_batch_response::Results::Packed(results)) = response.results else {
                panic!("packed boards are answered packed");
            };
            let mut errors = results.errors.iter().peekable();
            let mut moves = results.moves.as_str();
            let columns = results.outcomes().zip(results.lengths()).enumerate();
            for (position, (outcome, length)) in columns {
                let (mine, rest) = moves.split_at(length as usize);
                moves = rest;
                let error = errors
                    .next_if(|error| error.index as usize == position)
                    .map(|error| error.error.as_ref().unwrap().reason());
                check(index % count, &all[index % count], outcome, mine, error);
                index += 1;
            }
        }
        assert_eq!(index, 2 * count, "{method:?}");
    }
}

#[tokio::test]
async fn in_a_list_only_its_board_is_an_error() {
    let server = Server::start().await;
    let mut client = server.client().await;
    for method in METHODS {
        let mut request = list(1, boards().iter().map(to_wire).collect());
        request.options = algorithm(method);
        let mut index = 0;
        for response in batch(&mut client, vec![request.clone(), request])
            .await
            .unwrap()
        {
            let Some(solve_batch_response::Results::List(results)) = response.results else {
                panic!("a list is answered as a list");
            };
            for result in &results.results {
                let (outcome, moves, error) = match result.result.as_ref().unwrap() {
                    board_result::Result::Solution(solution) => {
                        (solution.outcome(), solution.moves.as_str(), None)
                    }
                    board_result::Result::Error(error) => {
                        (Outcome::Error, "", Some(error.reason()))
                    }
                };
                check(index % 200, &boards()[index % 200], outcome, moves, error);
                index += 1;
            }
        }
        assert_eq!(index, 400, "{method:?}");
    }
}

#[tokio::test]
async fn a_unary_call_is_an_internal_error_and_the_next_is_answered() {
    let server = Server::start().await;
    let mut client = server.client().await;
    for method in METHODS {
        let request = |board: &Board| SolveRequest {
            board: Some(to_wire(board)),
            goal: None,
            options: algorithm(method),
        };
        // More often than there are threads to lose.
        for board in &spread(20) {
            let status = soon(client.solve(request(&panicking()))).await.unwrap_err();
            assert_eq!(status.code(), Code::Internal, "{status:?}");
            let solved = soon(client.solve(request(board)))
                .await
                .unwrap()
                .into_inner();
            let solution = solved.solution.unwrap();
            check(1, board, solution.outcome(), &solution.moves, None);
        }
    }
}

/// By a line of the log, and by nothing beside it: standard error may be full,
/// and whoever reads it may read JSON alone.
#[tokio::test]
async fn a_panic_is_a_line_of_the_log() {
    let process = Process::logged(&["--log-format", "json"]);
    let client = SolverServiceClient::connect(process.uri.clone()).await;
    let request = SolveRequest {
        board: Some(to_wire(&panicking())),
        ..SolveRequest::default()
    };
    soon(client.unwrap().solve(request)).await.unwrap_err();
    process.signal("-TERM");
    let mut panics = 0;
    for line in process.rest_of_log() {
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        if line["message"] == "panic" {
            panics += 1;
            assert!(
                line["location"].as_str().unwrap().contains(".rs:"),
                "{line}"
            );
            assert_ne!(line["reason"], "no text");
        }
    }
    assert_eq!(panics, 1);
}
