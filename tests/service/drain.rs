//! How a server stops: nobody loses an answer that is owed, and nobody holds it
//! up.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody};
use hyper::Request;
use hyper::body::Frame;
use loyd::server::{Config, Drained};
use loyd::service::Settings;
use loyd::wire::v1::solver_service_client::SolverServiceClient;
use loyd::wire::v1::{Algorithm, SolveBatchRequest, SolveBatchResponse, solve_batch_response};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::frames;
use crate::server_life::Process;
use crate::support::{PATIENCE, Server, algorithm, batch, packed, soon, spread};

/// A server that would wait for ever where it waits at all.
async fn patient() -> Server {
    let config = Config {
        drain_timeout: 10 * PATIENCE,
        ..Config::default()
    };
    Server::with(Settings::default(), config).await
}

type Requests = mpsc::Sender<SolveBatchRequest>;
type Responses = Streaming<SolveBatchResponse>;

async fn open_stream(client: &mut SolverServiceClient<Channel>) -> (Requests, Responses) {
    let (sender, requests) = mpsc::channel(1);
    let responses = soon(client.solve_batch(ReceiverStream::new(requests))).await;
    (sender, responses.unwrap().into_inner())
}

/// A stream that is owed answers and takes none.
async fn stuck_stream(client: &mut SolverServiceClient<Channel>) -> (Requests, Responses) {
    let (sender, responses) = open_stream(client).await;
    let mut request = packed(1, &spread(65_536));
    request.options = algorithm(Algorithm::GoalTable);
    let a_while = Duration::from_millis(500);
    while tokio::time::timeout(a_while, sender.send(request.clone()))
        .await
        .is_ok()
    {}
    (sender, responses)
}

/// What a stream still says, and how it ends.
async fn rest(responses: &mut Responses) -> (Vec<SolveBatchResponse>, Result<(), Status>) {
    let mut all = Vec::new();
    loop {
        match soon(responses.message()).await {
            Ok(Some(response)) => all.push(response),
            Ok(None) => return (all, Ok(())),
            Err(status) => return (all, Err(status)),
        }
    }
}

/// Connects, and comes back when the server has accepted it.
async fn connect_by_hand(server: &Server, bytes: &[u8]) -> TcpStream {
    let mut peer = TcpStream::connect(server.address).unwrap();
    peer.write_all(bytes).unwrap();
    // A call on a later connection is answered: this one was accepted before.
    let mut client = server.client().await;
    batch(&mut client, vec![packed(1, &spread(1))])
        .await
        .unwrap();
    peer
}

#[tokio::test]
async fn an_idle_connection_does_not_hold_it_up() {
    let mut server = patient().await;
    let _idle = server.client().await;
    server.stop();
    assert_eq!(server.stopped().await, Drained::Cleanly);
}

#[tokio::test]
async fn a_peer_that_says_nothing_does_not_hold_it_up() {
    for said in [&b""[..], &frames::PREFACE[..10], frames::PREFACE] {
        let mut server = patient().await;
        let _silent = connect_by_hand(&server, said).await;
        server.stop();
        assert_eq!(server.stopped().await, Drained::Cleanly);
    }
}

#[tokio::test]
async fn a_peer_that_hears_nothing_does_not_hold_it_up() {
    let mut server = patient().await;
    // It answers no ping, and never goes away.
    let _deaf = connect_by_hand(&server, &frames::hello()).await;
    let authority = server.address.to_string();
    let call = frames::call(1, &authority, "/loyd.v1.SolverService/SolveBatch");
    let _deaf_in_a_call = connect_by_hand(&server, &[frames::hello(), call].concat()).await;
    server.stop();
    assert_eq!(server.stopped().await, Drained::Cleanly);
}

#[tokio::test]
async fn a_half_open_stream_ends_as_unavailable() {
    let mut server = patient().await;
    let mut client = server.client().await;
    let (_sender, mut responses) = open_stream(&mut client).await;
    server.stop();
    let (answers, end) = rest(&mut responses).await;
    assert!(answers.is_empty());
    assert_eq!(end.unwrap_err().code(), Code::Unavailable);
    assert_eq!(server.stopped().await, Drained::Cleanly);
}

/// The kinds of the frames of stream 1. Ends its half when the other ends, and
/// reads until the connection is closed.
fn heard_on_the_stream(mut peer: TcpStream) -> Vec<u8> {
    const END_STREAM: u8 = 1;
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut kinds = Vec::new();
    let mut header = [0; 9];
    while peer.read_exact(&mut header).is_ok() {
        let [a, b, c, kind, flags, .., stream] = header;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        peer.read_exact(&mut payload).unwrap();
        if stream != 1 {
            continue;
        }
        kinds.push(kind);
        if kind == frames::HEADERS && flags & END_STREAM != 0 {
            let end = frames::frame(frames::DATA, END_STREAM, 1, &[]);
            peer.write_all(&end).unwrap();
        }
    }
    kinds
}

/// Some proxies pass on a reset that comes right behind an answer, and not the
/// answer.
#[tokio::test]
async fn a_stream_that_is_ended_is_not_reset() {
    let mut server = patient().await;
    let authority = server.address.to_string();
    let call = frames::call(1, &authority, "/loyd.v1.SolverService/SolveBatch");
    let peer = connect_by_hand(&server, &[frames::hello(), call].concat()).await;
    server.stop();
    let heard = tokio::task::spawn_blocking(|| heard_on_the_stream(peer));
    let kinds = soon(heard).await.unwrap();
    assert!(kinds.contains(&frames::HEADERS), "{kinds:?}");
    assert!(!kinds.contains(&frames::RST_STREAM), "{kinds:?}");
    assert_eq!(server.stopped().await, Drained::Cleanly);
}

#[tokio::test]
async fn a_call_whose_request_is_not_all_here_ends_as_unavailable() {
    let mut server = patient().await;
    let mut channel = server.plain_channel().await;
    let (sender, parts) = mpsc::channel::<Result<Frame<Bytes>, Status>>(1);
    let body = Body::new(StreamBody::new(ReceiverStream::new(parts)));
    let request = Request::post(format!(
        "http://{}/loyd.v1.SolverService/Solve",
        server.address
    ))
    .header("content-type", "application/grpc")
    .body(body)
    .unwrap();
    let response = tokio::spawn(channel.call(request));
    let half = Frame::data(Bytes::from_static(&[0, 0, 0, 0, 100, 1, 2, 3]));
    sender.send(Ok(half)).await.unwrap();
    server.client().await;
    server.stop();
    let response = soon(response).await.unwrap().unwrap();
    let status = Status::from_header_map(response.headers()).unwrap();
    assert_eq!(status.code(), Code::Unavailable);
    drop(soon(response.into_body().collect()).await);
    assert_eq!(server.stopped().await, Drained::Cleanly);
}

#[tokio::test]
async fn what_was_received_is_answered_before_the_end() {
    let mut server = patient().await;
    let mut client = server.client().await;
    let (sender, mut responses) = open_stream(&mut client).await;
    sender.send(packed(0, &spread(10))).await.unwrap();
    let first = soon(responses.message()).await.unwrap().unwrap();
    assert_eq!(first.id, 0);
    // By a slow method, and not more than a stream may send unread.
    for id in 1..=6 {
        let mut request = packed(id, &spread(1_000));
        request.options = algorithm(Algorithm::AStar);
        sender.send(request).await.unwrap();
    }
    // A later call of the same connection is answered: they are here.
    soon(batch(&mut client.clone(), vec![packed(1, &spread(1))]))
        .await
        .unwrap();
    server.stop();
    let (answers, end) = rest(&mut responses).await;
    let complete: Vec<u64> = answers
        .iter()
        .filter(|answer| !answer.more)
        .map(|answer| answer.id)
        .collect();
    assert_eq!(complete, [1, 2, 3, 4, 5, 6]);
    assert_eq!(end.unwrap_err().code(), Code::Unavailable);
    assert_eq!(server.stopped().await, Drained::Cleanly);
}

#[tokio::test]
async fn a_stream_that_was_half_closed_ends_well() {
    let mut server = patient().await;
    let mut client = server.client().await;
    let mut request = packed(1, &spread(20_000));
    request.options = algorithm(Algorithm::AStar);
    let running = tokio::spawn(async move { batch(&mut client, vec![request]).await });
    while server.client().await.clone().solve(sample()).await.is_err() {}
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.stop();
    let answers = soon(running).await.unwrap().unwrap();
    assert!(!answers.last().unwrap().more);
    assert_eq!(server.stopped().await, Drained::Cleanly);
}

fn sample() -> loyd::wire::v1::SolveRequest {
    loyd::wire::v1::SolveRequest {
        board: Some(crate::support::square(&[2, 3, 4, 1, 5, 0, 7, 6, 8])),
        ..Default::default()
    }
}

#[tokio::test]
async fn calls_are_taken_until_the_delay_has_passed() {
    let config = Config {
        drain_delay: Duration::from_secs(2),
        ..Config::default()
    };
    let mut server = Server::with(Settings::default(), config).await;
    let mut client = server.client().await;
    let mut health = HealthClient::new(server.channel().await);
    let request = HealthCheckRequest::default();
    let mut watch = soon(health.watch(request)).await.unwrap().into_inner();
    let told = soon(watch.message()).await.unwrap().unwrap();
    assert_eq!(told.status(), ServingStatus::Serving);
    server.stop();
    let told = soon(watch.message()).await.unwrap().unwrap();
    assert_eq!(told.status(), ServingStatus::NotServing);
    // Old connections and new ones are served.
    soon(client.solve(sample())).await.unwrap();
    soon(server.client().await.solve(sample())).await.unwrap();
    // Then the watch ends, as every stream does.
    while let Ok(Some(told)) = soon(watch.message()).await {
        assert_eq!(told.status(), ServingStatus::NotServing);
    }
    assert_eq!(server.stopped().await, Drained::Cleanly);
}

#[tokio::test]
async fn what_outlasts_the_drain_timeout_is_cut_and_counted() {
    let config = Config {
        drain_timeout: Duration::from_millis(200),
        ..Config::default()
    };
    let mut server = Server::with(Settings::default(), config).await;
    let mut client = server.client().await;
    let (_sender, mut responses) = stuck_stream(&mut client).await;
    server.stop();
    let cut = Drained::Cut {
        connections: 1,
        calls: 1,
    };
    assert_eq!(server.stopped().await, cut);
    assert!(rest(&mut responses).await.1.is_err());
}

#[tokio::test]
async fn a_second_signal_cuts_what_is_left() {
    let mut process = Process::start(&["--drain-timeout", "600"]);
    let mut client = SolverServiceClient::connect(process.uri.clone())
        .await
        .unwrap();
    let _stuck = stuck_stream(&mut client).await;
    process.signal("-TERM");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(
        process.child.try_wait().unwrap().is_none(),
        "an owed answer is waited for"
    );
    process.signal("-TERM");
    assert_eq!(process.exit_code(), Some(0));
}

#[tokio::test]
async fn a_second_signal_cuts_the_delay_short() {
    let mut process = Process::start(&["--drain-delay", "600"]);
    process.signal("-TERM");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(process.child.try_wait().unwrap().is_none());
    process.signal("-INT");
    assert_eq!(process.exit_code(), Some(0));
}

#[test]
fn a_signal_before_it_is_ready_is_a_clean_end() {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_loyd"))
        .args(["serve", "--listen", "127.0.0.1:0", "--warm"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // As soon as it catches SIGTERM (15).
    let catches = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find(|line| line.starts_with("SigCgt:"));
        let mask = caught.unwrap().split_whitespace().nth(1).unwrap();
        u64::from_str_radix(mask, 16).unwrap() >> 14 & 1 == 1
    };
    let asked = Instant::now();
    while !catches() {
        assert!(asked.elapsed() < PATIENCE);
    }
    let killed = std::process::Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status();
    assert!(killed.unwrap().success());
    while asked.elapsed() < PATIENCE && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Where it did not end by itself, it has no code.
    let _ = child.kill();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Sends the messages from `first` on as fast as they are taken; gives the id
/// of the first that has no whole answer, and how the stream ended.
async fn stream_from(
    first: u64,
    messages: u64,
    uri: &str,
    mut answered: impl FnMut(u64),
) -> (u64, Result<(), Status>) {
    let mut client = SolverServiceClient::connect(uri.to_owned()).await.unwrap();
    let boards = spread(1_000);
    // By the default method: seconds of work, of which none is done in time.
    let requests = (first..messages).map(move |id| packed(id, &boards));
    let responses = soon(client.solve_batch(tokio_stream::iter(requests))).await;
    let mut responses = responses.unwrap().into_inner();
    let mut next = first;
    loop {
        match soon(responses.message()).await {
            Ok(Some(response)) => {
                assert_eq!(response.id, next);
                let Some(solve_batch_response::Results::Packed(results)) = response.results else {
                    panic!("packed boards are answered packed");
                };
                assert!(response.more || results.outcomes.len() == 1_000);
                if !response.more {
                    next += 1;
                    answered(next);
                }
            }
            Ok(None) => return (next, Ok(())),
            Err(status) => return (next, Err(status)),
        }
    }
}

#[tokio::test]
async fn a_million_streamed_boards_survive_a_restart() {
    const MESSAGES: u64 = 1_000;
    let mut process = Process::start(&[]);
    let uri = process.uri.clone();
    let (next, end) = stream_from(0, MESSAGES, &uri, |answered| {
        if answered == MESSAGES / 4 {
            process.signal("-TERM");
        }
    })
    .await;
    let status = end.expect_err("it was stopped under way");
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert!(status.message().contains("stopping"), "{status:?}");
    assert!((MESSAGES / 4..MESSAGES).contains(&next));
    assert_eq!(process.exit_code(), Some(0));
    let second = Process::start(&[]);
    let (next, end) = stream_from(next, MESSAGES, &second.uri, |_| {}).await;
    end.unwrap();
    assert_eq!(next, MESSAGES);
}
