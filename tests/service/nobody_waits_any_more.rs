//! A call that is cancelled or whose connection is lost leaves no work behind;
//! a half-close is neither, and every answer still comes.

use std::fs;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use loyd::service::NAME;
use loyd::wire::v1::Algorithm;
use loyd::wire::v1::solver_service_client::SolverServiceClient;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::codegen::Service;

use crate::server_life::Process;
use crate::support::{PlainChannel, algorithm, long, packed, soon, spread};

/// What a server may do in the second after nobody waits any more: the pieces
/// that were being solved, and what it does when it is idle.
const LEFT_OVER: Duration = Duration::from_millis(50);

/// The CPU time of all threads of a process so far.
fn cpu(process: &Process) -> Duration {
    let threads = fs::read_dir(format!("/proc/{}/task", process.child.id())).unwrap();
    let spent = threads.map(|thread| {
        let path = thread.unwrap().path().join("schedstat");
        let stat = fs::read_to_string(path).unwrap();
        let spent = stat.split_whitespace().next().unwrap();
        Duration::from_nanos(spent.parse().unwrap())
    });
    spent.sum()
}

async fn assert_idle(process: &Process) {
    let before = cpu(process);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let spent = cpu(process) - before;
    assert!(spent < LEFT_OVER, "{spent:?}");
}

/// A request's body: what is sent, until an error resets the stream.
struct Sent(mpsc::Receiver<Result<Bytes, Status>>);

impl Body for Sent {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let sent = self.0.poll_recv(context);
        sent.map(|sent| sent.map(|bytes| bytes.map(Frame::data)))
    }
}

#[tokio::test]
async fn a_reset_leaves_no_work() {
    let process = Process::start(&[]);
    let address = process.uri.strip_prefix("http://").unwrap();
    let mut channel = PlainChannel::to(address.parse().unwrap()).await;
    let (sender, sent) = mpsc::channel(1);
    let request = hyper::Request::post(format!("{}/{NAME}/SolveBatch", process.uri))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(tonic::body::Body::new(Sent(sent)))
        .unwrap();
    let mut response = soon(channel.call(request)).await.unwrap();
    let mut message = vec![0];
    message.extend((long().encoded_len() as u32).to_be_bytes());
    long().encode(&mut message).unwrap();
    sender.send(Ok(message.into())).await.unwrap();
    let mut frame = poll_fn(|context| Pin::new(response.body_mut()).poll_frame(context));
    assert!(soon(&mut frame).await.unwrap().unwrap().is_data());
    // tonic's own client says nothing while its requests may still come.
    let reset = Err(Status::cancelled("no more"));
    sender.send(reset).await.unwrap();
    assert_idle(&process).await;
}

#[tokio::test]
async fn a_cancelled_stream_that_was_half_closed_leaves_no_work() {
    let process = Process::start(&[]);
    let mut client = SolverServiceClient::connect(process.uri.clone())
        .await
        .unwrap();
    let mut responses = soon(client.solve_batch(tokio_stream::once(long())))
        .await
        .unwrap()
        .into_inner();
    assert!(soon(responses.message()).await.unwrap().is_some());
    drop(responses);
    assert_idle(&process).await;
}

#[test]
fn a_lost_connection_leaves_no_work() {
    let process = Process::start(&[]);
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let client = runtime();
    let open = client.block_on(async {
        let mut client = SolverServiceClient::connect(process.uri.clone())
            .await
            .unwrap();
        let (sender, requests) = mpsc::channel(1);
        let mut responses = soon(client.solve_batch(ReceiverStream::new(requests)))
            .await
            .unwrap()
            .into_inner();
        sender.send(long()).await.unwrap();
        assert!(soon(responses.message()).await.unwrap().is_some());
        (sender, responses)
    });
    // With its tasks the socket closes, and nothing was said on HTTP/2.
    drop(client);
    drop(open);
    runtime().block_on(assert_idle(&process));
}

#[tokio::test]
async fn a_half_close_leaves_every_answer() {
    let process = Process::start(&[]);
    let mut client = SolverServiceClient::connect(process.uri.clone())
        .await
        .unwrap();
    let mut slow = packed(1, &spread(2_000));
    slow.options = algorithm(Algorithm::Bfs);
    // Half-closed while nearly all of it is still to be solved.
    let mut responses = soon(client.solve_batch(tokio_stream::once(slow)))
        .await
        .unwrap()
        .into_inner();
    let mut last = None;
    while let Some(response) = soon(responses.message()).await.unwrap() {
        last = Some((response.first_board, response.more));
    }
    let (first_board, more) = last.unwrap();
    assert!(!more && first_board > 1_000, "{first_board}");
    assert_idle(&process).await;
}
