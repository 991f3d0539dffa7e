//! The log: a line for each call, once it is over.

use std::process::{Command, Stdio};
use std::time::Duration;

use loyd::wire::v1::solve_batch_response::Results;
use loyd::wire::v1::solver_service_client::SolverServiceClient;
use loyd::wire::v1::{Algorithm, SolveRequest};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use tonic::transport::Channel;

use crate::server_life::Process;
use crate::support::{
    PlainChannel, algorithm, batch, list, long, packed, packed_bytes, soon, spread, square,
};

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

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_the_server_cuts_are_unavailable() {
    let ages = [
        "--max-connection-age",
        "300ms",
        "--max-connection-age-grace",
        "300ms",
    ];
    for (options, stops) in [(&["--drain-timeout", "300ms"][..], true), (&ages, false)] {
        let process = Process::logged(&[&JSON[..], options].concat());
        let mut client = client(&process).await;
        let response = soon(client.solve_batch(tokio_stream::once(long()))).await;
        let mut responses = response.unwrap().into_inner();
        soon(responses.message()).await.unwrap().unwrap();
        if stops {
            process.signal("-TERM");
        }
        while let Ok(response) = soon(responses.message()).await {
            response.expect("it is cut long before its end");
        }
        assert_eq!(call_line(&process)["code"], "Unavailable", "{options:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_stream_is_named_and_aborted_though_nobody_reads_that() {
    let process = Process::logged(&[&JSON[..], &["--stall-timeout", "300ms"]].concat());
    let mut client = client(&process).await;
    // More answers than all windows have room for.
    let mut request = packed(1, &spread(65_536));
    request.options = algorithm(Algorithm::GoalTable);
    let mut call = Request::new(tokio_stream::iter(vec![request; 20]));
    let metadata = call.metadata_mut();
    metadata.insert("x-request-id", "order-66".parse().unwrap());
    let responses = soon(client.solve_batch(call)).await.unwrap();
    let line = process.await_log("were not read");
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["method"], "/loyd.v1.SolverService/SolveBatch");
    assert_eq!(line["request_id"], "order-66");
    assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
    drop(responses);
    let line = call_line(&process);
    assert_eq!(line["code"], "Aborted");
    assert_eq!(line["request_id"], "order-66");
}

#[tokio::test]
async fn a_flood_is_counted_and_hides_no_failures() {
    let process = Process::logged(&[&JSON[..], &["--call-log-rate", "1"]].concat());
    let mut client = client(&process).await;
    for _ in 0..50 {
        client.solve(request()).await.unwrap();
    }
    client.solve(SolveRequest::default()).await.unwrap_err();
    // Both within lines that a second or two may have; what is left out is told
    // without a call that would have a line.
    let mut lines = Vec::new();
    let mut left_out = 0;
    while left_out + lines.len() as u64 != 51 {
        let line = call_line(&process);
        match line["left_out"].as_u64() {
            Some(more) => left_out += more,
            None => lines.push(line["code"].as_str().unwrap().to_owned()),
        }
    }
    assert!(left_out > 0 && lines.contains(&"OK".to_owned()));
    assert!(lines.contains(&"InvalidArgument".to_owned()), "{lines:?}");
}

#[tokio::test]
async fn text_is_the_default_and_its_fields_are_quoted() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loyd"));
    command
        .args(["serve", "--listen", "127.0.0.1:0"])
        .env("RUST_LOG", "debug");
    let mut process = Process::run(command, 1, Stdio::piped());
    process.read_log();
    let mut client = client(&process).await;
    // A line that a client makes up stays within its field, and within the span
    // that lines at debug are in.
    let mut call = Request::new(tokio_stream::once(packed(1, &spread(3))));
    let id = "1\" code=\"OK";
    call.metadata_mut()
        .insert("x-request-id", id.parse().unwrap());
    let mut responses = client.solve_batch(call).await.unwrap().into_inner();
    while soon(responses.message()).await.unwrap().is_some() {}
    let line = process.await_log("loyd::call: call ");
    assert!(
        line.contains("method=\"/loyd.v1.SolverService/SolveBatch\""),
        "{line}"
    );
    assert!(line.contains("boards=3"), "{line}");
    let quoted = r#"request_id="1\" code=\"OK""#;
    assert_eq!(line.matches(quoted).count(), 2, "{line}");
    process.signal("-TERM");
    assert_eq!(process.exit_code(), Some(0));
}

/// Whether the text has these tiles in it, however they are parted.
fn has_tiles(text: &str, tiles: &[u32]) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let as_numbers: String = tiles.iter().map(u32::to_string).collect();
    let as_bytes: String = tiles
        .iter()
        .map(|tile| match tile {
            0 => "0".to_owned(),
            tile => format!("{tile:02}"),
        })
        .collect();
    digits.contains(&as_numbers) || digits.contains(&as_bytes)
}

#[tokio::test]
async fn no_board_is_in_the_log() {
    const TILES: [u32; 9] = [8, 6, 7, 2, 5, 4, 3, 0, 1];
    // As lists and bytes are written by `Debug`.
    assert!(has_tiles("tiles: [8, 6, 7, 2, 5, 4, 3, 0, 1]", &TILES));
    assert!(has_tiles(
        r#"b"\x08\x06\x07\x02\x05\x04\x03\0\x01""#,
        &TILES
    ));
    let process = Process::logged(&[]);
    let mut client = client(&process).await;
    let solve = |tiles: &[u32]| SolveRequest {
        board: Some(square(tiles)),
        ..SolveRequest::default()
    };
    client.solve(solve(&TILES)).await.unwrap();
    // One that is wrong as well: the error tells, the log does not.
    let mut wrong = TILES.to_vec();
    wrong.push(9);
    client.solve(solve(&wrong)).await.unwrap_err();
    let tiles = TILES.map(|tile| tile as u8).to_vec();
    let requests = vec![
        packed_bytes(1, tiles.clone()),
        packed_bytes(2, [tiles, vec![8]].concat()),
        list(3, vec![square(&TILES), square(&wrong)]),
    ];
    batch(&mut client, requests).await.unwrap();
    process.signal("-TERM");
    let log = process.rest_of_log();
    assert_eq!(
        log.iter()
            .filter(|line| line.contains("loyd::call"))
            .count(),
        3
    );
    for line in log {
        assert!(!has_tiles(&line, &TILES), "{line}");
    }
}

#[test]
fn a_format_that_is_none_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_loyd"))
        .args(["serve", "--log-format", "xml"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("text, json"));
}
