//! `SolveBatch` answers every board of every request, in order, in responses
//! of at most 1 MiB.

use loyd::puzzle::{Board, Shape};
use loyd::wire::v1::{self as wire};
use loyd::wire::v1::{
    Algorithm, Outcome, SolveBatchRequest, SolveBatchResponse, SolveRequest, board_result,
    solve_batch_response,
};
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::support::{
    Server, algorithm, batch, list, packed, packed_bytes, replay, soon, spread, square, to_wire,
};

/// What a response says of one board.
#[derive(Debug, Clone, PartialEq)]
struct Told {
    outcome: Outcome,
    length: u32,
    moves: String,
}

/// Puts the responses to requests together, and checks how they were split:
/// the answers to request `n` of `counts[n]` boards are at `n`.
fn assemble(responses: &[SolveBatchResponse], ids: &[u64], counts: &[usize]) -> Vec<Vec<Told>> {
    let mut all = Vec::new();
    let mut responses = responses.iter();
    for (id, count) in ids.iter().zip(counts) {
        let mut told = Vec::new();
        loop {
            let response = responses.next().expect("an answer for every request");
            assert!(response.encoded_len() <= 1 << 20);
            assert_eq!(response.id, *id);
            assert_eq!(response.first_board as usize, told.len());
            told.extend(boards_of(response));
            if !response.more {
                break;
            }
        }
        assert_eq!(told.len(), *count, "request {id}");
        all.push(told);
    }
    assert!(
        responses.next().is_none(),
        "no answer that was not asked for"
    );
    all
}

fn boards_of(response: &SolveBatchResponse) -> Vec<Told> {
    match response.results.as_ref() {
        Some(solve_batch_response::Results::List(list)) => list
            .results
            .iter()
            .map(|result| match result.result.as_ref().unwrap() {
                board_result::Result::Solution(solution) => Told {
                    outcome: solution.outcome(),
                    length: solution.length,
                    moves: solution.moves.clone(),
                },
                board_result::Result::Error(error) => panic!("{error:?}"),
            })
            .collect(),
        Some(solve_batch_response::Results::Packed(packed)) => {
            assert_eq!(packed.outcomes.len(), packed.lengths.len());
            let mut moves = packed.moves.as_str();
            let told = packed
                .outcomes()
                .zip(packed.lengths())
                .map(|(outcome, length)| {
                    let (mine, rest) = moves.split_at(length as usize);
                    moves = rest;
                    Told {
                        outcome,
                        length,
                        moves: mine.to_owned(),
                    }
                });
            let told = told.collect();
            assert_eq!(moves, "", "the moves are as long as the lengths say");
            told
        }
        Some(solve_batch_response::Results::Error(error)) => panic!("{error:?}"),
        None => Vec::new(),
    }
}

#[tokio::test]
async fn both_forms_and_unary_give_the_same_answers() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let boards = spread(600);
    let as_list = list(1, boards.iter().map(to_wire).collect());
    let responses = batch(&mut client, vec![as_list, packed(2, &boards)])
        .await
        .unwrap();
    let told = assemble(&responses, &[1, 2], &[600, 600]);
    assert_eq!(told[0], told[1]);
    for (board, told) in boards.iter().zip(&told[0]) {
        let request = SolveRequest {
            board: Some(to_wire(board)),
            ..Default::default()
        };
        let solution = soon(client.solve(request))
            .await
            .unwrap()
            .into_inner()
            .solution
            .unwrap();
        assert_eq!(solution.outcome(), told.outcome);
        assert_eq!(
            (solution.length, &solution.moves),
            (told.length, &told.moves)
        );
        if told.outcome == Outcome::Solved {
            assert_eq!(
                replay(board, &told.moves),
                Board::standard_goal(Shape::EIGHT)
            );
        }
    }
}

#[tokio::test]
async fn many_boards_are_split_and_keep_their_order() {
    // A list of the default's 16,384 boards is answered by less than 1 MiB.
    let settings = loyd::service::Settings {
        max_list_boards: 65_536,
        ..Default::default()
    };
    let server = Server::with(settings, Default::default()).await;
    let boards = spread(65_536);
    let short = spread(3);
    let mut big = packed(u64::MAX, &boards);
    big.options = algorithm(Algorithm::GoalTable);
    let mut big_list = list(7, boards.iter().map(to_wire).collect());
    big_list.options = algorithm(Algorithm::GoalTable);
    let requests = vec![
        packed(0, &short),
        big,
        packed(0, &short),
        big_list,
        packed(5, &short),
    ];
    let responses = batch(&mut server.client().await, requests).await.unwrap();
    let count = |id| {
        responses
            .iter()
            .filter(|response| response.id == id)
            .count()
    };
    assert!(count(u64::MAX) > 1 && count(7) > 1);
    let told = assemble(
        &responses,
        &[0, u64::MAX, 0, 7, 5],
        &[3, 65_536, 3, 65_536, 3],
    );
    assert!(told[1] == told[3]);
    for (board, told) in boards
        .iter()
        .zip(&told[1])
        .filter(|(_, told)| !told.moves.is_empty())
    {
        assert_eq!(
            replay(board, &told.moves),
            Board::standard_goal(Shape::EIGHT)
        );
    }
}

#[tokio::test]
async fn equal_requests_are_split_alike() {
    let server = Server::start().await;
    let boards = spread(5_000);
    let mut shapes = Vec::new();
    for _ in 0..3 {
        let responses = batch(&mut server.client().await, vec![packed(1, &boards)])
            .await
            .unwrap();
        shapes.push(
            responses
                .iter()
                .map(|response| response.first_board)
                .collect::<Vec<_>>(),
        );
    }
    assert!(shapes[0].len() > 1, "the default method shows progress");
    assert_eq!(shapes[0], shapes[1]);
    assert_eq!(shapes[0], shapes[2]);
}

#[tokio::test]
async fn a_list_may_mix_sizes() {
    let server = Server::start().await;
    let boards = [
        square(&[1, 2, 3, 4, 5, 6, 7, 0, 8]),
        square(&[1, 2, 0, 3]),
        wire::Board {
            tiles: vec![1, 2, 0, 4, 5, 3],
            rows: 2,
            columns: 3,
        },
        wire::Board {
            tiles: vec![1, 2, 3, 4, 5, 0],
            rows: 3,
            columns: 2,
        },
        wire::Board {
            tiles: vec![1, 2, 3, 0, 5, 6, 7, 4],
            rows: 2,
            columns: 4,
        },
        wire::Board {
            tiles: vec![1, 2, 3, 4, 5, 0, 7, 6],
            rows: 4,
            columns: 2,
        },
    ];
    let responses = batch(&mut server.client().await, vec![list(1, boards.to_vec())])
        .await
        .unwrap();
    let told = assemble(&responses, &[1], &[6]);
    let moves: Vec<&str> = told[0].iter().map(|told| told.moves.as_str()).collect();
    assert_eq!(moves, ["r", "r", "d", "", "d", "d"]);
}

/// By the goal table a list takes another way through the service: what it
/// says has to be the same, whatever is in the list.
#[tokio::test]
async fn lists_of_all_kinds_get_from_the_table_what_a_search_says() {
    let server = Server::start().await;
    let boards: Vec<wire::Board> = spread(50).iter().map(to_wire).collect();
    let small = square(&[1, 2, 0, 3]);
    let bad = [
        square(&[1, 2, 3, 4, 5, 6, 7, 7, 0]),
        square(&[]),
        square(&[0, 1 << 20, 2, 3, 4, 5, 6, 7, 8]),
        wire::Board {
            tiles: vec![1, 2, 0, 3],
            rows: 7,
            columns: 1,
        },
    ];
    let with = |more: &[wire::Board]| [&boards[..20], more, &boards[20..]].concat();
    let goals = [
        None,
        Some(square(&[0, 1, 2, 3, 4, 5, 6, 7, 8])),
        Some(square(&[3, 2, 1, 0])),
    ];
    let mut requests = Vec::new();
    for goal in goals {
        for boards in [
            boards.clone(),
            with(std::slice::from_ref(&small)),
            with(&bad),
            with(&[&bad[..], std::slice::from_ref(&small)].concat()),
            bad.to_vec(),
            vec![small.clone()],
            [std::slice::from_ref(&small), &boards[..]].concat(),
        ] {
            let mut request = list(requests.len() as u64, boards);
            request.goal = goal.clone();
            requests.push(request);
        }
    }
    let mut told = Vec::new();
    for method in [Algorithm::GoalTable, Algorithm::BidirectionalBfs] {
        let requests = requests.iter().map(|request| SolveBatchRequest {
            options: algorithm(method),
            ..request.clone()
        });
        let responses = batch(&mut server.client().await, requests.collect()).await;
        let lists = responses.unwrap().into_iter().map(|response| {
            let Some(solve_batch_response::Results::List(list)) = response.results else {
                panic!("{response:?}");
            };
            let of_board = list.results.into_iter().map(|result| match result.result {
                Some(board_result::Result::Solution(solution)) => Ok((
                    solution.outcome(),
                    solution.length,
                    solution.moves.len(),
                    solution.optimal,
                )),
                Some(board_result::Result::Error(error)) => Err(error),
                None => panic!("neither"),
            });
            (response.id, of_board.collect::<Vec<_>>())
        });
        told.push(lists.collect::<Vec<_>>());
    }
    assert_eq!(told[0].len(), requests.len());
    assert!(
        told[0] == told[1],
        "{:?}",
        told[0].iter().zip(&told[1]).find(|(a, b)| a != b)
    );
}

#[tokio::test]
async fn a_message_without_boards_gets_its_id_back() {
    let server = Server::start().await;
    let requests = vec![
        SolveBatchRequest {
            id: 11,
            ..Default::default()
        },
        list(12, vec![]),
        packed(13, &[]),
        packed(14, &spread(1)),
    ];
    let responses = batch(&mut server.client().await, requests).await.unwrap();
    let ids: Vec<u64> = responses.iter().map(|response| response.id).collect();
    assert_eq!(ids, [11, 12, 13, 14]);
    for response in &responses[..3] {
        assert_eq!(
            (&response.results, response.first_board, response.more),
            (&None, 0, false)
        );
    }
}

#[tokio::test]
async fn headers_come_before_the_first_request() {
    let server = Server::start().await;
    let (sender, requests) = mpsc::channel(1);
    let mut client = server.client().await;
    // Resolves when the response's headers came; nothing was sent by then.
    let mut responses = soon(client.solve_batch(ReceiverStream::new(requests)))
        .await
        .unwrap()
        .into_inner();
    sender.send(packed(1, &spread(2))).await.unwrap();
    assert_eq!(soon(responses.message()).await.unwrap().unwrap().id, 1);
    // An answer needs no second request and no half-close.
    sender.send(packed(2, &spread(2))).await.unwrap();
    assert_eq!(soon(responses.message()).await.unwrap().unwrap().id, 2);
    drop(sender);
    assert_eq!(soon(responses.message()).await.unwrap(), None);
}

#[tokio::test]
async fn every_answer_comes_after_a_half_close() {
    let server = Server::start().await;
    let boards = spread(200);
    let requests: Vec<SolveBatchRequest> = (0..100).map(|id| packed(id, &boards)).collect();
    let responses = batch(&mut server.client().await, requests).await.unwrap();
    let ids: Vec<u64> = (0..100).collect();
    assemble(&responses, &ids, &[200; 100]);
}

#[tokio::test]
async fn a_goal_and_options_hold_for_their_own_message_alone() {
    let server = Server::start().await;
    let start = [square(&[2, 8, 3, 1, 6, 4, 7, 0, 5])];
    let mut other_goal = list(1, start.to_vec());
    other_goal.goal = Some(square(&[1, 2, 3, 8, 0, 4, 7, 6, 5]));
    other_goal.options = algorithm(Algorithm::AStar);
    let requests = vec![other_goal, list(2, start.to_vec())];
    let responses = batch(&mut server.client().await, requests).await.unwrap();
    let told = assemble(&responses, &[1, 2], &[1, 1]);
    assert_eq!(told[0][0].length, 5);
    assert_eq!(told[1][0].outcome, Outcome::Unsolvable);
}

/// Messages that are answered as they are read, behind and before others that
/// are not, of every kind of goal: nothing overtakes.
#[tokio::test]
async fn what_is_looked_up_at_once_does_not_overtake_what_is_searched() {
    let server = Server::start().await;
    let boards = spread(300);
    let mut requests = Vec::new();
    for id in 0..60 {
        let count = [1, 2, 15, 16, 17, 300][id as usize % 6];
        let mut request = match id % 4 {
            0 => list(id, boards[..count].iter().map(to_wire).collect()),
            _ => packed(id, &boards[..count]),
        };
        request.options = algorithm(match id % 3 {
            0 => Algorithm::BidirectionalBfs,
            _ => Algorithm::GoalTable,
        });
        if id % 5 == 0 {
            request.goal = Some(square(&[0, 1, 2, 3, 4, 5, 6, 7, 8]));
        }
        requests.push(request);
    }
    check_together(&server, requests).await;
}

fn untimed(mut response: SolveBatchResponse) -> SolveBatchResponse {
    if let Some(solve_batch_response::Results::Packed(results)) = &mut response.results
        && let Some(totals) = &mut results.totals
    {
        totals.elapsed = None;
    }
    response
}

/// On one stream they have the answers that each has alone, one after the other.
async fn check_together(server: &Server, requests: Vec<SolveBatchRequest>) {
    let mut alone = Vec::new();
    for request in &requests {
        let responses = batch(&mut server.client().await, vec![request.clone()]).await;
        alone.extend(responses.unwrap().into_iter().map(untimed));
    }
    let together = batch(&mut server.client().await, requests).await.unwrap();
    let together: Vec<_> = together.into_iter().map(untimed).collect();
    assert_eq!(together, alone);
}

/// A message of a few look-ups is answered when the next was read, whatever
/// that is, or when there is none.
#[tokio::test]
async fn a_few_look_ups_are_answered_before_what_comes_after_them() {
    let server = Server::start().await;
    let boards = spread(300);
    let with = |mut request: SolveBatchRequest, method| {
        request.options = algorithm(method);
        request
    };
    let looked_up = |id, count: usize| with(packed(id, &boards[..count]), Algorithm::GoalTable);
    let other_goal = SolveBatchRequest {
        goal: Some(square(&[0, 1, 2, 3, 4, 5, 6, 7, 8])),
        ..looked_up(2, 1)
    };
    let mut no_method = looked_up(2, 1);
    no_method.options.as_mut().unwrap().algorithm = 99;
    let bad_board = with(
        packed_bytes(2, vec![1, 1, 2, 3, 4, 5, 6, 7, 0]),
        Algorithm::GoalTable,
    );
    let few = list(2, boards[..1].iter().map(to_wire).collect());
    for next in [
        looked_up(2, 1),
        other_goal,
        looked_up(2, 4),
        looked_up(2, 5),
        looked_up(2, 300),
        looked_up(2, 0),
        no_method,
        bad_board,
        with(few, Algorithm::GoalTable),
        with(packed(2, &boards[..1]), Algorithm::BidirectionalBfs),
        with(packed(2, &boards[..300]), Algorithm::BidirectionalBfs),
    ] {
        check_together(&server, vec![looked_up(1, 3), next, looked_up(3, 2)]).await;
    }
}

/// It waits for no next message, and not for the end of the stream.
#[tokio::test]
async fn a_few_look_ups_are_answered_while_the_client_thinks() {
    let server = Server::start().await;
    let boards = spread(20);
    let (send, receive) = mpsc::channel(4);
    let mut client = server.client().await;
    let responses = soon(client.solve_batch(ReceiverStream::new(receive)));
    let mut responses = responses.await.unwrap().into_inner();
    for (id, some) in (1..).zip(boards.chunks(3)) {
        let mut request = packed(id, some);
        request.options = algorithm(Algorithm::GoalTable);
        send.send(request).await.unwrap();
        let response = soon(responses.message()).await.unwrap().unwrap();
        assert_eq!(response.id, id);
        assert_eq!(boards_of(&response).len(), some.len());
    }
}

/// To read a clock takes as long as to look a board up.
#[tokio::test]
async fn a_few_look_ups_are_not_timed_and_all_else_is() {
    let server = Server::start().await;
    let boards = spread(16);
    for (method, count, is_timed) in [
        (Algorithm::GoalTable, 1, false),
        (Algorithm::GoalTable, 15, false),
        (Algorithm::GoalTable, 16, true),
        (Algorithm::BidirectionalBfs, 1, true),
    ] {
        let mut request = packed(1, &boards[..count]);
        request.options = algorithm(method);
        let responses = batch(&mut server.client().await, vec![request]).await;
        let Some(solve_batch_response::Results::Packed(results)) =
            responses.unwrap().remove(0).results
        else {
            panic!("packed boards are answered packed");
        };
        let totals = results.totals.unwrap();
        assert_eq!(totals.elapsed.is_some(), is_timed, "{method:?} x {count}");
        assert_eq!(totals.algorithm(), method);
    }
}
