//! Malformed boards and requests get the contract's error, and cost nobody
//! else anything.

use loyd::puzzle::{Board, Shape};
use loyd::wire::v1::{self as wire};
use loyd::wire::v1::{
    Algorithm, BoardError, ErrorReason, Outcome, SolveBatchRequest, SolveBatchResponse,
    SolveOptions, SolveRequest, board_result, solve_batch_request, solve_batch_response,
};
use tonic::Code;
use tonic_types::StatusExt;

use crate::support::{Server, batch, list, packed, packed_bytes, soon, spread, square};

fn shaped(rows: u32, columns: u32, tiles: &[u32]) -> wire::Board {
    wire::Board {
        tiles: tiles.to_vec(),
        rows,
        columns,
    }
}

/// Boards that are none: the board, the reason, the field, part of the text,
/// the limit.
fn bad_boards() -> Vec<(wire::Board, ErrorReason, &'static str, &'static str, u64)> {
    use ErrorReason::*;
    let four_by_four: Vec<u32> = (0..16).collect();
    vec![
        (
            square(&[]),
            WrongTileCount,
            "tiles",
            "no tiles make no square board: 4 or 9 would",
            0,
        ),
        (
            square(&[1]),
            TileOutOfRange,
            "tiles[0]",
            "one cell has room for the blank (0) alone",
            0,
        ),
        (
            square(&[1, 2, 3, 4, 5, 6, 7, 0]),
            WrongTileCount,
            "tiles",
            "8 tiles",
            0,
        ),
        (
            square(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 0]),
            WrongTileCount,
            "tiles",
            "10 tiles",
            0,
        ),
        (
            shaped(2, 3, &[1, 2, 3, 4, 0]),
            WrongTileCount,
            "tiles",
            "it takes 6",
            0,
        ),
        (
            shaped(u32::MAX, u32::MAX, &[1, 0]),
            WrongTileCount,
            "tiles",
            "2 tiles",
            0,
        ),
        (
            square(&[1, 2, 3, 4, 9, 5, 6, 7, 0]),
            TileOutOfRange,
            "tiles[4]",
            "tile 9 at position 4",
            8,
        ),
        (
            square(&[1, 2, 3, 4, 5, 6, 7, 8, u32::MAX]),
            TileOutOfRange,
            "tiles[8]",
            "4294967295",
            8,
        ),
        // No blank: nine different tiles without a 0 need one out of range.
        (
            square(&[1, 2, 3, 4, 5, 6, 7, 8, 9]),
            TileOutOfRange,
            "tiles[8]",
            "one blank (0)",
            8,
        ),
        (
            square(&[3, 1, 2, 4, 3, 5, 6, 7, 0]),
            DuplicateTile,
            "tiles[4]",
            "tile 3 appears twice (positions 0 and 4)",
            0,
        ),
        (
            square(&[0, 1, 2, 3, 4, 5, 6, 7, 0]),
            DuplicateTile,
            "tiles[8]",
            "the blank (0) appears twice (positions 0 and 8)",
            0,
        ),
        (
            shaped(0, 3, &[1, 2, 0]),
            BadShape,
            "rows",
            "0 rows and 3 columns",
            0,
        ),
        (
            shaped(3, 0, &[1, 2, 0]),
            BadShape,
            "columns",
            "3 rows and 0 columns",
            0,
        ),
        (
            square(&four_by_four),
            UnsupportedSize,
            "rows",
            "2x2, 2x3, 3x2, 2x4, 4x2 and 3x3",
            0,
        ),
        (
            shaped(1, 4, &[1, 2, 3, 0]),
            UnsupportedSize,
            "rows",
            "1x4",
            0,
        ),
        (square(&[0]), UnsupportedSize, "rows", "1x1", 0),
    ]
}

fn check(error: &BoardError, reason: ErrorReason, text: &str, limit: u64) {
    assert_eq!(error.reason(), reason, "{}", error.message);
    assert!(
        error.message.contains(text),
        "{} lacks {text}",
        error.message
    );
    assert_eq!(error.limit, limit, "{}", error.message);
}

/// Checks a unary refusal and its details.
async fn refused(
    server: &Server,
    request: SolveRequest,
    reason: ErrorReason,
    field: &str,
) -> String {
    let mut client = server.client().await;
    let status = soon(client.solve(request)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let details = status.get_error_details();
    let info = details.error_info().unwrap();
    assert_eq!(
        format!("ERROR_REASON_{}", info.reason),
        reason.as_str_name()
    );
    assert_eq!(info.domain, "loyd.v1");
    let violations = &details.bad_request().unwrap().field_violations;
    assert_eq!(violations.len(), 1);
    assert_eq!(violations[0].field, field);
    assert_eq!(violations[0].description, status.message());
    status.message().to_owned()
}

#[tokio::test]
async fn unary_names_the_field() {
    let server = Server::start().await;
    for (board, reason, field, text, _) in bad_boards() {
        let request = SolveRequest {
            board: Some(board.clone()),
            ..Default::default()
        };
        let message = refused(&server, request, reason, &format!("board.{field}")).await;
        assert!(message.contains(text), "{message} lacks {text}");
        let request = SolveRequest {
            board: Some(square(&[1, 2, 3, 4, 5, 6, 7, 8, 0])),
            goal: Some(board),
            options: None,
        };
        refused(&server, request, reason, &format!("goal.{field}")).await;
    }
    refused(
        &server,
        SolveRequest::default(),
        ErrorReason::WrongTileCount,
        "board.tiles",
    )
    .await;
}

/// Options that are wrong: the options, the reason, the field.
fn bad_options() -> Vec<(SolveOptions, ErrorReason, &'static str)> {
    let options = SolveOptions::default;
    let mut bad = vec![
        (
            SolveOptions {
                algorithm: 7,
                ..options()
            },
            ErrorReason::UnknownEnumValue,
            "options.algorithm",
        ),
        (
            SolveOptions {
                algorithm: -1,
                weight: 0.5,
                ..options()
            },
            ErrorReason::UnknownEnumValue,
            "options.algorithm",
        ),
        (
            SolveOptions {
                heuristic: 4,
                ..options()
            },
            ErrorReason::UnknownEnumValue,
            "options.heuristic",
        ),
        (
            SolveOptions {
                detail: 99,
                ..options()
            },
            ErrorReason::UnknownEnumValue,
            "options.detail",
        ),
        (
            SolveOptions {
                algorithm: Algorithm::IdaStar.into(),
                ..options()
            },
            ErrorReason::MethodNotAvailable,
            "options.algorithm",
        ),
    ];
    for weight in [0.5, 0.999, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let algorithm = Algorithm::IdaStar.into();
        bad.push((
            SolveOptions {
                algorithm,
                weight,
                ..options()
            },
            ErrorReason::BadWeight,
            "options.weight",
        ));
    }
    bad
}

#[tokio::test]
async fn unary_refuses_bad_options() {
    let server = Server::start().await;
    for (options, reason, field) in bad_options() {
        let board = Some(square(&[1, 2, 3, 4, 5, 6, 7, 8, 0]));
        let request = SolveRequest {
            board,
            goal: None,
            options: Some(options),
        };
        refused(&server, request, reason, field).await;
    }
}

#[tokio::test]
async fn the_first_fault_in_the_order_of_reasons_is_told() {
    let server = Server::start().await;
    let request = SolveRequest {
        board: Some(square(&[1, 1, 3, 4, 5, 6, 7, 8, 0])),
        goal: Some(square(&[1, 2])),
        options: Some(SolveOptions {
            algorithm: 99,
            ..Default::default()
        }),
    };
    refused(&server, request, ErrorReason::WrongTileCount, "goal.tiles").await;
    let request = SolveRequest {
        board: Some(square(&[1, 2, 3, 4, 5, 6, 7, 8, 0])),
        goal: Some(square(&[1, 2, 3, 0])),
        options: Some(SolveOptions {
            algorithm: 99,
            ..Default::default()
        }),
    };
    let message = refused(&server, request, ErrorReason::GoalMismatch, "goal").await;
    assert!(
        message.contains("2x2") && message.contains("3x3"),
        "{message}"
    );
}

#[tokio::test]
async fn one_bad_board_of_a_list_is_one_error() {
    let server = Server::start().await;
    let good = square(&[1, 2, 3, 4, 5, 6, 7, 0, 8]);
    let mut boards = vec![good.clone()];
    for (board, ..) in bad_boards() {
        boards.push(board);
        boards.push(good.clone());
    }
    let count = boards.len();
    let responses = batch(&mut server.client().await, vec![list(9, boards)])
        .await
        .unwrap();
    assert_eq!(responses.len(), 1);
    let Some(solve_batch_response::Results::List(results)) = &responses[0].results else {
        panic!("a list is answered by a list");
    };
    assert_eq!(results.results.len(), count);
    let mut bad = bad_boards().into_iter();
    for (index, result) in results.results.iter().enumerate() {
        match result.result.as_ref().unwrap() {
            board_result::Result::Solution(solution) => {
                assert_eq!(index % 2, 0);
                assert_eq!((solution.moves.as_str(), solution.length), ("r", 1));
                assert!(solution.stats.unwrap().elapsed.is_none());
            }
            board_result::Result::Error(error) => {
                let (_, reason, _, text, limit) = bad.next().unwrap();
                check(error, reason, text, limit);
            }
        }
    }
    assert!(bad.next().is_none());
}

#[tokio::test]
async fn a_board_that_does_not_fit_the_goal_is_its_own_error() {
    let server = Server::start().await;
    let mut request = list(
        1,
        vec![square(&[1, 2, 0, 3]), square(&[1, 2, 3, 4, 5, 6, 7, 0, 8])],
    );
    request.goal = Some(square(&[1, 2, 3, 0]));
    let responses = batch(&mut server.client().await, vec![request])
        .await
        .unwrap();
    let Some(solve_batch_response::Results::List(results)) = &responses[0].results else {
        panic!("a list is answered by a list");
    };
    assert!(matches!(
        results.results[0].result,
        Some(board_result::Result::Solution(_))
    ));
    let Some(board_result::Result::Error(error)) = &results.results[1].result else {
        panic!("the goal does not fit");
    };
    assert_eq!(error.reason(), ErrorReason::GoalMismatch);
}

#[tokio::test]
async fn one_bad_board_of_a_packed_message_is_one_error() {
    let server = Server::start().await;
    let mut tiles = Vec::new();
    for board in [
        [1, 2, 3, 4, 5, 6, 7, 0, 8],
        [1, 2, 3, 4, 5, 6, 7, 8, 9],
        [1, 2, 3, 4, 5, 6, 0, 7, 8],
        [1, 2, 3, 4, 5, 6, 7, 7, 0],
        [1, 2, 3, 4, 5, 6, 7, 8, 255],
        [2, 1, 3, 4, 5, 6, 7, 8, 0],
        [1, 2, 3, 4, 5, 6, 7, 8, 0],
    ] {
        tiles.extend(board);
    }
    let responses = batch(&mut server.client().await, vec![packed_bytes(3, tiles)])
        .await
        .unwrap();
    let Some(solve_batch_response::Results::Packed(results)) = &responses[0].results else {
        panic!("packed boards are answered packed");
    };
    let outcomes: Vec<Outcome> = results.outcomes().collect();
    use Outcome::*;
    assert_eq!(
        outcomes,
        [Solved, Error, Solved, Error, Error, Unsolvable, Solved]
    );
    assert!(results.lengths().eq([1, 0, 2, 0, 0, 0, 0]));
    assert_eq!(results.moves, "rrr");
    assert!(results.all_optimal);
    assert!(results.totals.unwrap().elapsed.is_some());
    let errors: Vec<(u32, ErrorReason)> = results
        .errors
        .iter()
        .map(|error| (error.index, error.error.as_ref().unwrap().reason()))
        .collect();
    use ErrorReason::{DuplicateTile, TileOutOfRange};
    assert_eq!(
        errors,
        [(1, TileOutOfRange), (3, DuplicateTile), (4, TileOutOfRange)]
    );
}

#[tokio::test]
async fn only_the_first_64_errors_of_a_packed_request_carry_text() {
    let server = Server::start().await;
    // Enough for several pieces of any size, and several responses.
    let boards = 20_000;
    let request = packed_bytes(1, vec![7; 9 * boards]);
    let responses = batch(&mut server.client().await, vec![request.clone(), request])
        .await
        .unwrap();
    let mut errors = Vec::new();
    for response in &responses {
        let Some(solve_batch_response::Results::Packed(results)) = &response.results else {
            panic!("packed boards are answered packed");
        };
        errors.extend(
            results
                .errors
                .iter()
                .map(|error| error.error.clone().unwrap()),
        );
    }
    assert_eq!(errors.len(), 2 * boards);
    for (index, error) in errors.iter().enumerate() {
        assert_eq!(error.reason(), ErrorReason::DuplicateTile);
        assert_eq!(error.message.is_empty(), index % boards >= 64, "{index}");
    }
}

fn message_error(response: &SolveBatchResponse) -> &BoardError {
    match &response.results {
        Some(solve_batch_response::Results::Error(error)) => error,
        other => panic!("the whole message is bad: {other:?}"),
    }
}

#[tokio::test]
async fn a_bad_message_is_one_error_and_the_stream_goes_on() {
    let server = Server::start().await;
    let some = spread(3);
    let good = |id| packed(id, &some);
    let shape = |rows, columns, bytes: usize| SolveBatchRequest {
        boards: Some(solve_batch_request::Boards::Packed(wire::PackedBoards {
            rows,
            columns,
            tiles: vec![0; bytes].into(),
        })),
        ..Default::default()
    };
    let eight = || Some(square(&[1, 2, 3, 4, 5, 6, 7, 8, 0]));
    let two_by_two = || Some(square(&[1, 2, 3, 0]));
    let mut cases: Vec<(SolveBatchRequest, ErrorReason)> = vec![
        (shape(0, 0, 10), ErrorReason::WrongTileCount),
        (shape(2, 2, 7), ErrorReason::WrongTileCount),
        (shape(0, 3, 9), ErrorReason::BadShape),
        (shape(4, 4, 16), ErrorReason::UnsupportedSize),
        (shape(u32::MAX, u32::MAX, 1), ErrorReason::WrongTileCount),
        (shape(4, 4, 15), ErrorReason::WrongTileCount),
        (shape(1, 9, 10), ErrorReason::WrongTileCount),
        (shape(1, 9, 9), ErrorReason::UnsupportedSize),
        (
            SolveBatchRequest {
                goal: two_by_two(),
                ..good(0)
            },
            ErrorReason::GoalMismatch,
        ),
        (
            SolveBatchRequest {
                goal: Some(square(&[1, 1, 2, 0])),
                ..good(0)
            },
            ErrorReason::DuplicateTile,
        ),
        (
            SolveBatchRequest {
                goal: Some(square(&[1, 2])),
                ..list(0, vec![eight().unwrap()])
            },
            ErrorReason::WrongTileCount,
        ),
    ];
    for (options, reason, _) in bad_options() {
        cases.push((
            SolveBatchRequest {
                options: Some(options),
                ..good(0)
            },
            reason,
        ));
        let request = list(0, vec![eight().unwrap()]);
        cases.push((
            SolveBatchRequest {
                options: Some(options),
                ..request
            },
            reason,
        ));
    }
    // In one stream: each bad message between two good ones.
    let mut requests = vec![good(1000)];
    for (number, (request, _)) in cases.iter().enumerate() {
        requests.push(SolveBatchRequest {
            id: number as u64,
            ..request.clone()
        });
        requests.push(good(1000));
    }
    let responses = batch(&mut server.client().await, requests).await.unwrap();
    assert_eq!(responses.len(), 2 * cases.len() + 1);
    for (number, (request, reason)) in cases.iter().enumerate() {
        let response = &responses[2 * number + 1];
        assert_eq!(response.id, number as u64);
        let error = message_error(response);
        assert_eq!(error.reason(), *reason, "{request:?}: {}", error.message);
        assert!(!error.message.is_empty());
        assert_eq!(
            responses[2 * number + 2].results,
            responses[0]
                .results
                .clone()
                .map(same_elapsed(&responses[2 * number + 2],))
        );
    }
}

/// The results with the elapsed time of another response: the one thing that
/// differs between equal requests.
fn same_elapsed(
    other: &SolveBatchResponse,
) -> impl FnOnce(solve_batch_response::Results) -> solve_batch_response::Results + '_ {
    move |mut results| {
        if let (
            solve_batch_response::Results::Packed(mine),
            Some(solve_batch_response::Results::Packed(theirs)),
        ) = (&mut results, &other.results)
        {
            mine.totals.as_mut().unwrap().elapsed = theirs.totals.unwrap().elapsed;
        }
        results
    }
}

#[tokio::test]
async fn too_many_boards_are_refused_with_the_limit() {
    let server = Server::start().await;
    let board = Board::standard_goal(Shape::EIGHT);
    let requests = vec![
        list(1, vec![square(&[1, 2, 3, 0]); 16_385]),
        packed(2, &vec![board; 65_537]),
        list(3, vec![square(&[1, 2, 3, 0]); 16_384]),
        packed(4, &vec![board; 65_536]),
    ];
    let responses = batch(&mut server.client().await, requests).await.unwrap();
    check(
        message_error(&responses[0]),
        ErrorReason::TooManyBoards,
        "the limit is 16384",
        16_384,
    );
    check(
        message_error(&responses[1]),
        ErrorReason::TooManyBoards,
        "the limit is 65536",
        65_536,
    );
    let boards = |id| -> usize {
        responses
            .iter()
            .filter(|response| response.id == id)
            .map(|response| match &response.results {
                Some(solve_batch_response::Results::List(list)) => list.results.len(),
                Some(solve_batch_response::Results::Packed(packed)) => packed.outcomes.len(),
                _ => 0,
            })
            .sum()
    };
    assert_eq!((boards(3), boards(4)), (16_384, 65_536));
}

#[tokio::test]
async fn a_message_over_the_limit_is_resource_exhausted() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let status = batch(&mut client, vec![packed_bytes(1, vec![0; 5 << 20])])
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.message().contains("4194304"), "{status:?}");
    // The connection is of further use.
    assert_eq!(
        batch(&mut client, vec![packed(2, &spread(5))])
            .await
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn a_unary_message_over_the_limit_is_resource_exhausted_too() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let request = SolveRequest {
        board: Some(square(&vec![0; 5 << 20])),
        ..Default::default()
    };
    let status = soon(client.solve(request)).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.message().contains("4194304"), "{status:?}");
}
