//! Whatever clients do, the server keeps a bounded amount, and a polite client
//! beside them is answered meanwhile.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use loyd::wire::v1::solver_service_client::SolverServiceClient;
use loyd::wire::v1::{Algorithm, SolveBatchRequest};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::CompressionEncoding;
use tonic::transport::Channel;

use crate::frames;
use crate::server_life::Process;
use crate::support::{algorithm, batch, packed, packed_bytes, soon, spread};

/// What a server keeps of its own: program, threads, goal tables, workspaces.
pub const BASE: u64 = 100 << 20;

/// Resident memory of a process, in bytes.
fn resident(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.child.id())).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        << 10
}

/// Watches the server for a while, with a polite client that asks all the time.
pub async fn watch(process: &Process, ceiling: u64) {
    let mut polite = SolverServiceClient::connect(process.uri.clone())
        .await
        .unwrap();
    let started = Instant::now();
    let mut most = 0;
    while started.elapsed() < Duration::from_secs(2) {
        let answers = batch(&mut polite, vec![packed(1, &spread(10))])
            .await
            .unwrap();
        assert_eq!(answers.len(), 1);
        most = most.max(resident(process));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(
        most < ceiling,
        "{} MiB of {} MiB",
        most >> 20,
        ceiling >> 20
    );
}

/// A stream that sends as long as it is let, and never reads.
async fn never_reading(mut client: SolverServiceClient<Channel>, request: SolveBatchRequest) {
    let (sender, requests) = mpsc::channel(1);
    let _responses = soon(client.solve_batch(ReceiverStream::new(requests)))
        .await
        .unwrap();
    while sender.send(request.clone()).await.is_ok() {}
}

async fn streams_that_never_read(request: SolveBatchRequest, ceiling: u64) {
    never_read(request, None, ceiling).await;
}

async fn never_read(
    request: SolveBatchRequest,
    encoding: Option<CompressionEncoding>,
    ceiling: u64,
) {
    let process = Process::start(&[]);
    let mut client = SolverServiceClient::connect(process.uri.clone())
        .await
        .unwrap();
    if let Some(encoding) = encoding {
        client = client.send_compressed(encoding);
    }
    let streams: Vec<_> = (0..64)
        .map(|_| tokio::spawn(never_reading(client.clone(), request.clone())))
        .collect();
    watch(&process, ceiling).await;
    for stream in streams {
        assert!(
            !stream.is_finished(),
            "it is held up, and its stream is not lost"
        );
        stream.abort();
    }
}

#[tokio::test]
async fn streams_of_large_messages_that_never_read() {
    let mut request = packed(1, &spread(65_536));
    request.options = algorithm(Algorithm::GoalTable);
    // At most so much of each: its message, and the answers to its pieces.
    streams_that_never_read(request, BASE + 64 * (6 << 20)).await;
}

#[tokio::test]
async fn streams_of_small_messages_that_never_read() {
    let mut request = packed(1, &spread(1));
    request.options = algorithm(Algorithm::GoalTable);
    streams_that_never_read(request, BASE + 64 * (1 << 20)).await;
}

#[tokio::test]
async fn streams_of_small_messages_that_grow_when_they_are_read() {
    // A few kilobytes on the wire. It has too many boards, and a short answer.
    let request = packed_bytes(1, vec![0; 4_000_000]);
    // At most so much of each: its message, as it is read.
    let ceiling = BASE + 64 * (8 << 20);
    never_read(request, Some(CompressionEncoding::Gzip), ceiling).await;
}

#[tokio::test]
async fn a_thousand_idle_streams() {
    let process = Process::start(&[]);
    let mut open = Vec::new();
    for _ in 0..10 {
        let client = SolverServiceClient::connect(process.uri.clone())
            .await
            .unwrap();
        for _ in 0..100 {
            let mut client = client.clone();
            let (sender, requests) = mpsc::channel(1);
            let mut responses = soon(client.solve_batch(ReceiverStream::new(requests)))
                .await
                .unwrap()
                .into_inner();
            sender.send(packed(1, &spread(1))).await.unwrap();
            assert!(soon(responses.message()).await.unwrap().is_some());
            open.push((sender, responses));
        }
    }
    watch(&process, BASE + 1_000 * (64 << 10)).await;
}

#[tokio::test]
async fn a_message_that_is_announced_as_4_gib() {
    let process = Process::start(&[]);
    let address = process.uri.strip_prefix("http://").unwrap().to_owned();
    let mut peers = Vec::new();
    for _ in 0..16 {
        let mut peer = TcpStream::connect(&address).unwrap();
        peer.write_all(&announcement(&address)).unwrap();
        peers.push(peer);
    }
    watch(&process, BASE).await;
}

/// By hand: a connection with one call whose message says it has 4 GiB - 1.
fn announcement(authority: &str) -> Vec<u8> {
    [
        frames::hello(),
        frames::call(1, authority, "/loyd.v1.SolverService/SolveBatch"),
        frames::frame(frames::DATA, 0, 1, &[0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3]),
    ]
    .concat()
}
