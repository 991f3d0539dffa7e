//! Connections that are idle, and connections that are old.

use std::time::Duration;

use loyd::server::Config;
use loyd::service::Settings;
use loyd::wire::v1::solver_service_client::SolverServiceClient;
use loyd::wire::v1::{SolveBatchRequest, SolveRequest};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::support::{PlainChannel, Server, packed, soon, spread, to_wire};

const SHORT: Duration = Duration::from_millis(200);

async fn start(change: impl FnOnce(&mut Config)) -> Server {
    let mut config = Config::default();
    change(&mut config);
    Server::with(Settings::default(), config).await
}

fn client(server: &Server, channel: &PlainChannel) -> SolverServiceClient<PlainChannel> {
    let origin = format!("http://{}", server.address).parse().unwrap();
    SolverServiceClient::with_origin(channel.clone(), origin)
}

type Open = (
    mpsc::Sender<SolveBatchRequest>,
    tonic::Streaming<loyd::wire::v1::SolveBatchResponse>,
);

async fn open(client: &mut SolverServiceClient<PlainChannel>) -> Open {
    let (sender, requests) = mpsc::channel(1);
    let responses = soon(client.solve_batch(ReceiverStream::new(requests)))
        .await
        .unwrap();
    (sender, responses.into_inner())
}

async fn answers((sender, responses): &mut Open) {
    sender.send(packed(1, &spread(1))).await.unwrap();
    assert_eq!(soon(responses.message()).await.unwrap().unwrap().id, 1);
}

#[tokio::test]
async fn a_connection_without_calls_is_closed_in_peace() {
    let server = start(|config| config.connection.idle_timeout = Some(SHORT)).await;
    let (_channel, ended) = server.plain_connection().await;
    // Not an error: the server says that it goes away.
    soon(ended).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_call_keeps_its_connection() {
    let server = start(|config| config.connection.idle_timeout = Some(SHORT)).await;
    let (channel, ended) = server.plain_connection().await;
    let mut stream = open(&mut client(&server, &channel)).await;
    tokio::time::sleep(4 * SHORT).await;
    answers(&mut stream).await;
    assert!(!ended.is_finished());
    drop(stream);
    soon(ended).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_busy_connection_is_not_idle_between_calls() {
    let server = start(|config| config.connection.idle_timeout = Some(10 * SHORT)).await;
    let (channel, ended) = server.plain_connection().await;
    for _ in 0..13 {
        let mut stream = open(&mut client(&server, &channel)).await;
        answers(&mut stream).await;
        drop(stream);
        tokio::time::sleep(SHORT).await;
    }
    assert!(!ended.is_finished());
}

#[tokio::test]
async fn an_old_connection_takes_no_new_calls_and_ends_its_own() {
    let server = start(|config| {
        config.connection.max_age = Some(SHORT);
        config.max_connections = 1;
    })
    .await;
    let (channel, _) = server.plain_connection().await;
    let mut client = client(&server, &channel);
    let mut stream = open(&mut client).await;
    let request = || SolveRequest {
        board: Some(to_wire(&spread(1)[0])),
        ..SolveRequest::default()
    };
    let refused = async {
        while client.solve(request()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(refused).await;
    answers(&mut stream).await;
    drop(stream);
    // The only place there is for a connection becomes free.
    let channel = Channel::from_shared(format!("http://{}", server.address))
        .unwrap()
        .connect_lazy();
    let mut next = SolverServiceClient::new(channel);
    let served = async {
        while next.solve(request()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(served).await;
}

#[tokio::test]
async fn what_outlasts_the_grace_is_cut() {
    let server = start(|config| {
        config.connection.max_age = Some(SHORT);
        config.connection.max_age_grace = SHORT;
    })
    .await;
    let (channel, _) = server.plain_connection().await;
    let (_sender, mut responses) = open(&mut client(&server, &channel)).await;
    soon(responses.message()).await.unwrap_err();
}
