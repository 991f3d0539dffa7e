//! A client that does not read is not read from; nothing of its stream is
//! lost, and nobody beside it is held up. Many small messages end no
//! connection, whoever pauses.

use std::time::{Duration, Instant};

use loyd::puzzle::Board;
use loyd::wire::v1::solver_service_client::SolverServiceClient;
use loyd::wire::v1::{Algorithm, SolveBatchRequest};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};

use crate::server_life::Process;
use crate::support::{Server, algorithm, batch, packed, soon, spread};

const MESSAGES: u64 = 60_000;

fn one_board(id: u64, boards: &[Board]) -> SolveBatchRequest {
    let mut request = packed(id, &boards[id as usize % boards.len()..][..1]);
    request.options = algorithm(Algorithm::GoalTable);
    request
}

/// A stream of one-board messages, sent as fast as they are taken.
async fn flat_out(
    client: &mut SolverServiceClient<Channel>,
) -> tonic::Streaming<loyd::wire::v1::SolveBatchResponse> {
    let (sender, requests) = mpsc::channel(16);
    let boards = spread(1_000);
    tokio::spawn(async move {
        for id in 0..MESSAGES {
            if sender.send(one_board(id, &boards)).await.is_err() {
                return;
            }
        }
    });
    soon(client.solve_batch(ReceiverStream::new(requests)))
        .await
        .unwrap()
        .into_inner()
}

/// A client with room for all of its streams: what they leave unread takes the
/// connection's window too.
async fn client(server: &Server) -> SolverServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    let endpoint = endpoint
        .initial_stream_window_size(64 << 10)
        .initial_connection_window_size(16 << 20);
    SolverServiceClient::new(endpoint.connect().await.unwrap())
}

#[tokio::test]
async fn a_paused_client_gets_every_answer_when_it_reads_on() {
    let server = Server::start().await;
    let mut client = client(&server).await;
    let mut responses = flat_out(&mut client).await;
    for id in 0..MESSAGES {
        if id % 20_000 == 10 {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let response = soon(responses.message()).await.unwrap().unwrap();
        assert_eq!(
            (response.id, response.first_board, response.more),
            (id, 0, false)
        );
    }
    assert!(soon(responses.message()).await.unwrap().is_none());
}

#[tokio::test]
async fn stalled_streams_do_not_hold_up_the_connection() {
    let server = Server::start().await;
    let mut client = client(&server).await;
    let mut stalled = Vec::new();
    for _ in 0..99 {
        stalled.push(flat_out(&mut client).await);
    }
    // Until all of them are stuck.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    for id in 0..20 {
        let answers = batch(&mut client, vec![packed(id, &spread(100))])
            .await
            .unwrap();
        assert_eq!(answers.len(), 1);
    }
    // Each of them goes on where it was.
    for mut responses in stalled.drain(..5) {
        for id in 0..MESSAGES {
            assert_eq!(soon(responses.message()).await.unwrap().unwrap().id, id);
        }
    }
}

/// Who pauses for a while, with everything under way.
enum Pause {
    Client,
    Server,
}

/// How fast small messages come: none is sent for one that comes late.
const RATE: Duration = Duration::from_micros(100);

/// The default window of a connection, in tonic, is too small for so many
/// streams of small answers: see the README.
async fn roomy_client(process: &Process) -> SolverServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(process.uri.clone()).unwrap();
    let endpoint = endpoint
        .initial_stream_window_size(64 << 10)
        .initial_connection_window_size(64 << 20);
    SolverServiceClient::new(endpoint.connect().await.unwrap())
}

/// All messages, over so many streams of one connection, one by one.
async fn survives(streams: u64, interval: Duration, pause: Pause) {
    let process = Process::start(&[]);
    let mut client = roomy_client(&process).await;
    let mut senders = Vec::new();
    let mut answered = Vec::new();
    for _ in 0..streams {
        let (sender, requests) = mpsc::channel(64);
        senders.push(sender);
        answered.push(
            soon(client.solve_batch(ReceiverStream::new(requests)))
                .await
                .unwrap()
                .into_inner(),
        );
    }
    let of_each = MESSAGES / streams;
    let sending = std::thread::spawn(move || {
        let boards = spread(1_000);
        let started = Instant::now();
        for id in 0..of_each {
            for (stream, sender) in senders.iter().enumerate() {
                let due = interval * (id * streams) as u32 + interval * stream as u32;
                std::thread::sleep(due.saturating_sub(started.elapsed()));
                sender.blocking_send(one_board(id, &boards)).unwrap();
            }
        }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    if let Pause::Server = pause {
        process.signal("-STOP");
    }
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    if let Pause::Server = pause {
        process.signal("-CONT");
    }
    // All at once: each needs the others to be read, or sending would wait.
    let reading = answered.into_iter().map(|mut responses| {
        tokio::spawn(async move {
            for id in 0..of_each {
                assert_eq!(soon(responses.message()).await.unwrap().unwrap().id, id);
            }
            assert!(soon(responses.message()).await.unwrap().is_none());
        })
    });
    for stream in reading.collect::<Vec<_>>() {
        stream.await.unwrap();
    }
    sending.join().unwrap();
}

/// As many as a connection may have open.
const MOST_STREAMS: u64 = 100;

#[tokio::test]
async fn a_paused_server_flat_out() {
    survives(1, Duration::ZERO, Pause::Server).await;
    survives(MOST_STREAMS, Duration::ZERO, Pause::Server).await;
}

#[tokio::test]
async fn a_paused_server_at_10_000_a_second() {
    survives(1, RATE, Pause::Server).await;
}

#[tokio::test]
async fn a_paused_server_at_10_000_a_second_on_all_streams() {
    survives(MOST_STREAMS, RATE, Pause::Server).await;
}

#[tokio::test]
async fn a_paused_client_at_10_000_a_second() {
    survives(1, RATE, Pause::Client).await;
}

#[tokio::test]
async fn a_paused_client_at_10_000_a_second_on_all_streams() {
    survives(MOST_STREAMS, RATE, Pause::Client).await;
}

#[tokio::test]
async fn a_client_with_default_windows_that_pauses_at_10_000_a_second() {
    let server = Server::start().await;
    let (sender, requests) = mpsc::channel(64);
    let mut responses = soon(
        server
            .client()
            .await
            .solve_batch(ReceiverStream::new(requests)),
    )
    .await
    .unwrap()
    .into_inner();
    // What comes one by one is answered one by one, and counts as 256 bytes
    // each with a client that leaves it unread: it would survive 12,000.
    let messages = 40_000;
    let sending = tokio::task::spawn_blocking(move || {
        let boards = spread(1_000);
        let started = Instant::now();
        for id in 0..messages {
            std::thread::sleep((RATE * id as u32).saturating_sub(started.elapsed()));
            sender.blocking_send(one_board(id, &boards)).unwrap();
        }
    });
    soon(sending).await.unwrap();
    for id in 0..messages {
        assert_eq!(soon(responses.message()).await.unwrap().unwrap().id, id);
    }
    assert!(soon(responses.message()).await.unwrap().is_none());
}
