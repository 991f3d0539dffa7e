//! A client that does not read is not read from; nothing of its stream is
//! lost, and nobody beside it is held up.

use std::time::Duration;

use loyd::puzzle::Board;
use loyd::wire::v1::solver_service_client::SolverServiceClient;
use loyd::wire::v1::{Algorithm, SolveBatchRequest};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};

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
