//! Deadlines end calls with `DEADLINE_EXCEEDED`, and a call that nobody waits
//! for any more stops working.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use loyd::server::Config;
use loyd::service::Settings;
use loyd::wire::v1::{Algorithm, SolveRequest};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::support::{Server, algorithm, batch, packed, soon, spread, square};

/// A request whose deadline the server is told, and this client does not
/// keep itself.
fn with_timeout<T>(message: T, timeout: &str) -> Request<T> {
    let mut request = Request::new(message);
    request
        .metadata_mut()
        .insert("grpc-timeout", timeout.parse().unwrap());
    request
}

#[tokio::test]
async fn a_unary_deadline_is_kept() {
    let server = Server::start().await;
    let mut client = server.plain_client().await;
    let request = || SolveRequest {
        board: Some(square(&[8, 6, 7, 2, 5, 4, 3, 0, 1])),
        goal: None,
        options: algorithm(Algorithm::Bfs),
    };
    let status = soon(client.solve(with_timeout(request(), "1u")))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    let solved = soon(client.solve(with_timeout(request(), "1M")))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(solved.solution.unwrap().length, 31);
}

#[tokio::test]
async fn a_streams_deadline_is_kept_after_its_headers_went() {
    let server = Server::start().await;
    let mut client = server.plain_client().await;
    let (sender, requests) = mpsc::channel(4);
    let request = with_timeout(ReceiverStream::new(requests), "300m");
    let mut responses = soon(client.solve_batch(request))
        .await
        .unwrap()
        .into_inner();
    sender.send(packed(1, &spread(2))).await.unwrap();
    assert_eq!(soon(responses.message()).await.unwrap().unwrap().id, 1);
    // The stream is open and idle until its time is up.
    let status = soon(responses.message()).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
}

#[tokio::test]
async fn a_cancelled_stream_gives_its_threads_back() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let boards = spread(65_536);
    let mut request = packed(1, &boards);
    request.options = algorithm(Algorithm::Bfs);
    // Its work would take a minute or more.
    let mut responses = soon(client.solve_batch(tokio_stream::once(request)))
        .await
        .unwrap()
        .into_inner();
    assert!(soon(responses.message()).await.unwrap().is_some());
    drop(responses);
    let asked = Instant::now();
    let answers = batch(&mut client, vec![packed(2, &boards[..2_000])])
        .await
        .unwrap();
    assert_eq!(answers.last().map(|answer| answer.more), Some(false));
    assert!(
        asked.elapsed() < Duration::from_secs(20),
        "{:?}",
        asked.elapsed()
    );
}

/// A request body that never comes.
struct Never;

impl http_body::Body for Never {
    type Data = bytes::Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<bytes::Bytes>, Status>>> {
        Poll::Pending
    }
}

#[tokio::test]
async fn a_deadline_holds_for_a_request_that_never_comes() {
    let server = Server::start().await;
    let mut channel = server.plain_channel().await;
    let request = hyper::Request::post(format!(
        "http://{}/loyd.v1.SolverService/Solve",
        server.address
    ))
    .header("content-type", "application/grpc")
    .header("grpc-timeout", "100m")
    .body(Body::new(Never))
    .unwrap();
    let response = soon(channel.call(request)).await.unwrap();
    let status = Status::from_header_map(response.headers()).unwrap();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
}

#[tokio::test]
async fn a_deadline_holds_for_a_health_watch() {
    let server = Server::start().await;
    let origin = format!("http://{}", server.address).parse().unwrap();
    let mut client = HealthClient::with_origin(server.plain_channel().await, origin);
    let request = with_timeout(HealthCheckRequest::default(), "200m");
    let mut watch = soon(client.watch(request)).await.unwrap().into_inner();
    assert!(soon(watch.message()).await.unwrap().is_some());
    let status = soon(watch.message()).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
}

#[tokio::test]
async fn the_server_may_have_a_ceiling_of_its_own() {
    let mut config = Config::default();
    config.connection.max_deadline = Some(Duration::from_millis(200));
    let server = Server::with(Settings::default(), config).await;
    let mut client = server.plain_client().await;
    for timeout in [None, Some("1H")] {
        let (_sender, requests) = mpsc::channel(1);
        let mut request = Request::new(ReceiverStream::new(requests));
        if let Some(timeout) = timeout {
            request = with_timeout(request.into_inner(), timeout);
        }
        let mut responses = soon(client.solve_batch(request))
            .await
            .unwrap()
            .into_inner();
        let status = soon(responses.message()).await.unwrap_err();
        assert_eq!(
            status.code(),
            Code::DeadlineExceeded,
            "{timeout:?}: {status:?}"
        );
    }
}
