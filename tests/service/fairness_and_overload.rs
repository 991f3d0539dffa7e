//! Too much work slows streams down and refuses unary calls; a long batch does
//! not hold back a short one.

use std::time::Duration;

use loyd::server::Config;
use loyd::service::Settings;
use loyd::wire::v1::{Algorithm, ErrorReason, SolveRequest};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;
use tonic_types::StatusExt;

use crate::support::{Server, algorithm, batch, packed, soon, spread, square};

/// One thread, so that what waits is told by order and not by luck.
fn one_thread(queued_work: Duration) -> Settings {
    Settings {
        compute_threads: 1.try_into().unwrap(),
        queued_work,
        ..Settings::default()
    }
}

fn slow(id: u64, boards: usize) -> loyd::wire::v1::SolveBatchRequest {
    let mut request = packed(id, &spread(boards));
    request.options = algorithm(Algorithm::Bfs);
    request
}

#[tokio::test]
async fn over_the_limit_unary_is_refused_and_a_stream_goes_on() {
    let settings = one_thread(Duration::from_millis(2));
    let server = Server::with(settings, Config::default()).await;
    let (sender, requests) = mpsc::channel(1);
    let mut client = server.client().await;
    let mut responses = soon(client.solve_batch(ReceiverStream::new(requests)))
        .await
        .unwrap()
        .into_inner();
    sender.send(slow(1, 2_000)).await.unwrap();
    // The first answer shows that the queue is full; it stays so for seconds.
    let mut boards = count(&soon(responses.message()).await.unwrap().unwrap());
    let request = SolveRequest {
        board: Some(square(&[1, 2, 3, 4, 5, 6, 7, 0, 8])),
        goal: None,
        options: None,
    };
    let status = soon(client.solve(request.clone())).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    let details = status.get_error_details();
    let reason = ErrorReason::Overloaded
        .as_str_name()
        .strip_prefix("ERROR_REASON_")
        .unwrap();
    assert_eq!(details.error_info().unwrap().reason, reason);
    assert!(details.retry_info().unwrap().retry_delay.is_some());
    // The stream loses nothing, and once it is done there is room again.
    drop(sender);
    while let Some(response) = soon(responses.message()).await.unwrap() {
        boards += count(&response);
    }
    assert_eq!(boards, 2_000);
    assert!(soon(client.solve(request)).await.is_ok());
}

fn count(response: &loyd::wire::v1::SolveBatchResponse) -> usize {
    match &response.results {
        Some(loyd::wire::v1::solve_batch_response::Results::Packed(packed)) => {
            packed.outcomes.len()
        }
        other => panic!("packed boards are answered packed: {other:?}"),
    }
}

#[tokio::test]
async fn a_long_batch_does_not_hold_back_a_short_one() {
    let settings = one_thread(Duration::from_secs(10));
    let server = Server::with(settings, Config::default()).await;
    let mut long_client = server.client().await;
    let mut long = soon(long_client.solve_batch(tokio_stream::once(slow(1, 65_536))))
        .await
        .unwrap()
        .into_inner();
    let first = soon(long.message()).await.unwrap().unwrap();
    let before = count(&first);
    // By a slow method too, so that it has to take its turn.
    let answers = batch(&mut server.client().await, vec![slow(2, 1)])
        .await
        .unwrap();
    assert_eq!((answers.len(), count(&answers[0])), (1, 1));
    // What the long one was given meanwhile is what was ready before, and its
    // turns: far from all of it.
    let mut meanwhile = before;
    while let Ok(response) = tokio::time::timeout(Duration::from_millis(1), long.message()).await {
        meanwhile += count(&response.unwrap().unwrap());
    }
    assert!(meanwhile < 1_000, "{meanwhile}");
}

#[tokio::test]
async fn equal_streams_get_equal_shares() {
    let settings = one_thread(Duration::from_secs(10));
    let server = Server::with(settings, Config::default()).await;
    let boards = 1_500;
    let mut streams = Vec::new();
    for id in [1, 2] {
        let mut client = server.client().await;
        let requests = tokio_stream::once(slow(id, boards));
        streams.push(
            soon(client.solve_batch(requests))
                .await
                .unwrap()
                .into_inner(),
        );
    }
    let (mut second, mut first) = (streams.pop().unwrap(), streams.pop().unwrap());
    let (mut of_first, mut of_second) = (0, 0);
    let (mut ended, mut other) = loop {
        tokio::select! {
            response = first.message() => match response.unwrap() {
                Some(response) => of_first += count(&response),
                None => break (of_first, of_second),
            },
            response = second.message() => match response.unwrap() {
                Some(response) => of_second += count(&response),
                None => break (of_second, of_first),
            },
        }
    };
    if ended < other {
        std::mem::swap(&mut ended, &mut other);
    }
    assert_eq!(ended, boards);
    assert!(other * 10 >= boards * 8, "{other} of {boards}");
}
