//! The log: a line for each call, once it is over.

use std::process::Stdio;
use std::time::Duration;

use loyd::wire::v1::SolveRequest;
use loyd::wire::v1::solve_batch_response::Results;
use loyd::wire::v1::solver_service_client::SolverServiceClient;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use tonic::transport::Channel;

use crate::server_life::Process;
use crate::support::{PlainChannel, batch, long, packed, soon, spread, square};

const JSON: [&str; 2] = ["--log-format", "json"];

async fn client(process: &Process) -> SolverServiceClient<Channel> {
    SolverServiceClient::connect(process.uri.clone())
        .await
        .unwrap()
}

/// The next line of a call, as an object.
fn call_line(process: &Process) -> Value {
    serde_json::from_str(&process.await_log("\"loyd::call\"")).unwrap()
}

fn request() -> SolveRequest {
    SolveRequest {
        board: Some(square(&[1, 2, 3, 4, 5, 6, 7, 0, 8])),
        goal: None,
        options: None,
    }
}

#[tokio::test]
async fn a_call_is_a_line_that_says_how_it_went() {
    let process = Process::logged(&JSON);
    let mut client = client(&process).await;
    let mut call = Request::new(request());
    let metadata = call.metadata_mut();
    metadata.insert("x-request-id", "order-66".parse().unwrap());
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    metadata.insert("traceparent", parent.parse().unwrap());
    client.solve(call).await.unwrap();
    let line = call_line(&process);
    assert_eq!(line["level"], "INFO");
    assert_eq!(line["method"], "/loyd.v1.SolverService/Solve");
    assert_eq!(line["code"], "OK");
    assert_eq!(line["boards"], 1);
    assert_eq!(line["request_id"], "order-66");
    assert_eq!(line["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert!(line["seconds"].as_f64().unwrap() > 0.0);
    // Faults of the request are no faults of the log, and ids differ.
    client.solve(SolveRequest::default()).await.unwrap_err();
    client.solve(SolveRequest::default()).await.unwrap_err();
    let (first, second) = (call_line(&process), call_line(&process));
    assert_eq!(first["code"], "InvalidArgument");
    assert_eq!(first["boards"], 0);
    assert_ne!(first["request_id"], second["request_id"]);
    assert_eq!(first.get("trace_id"), None);
}

#[tokio::test]
async fn a_streams_line_comes_at_its_end() {
    let process = Process::logged(&JSON);
    let mut client = client(&process).await;
    let (sender, requests) = mpsc::channel(1);
    let response = soon(client.solve_batch(ReceiverStream::new(requests))).await;
    let mut responses = response.unwrap().into_inner();
    sender.send(packed(1, &spread(100))).await.unwrap();
    soon(responses.message()).await.unwrap().unwrap();
    // The line of a later call comes before.
    client.solve(request()).await.unwrap();
    assert_eq!(
        call_line(&process)["method"],
        "/loyd.v1.SolverService/Solve"
    );
    drop(sender);
    assert!(soon(responses.message()).await.unwrap().is_none());
    let line = call_line(&process);
    assert_eq!(line["method"], "/loyd.v1.SolverService/SolveBatch");
    assert_eq!(line["code"], "OK");
    assert_eq!(line["boards"], 100);
}

// Waiting for a line blocks a thread: the client, to go, needs another.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_whose_client_is_gone_is_canceled() {
    let process = Process::logged(&JSON);
    let mut client = client(&process).await;
    let mut responses = soon(client.solve_batch(tokio_stream::once(long())))
        .await
        .unwrap()
        .into_inner();
    let first = soon(responses.message()).await.unwrap().unwrap();
    let Some(Results::Packed(first)) = first.results else {
        panic!("{first:?}");
    };
    drop(responses);
    let line = call_line(&process);
    assert_eq!(line["code"], "Canceled");
    assert!(line["boards"].as_u64().unwrap() >= first.outcomes.len() as u64);
}

#[tokio::test]
async fn a_deadline_is_told_as_one_whoever_notices_it_first() {
    let process = Process::logged(&JSON);
    let address = process.address().parse().unwrap();
    let origin = process.uri.parse().unwrap();
    let plain = PlainChannel::to(address).await;
    let mut plain = SolverServiceClient::with_origin(plain, origin);
    let mut keeping = client(&process).await;
    // One client leaves it to the server; the other gives up by itself.
    let (_open, never) = mpsc::channel(1);
    let mut call = Request::new(ReceiverStream::new(never));
    let timeout = "300m".parse().unwrap();
    call.metadata_mut().insert("grpc-timeout", timeout);
    let mut responses = soon(plain.solve_batch(call)).await.unwrap().into_inner();
    soon(responses.message()).await.unwrap_err();
    assert_eq!(call_line(&process)["code"], "DeadlineExceeded");
    let (_open, never) = mpsc::channel(1);
    let mut call = Request::new(ReceiverStream::new(never));
    call.set_timeout(Duration::from_millis(300));
    let mut responses = soon(keeping.solve_batch(call)).await.unwrap().into_inner();
    soon(responses.message()).await.unwrap_err();
    assert_eq!(call_line(&process)["code"], "DeadlineExceeded");
}

#[tokio::test]
async fn a_flood_is_counted_and_hides_no_failures() {
    let process = Process::logged(&[&JSON[..], &["--call-log-rate", "1"]].concat());
    let mut client = client(&process).await;
    for _ in 0..50 {
        client.solve(request()).await.unwrap();
    }
    client.solve(SolveRequest::default()).await.unwrap_err();
    // Both within lines that a second or two may have.
    let mut codes = Vec::new();
    while codes.last().is_none_or(|code| code != "InvalidArgument") {
        let line = call_line(&process);
        if let Some(code) = line["code"].as_str() {
            codes.push(code.to_owned());
        }
        assert!(codes.len() < 40, "{codes:?}");
    }
    process.signal("-TERM");
    // What is left to tell comes at the latest with the end.
    let line: Value = serde_json::from_str(&process.await_log("left_out")).unwrap();
    assert!(line["left_out"].as_u64().unwrap() > 0, "{line}");
}

#[tokio::test]
async fn no_board_is_in_the_log_and_text_is_the_default() {
    let mut process = Process::logged(&[]);
    let mut client = client(&process).await;
    batch(&mut client, vec![packed(1, &spread(3))])
        .await
        .unwrap();
    let line = process.await_log("loyd::call");
    assert!(
        line.contains("method=\"/loyd.v1.SolverService/SolveBatch\""),
        "{line}"
    );
    assert!(line.contains("boards=3"), "{line}");
    // A line that a client makes up stays within its field.
    let mut call = Request::new(request());
    let id = "1\" code=\"OK";
    call.metadata_mut()
        .insert("x-request-id", id.parse().unwrap());
    client.solve(call).await.unwrap();
    let line = process.await_log("loyd::call");
    assert!(line.contains(r#"request_id="1\" code=\"OK""#), "{line}");
    process.signal("-TERM");
    assert_eq!(process.exit_code(), Some(0));
}

#[test]
fn a_format_that_is_none_is_refused() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_loyd"))
        .args(["serve", "--log-format", "xml"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("text, json"));
}
