//! Whatever several streams of one connection do, each of their answers is
//! right: forms, sizes and methods mixed, good boards among bad ones, pauses
//! on both sides, half-closes and cancels in between.

use std::time::Duration;

use loyd::puzzle::{Board, Problem, Shape, cantor};
use loyd::search::{Budget, Method, Outcome as Found, SearchOptions, Workspace, solve};
use loyd::wire::v1::solver_service_client::SolverServiceClient;
use loyd::wire::v1::{
    self as wire, Algorithm, Detail, ErrorReason, Outcome, SolveBatchRequest, SolveBatchResponse,
    SolveOptions, board_result, solve_batch_response,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::support::{Server, list, packed_bytes, replay, soon};

/// A board as it is sent.
#[derive(Clone, Debug)]
enum Sent {
    Ranked(u32),
    Duplicate(u32),
    OutOfRange(u32),
}

impl Sent {
    fn tiles(&self) -> [u8; 9] {
        let (Sent::Ranked(rank) | Sent::Duplicate(rank) | Sent::OutOfRange(rank)) = self;
        let mut tiles = [0; 9];
        cantor::unrank(*rank, &mut tiles);
        match self {
            Sent::Ranked(_) => {}
            Sent::Duplicate(_) => tiles[0] = tiles[8],
            Sent::OutOfRange(_) => tiles[4] = 9,
        }
        tiles
    }

    /// What has to be answered: the length and the moves' end, or the reason.
    fn truth(&self, goal: Option<u32>) -> Result<(Problem, Found), ErrorReason> {
        match self {
            Sent::Duplicate(_) => Err(ErrorReason::DuplicateTile),
            Sent::OutOfRange(_) => Err(ErrorReason::TileOutOfRange),
            Sent::Ranked(_) => {
                let start = Board::from_bytes(Shape::EIGHT, &self.tiles()).unwrap();
                let problem = Problem::new(start, board(goal)).unwrap();
                let options = SearchOptions {
                    method: Method::GoalTable,
                    ..SearchOptions::default()
                };
                let found = solve(
                    &mut Workspace::new(),
                    &problem,
                    &options,
                    &Budget::UNLIMITED,
                    &mut String::new(),
                );
                Ok((problem, found.unwrap().outcome))
            }
        }
    }
}

fn board(rank: Option<u32>) -> Board {
    rank.map_or(Board::standard_goal(Shape::EIGHT), |rank| {
        let mut tiles = [0; 9];
        cantor::unrank(rank, &mut tiles);
        Board::from_bytes(Shape::EIGHT, &tiles).unwrap()
    })
}

#[derive(Clone, Debug)]
struct Message {
    id: u64,
    boards: Vec<Sent>,
    packed: bool,
    goal: Option<u32>,
    algorithm: Algorithm,
    detail: Detail,
    /// An algorithm that there is not.
    refused: bool,
    /// Milliseconds before it is sent.
    pause: u64,
}

#[derive(Clone, Debug)]
struct Stream {
    messages: Vec<Message>,
    /// So many messages may wait to be sent.
    ahead: usize,
    /// Milliseconds before each answer is read.
    reading_pause: u64,
    /// Cancelled after so many answers, unless all of them come first.
    cancelled_after: Option<usize>,
}

fn rank() -> impl Strategy<Value = u32> {
    0..cantor::factorial(9)
}

fn message() -> impl Strategy<Value = Message> {
    let id = prop_oneof![Just(0), Just(u64::MAX), Just(7), any::<u64>()];
    let sent = prop_oneof![
        12 => rank().prop_map(Sent::Ranked),
        1 => rank().prop_map(Sent::Duplicate),
        1 => rank().prop_map(Sent::OutOfRange),
    ];
    let count = prop_oneof![
        1 => Just(0..1_usize),
        3 => Just(1..6),
        6 => Just(1..40),
        1 => Just(200..1_500),
    ];
    let boards = count.prop_flat_map(move |count| prop::collection::vec(sent.clone(), count));
    let algorithm = prop_oneof![
        4 => Just(Algorithm::GoalTable),
        4 => Just(Algorithm::Unspecified),
        1 => Just(Algorithm::AStar),
        1 => Just(Algorithm::Bfs),
    ];
    let detail = prop_oneof![3 => Just(Detail::Moves), 1 => Just(Detail::LengthOnly)];
    let pause = prop_oneof![6 => Just(0), 1 => 1..4_u64];
    (
        (
            id,
            boards,
            any::<bool>(),
            prop::option::weighted(0.3, rank()),
        ),
        (algorithm, detail, prop::bool::weighted(0.05), pause),
    )
        .prop_map(
            |((id, boards, packed, goal), (algorithm, detail, refused, pause))| Message {
                id,
                boards,
                packed,
                goal,
                algorithm,
                detail,
                refused,
                pause,
            },
        )
}

fn stream() -> impl Strategy<Value = Stream> {
    (
        prop::collection::vec(message(), 0..12),
        1..8_usize,
        prop_oneof![4 => Just(0), 1 => 1..6_u64],
        prop::option::weighted(0.3, 0..10_usize),
    )
        .prop_map(|(messages, ahead, reading_pause, cancelled_after)| Stream {
            messages,
            ahead,
            reading_pause,
            cancelled_after,
        })
}

impl Message {
    fn request(&self) -> SolveBatchRequest {
        let tiles = || self.boards.iter().map(Sent::tiles);
        let mut request = if self.packed {
            packed_bytes(self.id, tiles().flatten().collect())
        } else {
            let boards = tiles().map(|tiles| wire::Board {
                tiles: tiles.map(u32::from).to_vec(),
                rows: 0,
                columns: 0,
            });
            list(self.id, boards.collect())
        };
        request.goal = self
            .goal
            .map(|goal| crate::support::to_wire(&board(Some(goal))));
        let algorithm = if self.refused {
            99
        } else {
            self.algorithm.into()
        };
        request.options = Some(SolveOptions {
            algorithm,
            detail: self.detail.into(),
            ..SolveOptions::default()
        });
        request
    }

    /// Holds all responses to this message against the truth.
    fn check(&self, responses: &[SolveBatchResponse]) {
        let mut boards = self.boards.iter();
        let mut answered = 0;
        for response in responses {
            assert_eq!((response.id, response.first_board), (self.id, answered));
            match &response.results {
                Some(solve_batch_response::Results::Error(error)) => {
                    assert!(self.refused, "{error:?}");
                    assert_eq!(error.reason(), ErrorReason::UnknownEnumValue);
                    return;
                }
                None => assert!(self.boards.is_empty()),
                Some(solve_batch_response::Results::List(results)) => {
                    assert!(!self.packed);
                    for result in &results.results {
                        let told = match result.result.as_ref().unwrap() {
                            board_result::Result::Error(error) => Err(error.reason()),
                            board_result::Result::Solution(solution) => Ok((
                                solution.outcome(),
                                solution.length,
                                solution.optimal,
                                solution.moves.as_str(),
                            )),
                        };
                        self.check_board(boards.next().unwrap(), told);
                    }
                    answered += results.results.len() as u32;
                }
                Some(solve_batch_response::Results::Packed(results)) => {
                    assert!(self.packed && results.all_optimal);
                    let mut errors = results.errors.iter();
                    let mut moves = results.moves.as_str();
                    let columns = results.outcomes().zip(results.lengths()).enumerate();
                    for (index, (outcome, length)) in columns {
                        let told = if outcome == Outcome::Error {
                            let error = errors.next().unwrap();
                            assert_eq!(error.index as usize, index);
                            Err(error.error.as_ref().unwrap().reason())
                        } else {
                            let written = match self.detail {
                                Detail::LengthOnly => 0,
                                _ => length as usize,
                            };
                            let (mine, rest) = moves.split_at(written);
                            moves = rest;
                            Ok((outcome, length, outcome == Outcome::Solved, mine))
                        };
                        self.check_board(boards.next().unwrap(), told);
                    }
                    assert!(errors.next().is_none() && moves.is_empty());
                    answered += results.outcomes.len() as u32;
                }
            }
        }
        assert!(!self.refused && boards.next().is_none());
    }

    fn check_board(&self, sent: &Sent, told: Result<(Outcome, u32, bool, &str), ErrorReason>) {
        let (problem, found) = match (sent.truth(self.goal), told) {
            (Err(reason), told) => return assert_eq!(told, Err(reason)),
            (Ok(truth), _) => truth,
        };
        let (outcome, length, optimal, moves) = told.unwrap();
        match found {
            Found::Solved { length: least, .. } => {
                assert_eq!((outcome, length, optimal), (Outcome::Solved, least, true));
                if self.detail == Detail::LengthOnly {
                    assert_eq!(moves, "");
                } else {
                    assert_eq!(moves.len(), length as usize);
                    assert_eq!(replay(problem.start(), moves), *problem.goal());
                }
            }
            _ => assert_eq!(
                (outcome, length, optimal, moves),
                (Outcome::Unsolvable, 0, false, "")
            ),
        }
    }
}

impl Stream {
    async fn run(self, mut client: SolverServiceClient<Channel>) {
        let (sender, requests) = mpsc::channel(self.ahead);
        let messages = self.messages.clone();
        tokio::spawn(async move {
            for message in messages {
                tokio::time::sleep(Duration::from_millis(message.pause)).await;
                if sender.send(message.request()).await.is_err() {
                    return;
                }
            }
        });
        let mut responses = soon(client.solve_batch(ReceiverStream::new(requests)))
            .await
            .unwrap()
            .into_inner();
        let mut left = self.cancelled_after.unwrap_or(usize::MAX);
        for message in &self.messages {
            let mut answer = Vec::new();
            loop {
                if left == 0 {
                    return;
                }
                left -= 1;
                tokio::time::sleep(Duration::from_millis(self.reading_pause)).await;
                let response = soon(responses.message()).await.unwrap().unwrap();
                let more = response.more;
                answer.push(response);
                if !more {
                    break;
                }
            }
            message.check(&answer);
        }
        assert_eq!(soon(responses.message()).await.unwrap(), None);
    }
}

#[test]
fn every_answer_is_right() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let server = runtime.block_on(Server::start());
    let mut runner = TestRunner::new(Config {
        cases: 48,
        max_shrink_iters: 64,
        failure_persistence: None,
        ..Config::default()
    });
    let streams = prop::collection::vec(stream(), 1..6);
    let ran = runner.run(&streams, |streams| {
        runtime.block_on(async {
            let client = server.client().await;
            let running: Vec<_> = streams
                .into_iter()
                .map(|stream| tokio::spawn(stream.run(client.clone())))
                .collect();
            for stream in running {
                soon(stream)
                    .await
                    .map_err(|error| TestCaseError::fail(error.to_string()))?;
            }
            Ok(())
        })
    });
    ran.unwrap();
}
