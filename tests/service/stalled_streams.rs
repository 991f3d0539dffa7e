//! A stream whose answers nobody reads is ended with `ABORTED`: what it held
//! is free again, and its connection goes on. One that is merely idle or slow
//! is left alone.

use std::time::Duration;

use loyd::server::Config;
use loyd::service::Settings;
use loyd::wire::v1::solver_service_client::SolverServiceClient;
use loyd::wire::v1::{Algorithm, SolveBatchRequest, SolveBatchResponse};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Streaming};

use crate::server_life::Process;
use crate::support::{Server, algorithm, batch, packed, soon, spread};

/// Small windows: a client that does not read is soon out of room.
async fn client(uri: String) -> SolverServiceClient<Channel> {
    client_with(uri, 64 << 10).await
}

async fn client_with(uri: String, window: u32) -> SolverServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(uri).unwrap();
    let endpoint = endpoint
        .initial_stream_window_size(window)
        .initial_connection_window_size(16 << 20);
    SolverServiceClient::new(endpoint.connect().await.unwrap())
}

async fn server(stall_timeout: Duration) -> Server {
    let settings = Settings {
        stall_timeout,
        ..Settings::default()
    };
    Server::with(settings, Config::default()).await
}

/// A stream on which these requests are sent at once.
async fn open(
    client: &mut SolverServiceClient<Channel>,
    first: Vec<SolveBatchRequest>,
) -> (
    mpsc::Sender<SolveBatchRequest>,
    Streaming<SolveBatchResponse>,
) {
    let (sender, requests) = mpsc::channel(first.len().max(1));
    for request in first {
        sender.send(request).await.unwrap();
    }
    let responses = soon(client.solve_batch(ReceiverStream::new(requests))).await;
    (sender, responses.unwrap().into_inner())
}

fn by_table(id: u64, boards: usize) -> SolveBatchRequest {
    let mut request = packed(id, &spread(boards));
    request.options = algorithm(Algorithm::GoalTable);
    request
}

#[tokio::test]
async fn a_client_that_writes_all_before_it_reads_is_told() {
    let process = Process::start(&["--stall-timeout", "300ms"]);
    let mut client = client(process.uri.clone()).await;
    let (sender, mut responses) = open(&mut client, Vec::new()).await;
    let messages = 20_000;
    let writing = tokio::spawn(async move {
        for id in 0..messages {
            sender.send(by_table(id, 1)).await.unwrap();
        }
    });
    // Far more than windows and buffers have room for: it comes to an end only
    // because the server takes it, once it has given the stream up.
    soon(writing).await.unwrap();
    assert_eq!(
        batch(&mut client, vec![by_table(1, 9)])
            .await
            .unwrap()
            .len(),
        1
    );
    // What was on its way comes first, without a gap.
    let mut answered = 0;
    let status = loop {
        match soon(responses.message()).await {
            Ok(response) => assert_eq!(response.unwrap().id, answered),
            Err(status) => break status,
        }
        answered += 1;
    };
    assert_eq!(status.code(), Code::Aborted, "{status:?}");
    assert!(
        status.message().contains("not read for 300ms"),
        "{status:?}"
    );
    assert!((1..messages).contains(&answered), "{answered}");
    assert_eq!(
        batch(&mut client, vec![by_table(2, 9)])
            .await
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn a_few_unread_answers_are_told_of_as_many_are() {
    let process = Process::start(&["--stall-timeout", "300ms"]);
    // Less than an answer: what is left of them waits in the server's
    // connection, and the stream itself has nothing left to say.
    let mut client = client_with(process.uri.clone(), 10).await;
    for answers in [1, 5, 100] {
        let requests = (0..answers).map(|id| by_table(id, 1)).collect();
        let (_sender, mut responses) = open(&mut client, requests).await;
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        for id in 0..answers {
            assert_eq!(soon(responses.message()).await.unwrap().unwrap().id, id);
        }
        let status = soon(responses.message()).await.unwrap_err();
        assert_eq!(status.code(), Code::Aborted, "{status:?}");
    }
}

/// Streams that were ended with a few answers unread, and are still open.
async fn ended_streams(
    client: &mut SolverServiceClient<Channel>,
    count: u64,
) -> Vec<(
    mpsc::Sender<SolveBatchRequest>,
    Streaming<SolveBatchResponse>,
)> {
    let mut streams = Vec::new();
    for id in 0..count {
        streams.push(open(client, vec![by_table(id, 1)]).await);
    }
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    streams
}

#[tokio::test]
async fn cancelled_streams_make_room_though_they_were_ended() {
    let process = Process::start(&["--stall-timeout", "300ms", "--max-streams", "10"]);
    let mut client = client_with(process.uri.clone(), 10).await;
    drop(ended_streams(&mut client, 10).await);
    for id in 0..10 {
        let answered = soon(batch(&mut client, vec![by_table(id, 9)])).await;
        assert_eq!(answered.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_client_goes_on_writing_to_a_stream_that_was_ended() {
    let process = Process::start(&["--stall-timeout", "300ms"]);
    let mut client = client_with(process.uri.clone(), 10).await;
    let (sender, mut responses) = ended_streams(&mut client, 1).await.remove(0);
    // Several times what the stream's window has room for.
    for id in 0..10_000 {
        soon(sender.send(by_table(id, 1))).await.unwrap();
    }
    assert_eq!(soon(responses.message()).await.unwrap().unwrap().id, 0);
    let status = soon(responses.message()).await.unwrap_err();
    assert_eq!(status.code(), Code::Aborted, "{status:?}");
}

#[tokio::test]
async fn one_that_reads_in_crumbs_goes_on() {
    let process = Process::start(&["--stall-timeout", "400ms"]);
    let mut client = client_with(process.uri.clone(), 64).await;
    let requests = (0..20).map(|id| by_table(id, 1)).collect();
    let (sender, mut responses) = open(&mut client, requests).await;
    // All of them are one frame, of which the window lets an answer through.
    for id in 0..20 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        assert_eq!(soon(responses.message()).await.unwrap().unwrap().id, id);
    }
    drop(sender);
    assert!(soon(responses.message()).await.unwrap().is_none());
}

#[tokio::test]
async fn an_idle_stream_goes_on() {
    let server = server(Duration::from_millis(200)).await;
    let mut client = server.client().await;
    let (sender, mut responses) = open(&mut client, Vec::new()).await;
    for id in 0..3 {
        sender.send(by_table(id, 3)).await.unwrap();
        assert_eq!(soon(responses.message()).await.unwrap().unwrap().id, id);
        tokio::time::sleep(Duration::from_millis(800)).await;
    }
    drop(sender);
    assert!(soon(responses.message()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_slow_reader_goes_on() {
    let server = server(Duration::from_secs(1)).await;
    let mut client = client(format!("http://{}", server.address)).await;
    // Each answer fills the client's window.
    let requests: Vec<_> = (0..12).map(|id| by_table(id, 8_192)).collect();
    let mut responses = soon(client.solve_batch(tokio_stream::iter(requests)))
        .await
        .unwrap()
        .into_inner();
    for id in 0..12 {
        assert_eq!(soon(responses.message()).await.unwrap().unwrap().id, id);
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    assert!(soon(responses.message()).await.unwrap().is_none());
}

#[tokio::test]
async fn nothing_is_cut_off_where_every_answer_was_ready() {
    let server = server(Duration::from_millis(200)).await;
    let mut client = client(format!("http://{}", server.address)).await;
    // The first fills the client's window, the second waits behind it, and
    // only the status is missing.
    let requests: Vec<_> = (0..2).map(|id| by_table(id, 8_192)).collect();
    let mut responses = soon(client.solve_batch(tokio_stream::iter(requests)))
        .await
        .unwrap()
        .into_inner();
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    for id in 0..2 {
        assert_eq!(soon(responses.message()).await.unwrap().unwrap().id, id);
    }
    assert!(soon(responses.message()).await.unwrap().is_none());
}

#[tokio::test]
async fn the_least_limits_in_flight_still_let_everything_through() {
    let settings = Settings {
        messages_in_flight: 1.try_into().unwrap(),
        bytes_in_flight: 1.try_into().unwrap(),
        ..Settings::default()
    };
    let server = Server::with(settings, Config::default()).await;
    let requests: Vec<_> = (0..30).map(|id| packed(id, &spread(400))).collect();
    let responses = batch(&mut server.client().await, requests).await.unwrap();
    let whole = responses.iter().filter(|response| !response.more);
    assert!(whole.map(|response| response.id).eq(0..30));
}
