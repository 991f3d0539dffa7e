//! What is counted, as Prometheus reads it.
//!
//! Waiting for a value blocks a thread, so the client has others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hyper::Request;
use loyd::puzzle::{Board, Problem};
use loyd::wire::v1::solver_service_client::SolverServiceClient;
use loyd::wire::v1::{Algorithm, SolveOptions, SolveRequest};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::transport::Channel;

use crate::admin::{ADMIN, get};
use crate::server_life::Process;
use crate::support::{
    PATIENCE, PlainChannel, algorithm, batch, list, long, packed, soon, spread, square,
};

const SOLVE: &str =
    r#"{grpc_method="Solve",grpc_service="loyd.v1.SolverService",grpc_type="unary"}"#;
const BATCH: &str =
    r#"{grpc_method="SolveBatch",grpc_service="loyd.v1.SolverService",grpc_type="bidi_stream"}"#;

/// The same with a code.
fn with_code(call: &str, code: &str) -> String {
    call.replacen('{', &format!("{{grpc_code=\"{code}\","), 1)
}

/// A server, and the address of its metrics.
struct Counted {
    process: Process,
    admin: String,
}

impl Counted {
    fn start(more: &[&str]) -> Counted {
        let mut process = Process::start(&[&ADMIN[..], more].concat());
        let admin = process.admin_address();
        Counted { process, admin }
    }

    async fn client(&self) -> SolverServiceClient<Channel> {
        let uri = self.process.uri.clone();
        SolverServiceClient::connect(uri).await.unwrap()
    }

    /// Every series, by its name and labels.
    fn scrape(&self) -> BTreeMap<String, f64> {
        let (status, text) = get(&self.admin, "/metrics");
        assert_eq!(status, 200);
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| {
                let (series, value) = line.rsplit_once(' ').unwrap();
                (series.to_owned(), value.parse().unwrap())
            })
            .collect()
    }

    /// Waits until a series has this value: a call is counted when it is over,
    /// which its client may know first.
    fn await_value(&self, series: &str, value: f64) {
        self.await_that(series, |found| found == value);
    }

    /// Waits until a series has such a value.
    fn await_that(&self, series: &str, is_such: impl Fn(f64) -> bool) {
        let asked = Instant::now();
        loop {
            let all = self.scrape();
            let found = all.get(series);
            if found.copied().is_some_and(&is_such) {
                return;
            }
            assert!(
                asked.elapsed() < PATIENCE,
                "{series}: {found:?} in {all:#?}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn solve(tiles: &[u32]) -> SolveRequest {
    SolveRequest {
        board: Some(square(tiles)),
        goal: None,
        options: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_counted_by_method_and_code() {
    let server = Counted::start(&[]);
    let mut client = server.client().await;
    for _ in 0..3 {
        client
            .solve(solve(&[1, 2, 3, 4, 5, 6, 7, 0, 8]))
            .await
            .unwrap();
    }
    client.solve(solve(&[1, 2, 3])).await.unwrap_err();
    let requests = (0..5).map(|id| packed(id, &spread(2))).collect();
    assert_eq!(batch(&mut client, requests).await.unwrap().len(), 5);
    for (series, value) in [
        (format!("grpc_server_started_total{SOLVE}"), 4.0),
        (
            format!("grpc_server_handled_total{}", with_code(SOLVE, "OK")),
            3.0,
        ),
        (
            format!(
                "grpc_server_handled_total{}",
                with_code(SOLVE, "InvalidArgument")
            ),
            1.0,
        ),
        (format!("grpc_server_msg_received_total{SOLVE}"), 4.0),
        (format!("grpc_server_msg_sent_total{SOLVE}"), 3.0),
        (format!("grpc_server_handling_seconds_count{SOLVE}"), 4.0),
        (format!("grpc_server_started_total{BATCH}"), 1.0),
        (
            format!("grpc_server_handled_total{}", with_code(BATCH, "OK")),
            1.0,
        ),
        (format!("grpc_server_msg_received_total{BATCH}"), 5.0),
        (format!("grpc_server_msg_sent_total{BATCH}"), 5.0),
        ("loyd_connections".to_owned(), 1.0),
        ("loyd_connections_accepted_total".to_owned(), 1.0),
        ("loyd_calls_in_flight".to_owned(), 0.0),
        ("loyd_serving".to_owned(), 1.0),
        ("loyd_draining".to_owned(), 0.0),
    ] {
        server.await_value(&series, value);
    }
    drop(client);
    server.await_value("loyd_connections", 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_clients_make_up_make_no_series() {
    let server = Counted::start(&[]);
    let before = server.scrape();
    let address = server.process.address().parse().unwrap();
    let mut channel = PlainChannel::to(address).await;
    for number in 0..10 {
        let uri = format!("http://{address}/loyd.v1.SolverService/Made{number}");
        let call = Request::post(uri)
            .header("content-type", "application/grpc")
            .body(Body::empty())
            .unwrap();
        let response = soon(channel.call(call)).await.unwrap();
        assert_eq!(response.headers()["grpc-status"], "12");
    }
    let unknown = r#"{grpc_code="Unimplemented",grpc_method="unknown",grpc_service="unknown",grpc_type="unknown"}"#;
    server.await_value(&format!("grpc_server_handled_total{unknown}"), 10.0);
    let after = server.scrape();
    assert!(before.keys().eq(after.keys()));
}

#[tokio::test(flavor = "multi_thread")]
async fn boards_are_counted_by_method_and_outcome() {
    let server = Counted::start(&[]);
    let mut client = server.client().await;
    let boards = spread(1_000);
    let can_be_solved = |board: &&Board| Problem::to_standard_goal(**board).is_solvable();
    let solvable = boards.iter().filter(can_be_solved).count() as f64;
    let unsolvable = 1_000.0 - solvable;
    let mut by_table = packed(1, &boards);
    by_table.options = algorithm(Algorithm::GoalTable);
    let mut limited = packed(2, &boards);
    limited.options = Some(SolveOptions {
        algorithm: Algorithm::Bfs.into(),
        max_expanded: 1,
        ..SolveOptions::default()
    });
    let listed = list(3, vec![square(&[1, 2, 3, 4, 5, 6, 7, 0, 8]), square(&[1])]);
    batch(&mut client, vec![by_table, limited, listed])
        .await
        .unwrap();
    client
        .solve(solve(&[1, 2, 3, 4, 5, 6, 0, 7, 8]))
        .await
        .unwrap();
    for (algorithm, outcome, boards) in [
        ("goal_table", "solved", solvable),
        ("goal_table", "unsolvable", unsolvable),
        ("goal_table", "error", 0.0),
        ("bfs", "limit_reached", solvable),
        ("bfs", "unsolvable", unsolvable),
        ("bidirectional_bfs", "solved", 2.0),
        ("bidirectional_bfs", "error", 1.0),
        ("a_star", "solved", 0.0),
    ] {
        let labels = format!("algorithm=\"{algorithm}\",outcome=\"{outcome}\"");
        server.await_value(&format!("loyd_boards_total{{{labels}}}"), boards);
    }
    let all = server.scrape();
    // A look into a table expands nothing; what is left of a limit of one is one.
    assert_eq!(
        all["loyd_expanded_states_sum{algorithm=\"goal_table\"}"],
        0.0
    );
    assert_eq!(all["loyd_expanded_states_sum{algorithm=\"bfs\"}"], solvable);
    // The list is one run, and so is the call.
    assert_eq!(
        all["loyd_solve_seconds_count{algorithm=\"bidirectional_bfs\"}"],
        2.0
    );
    assert!(all["loyd_solve_seconds_sum{algorithm=\"bfs\"}"] > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_counts_when_it_ends_and_as_canceled_when_its_client_goes() {
    let server = Counted::start(&[]);
    let mut client = server.client().await;
    let mut responses = soon(client.solve_batch(tokio_stream::once(long())))
        .await
        .unwrap()
        .into_inner();
    soon(responses.message()).await.unwrap().unwrap();
    assert_eq!(server.scrape()["loyd_calls_in_flight"], 1.0);
    let canceled = format!("grpc_server_handled_total{}", with_code(BATCH, "Canceled"));
    assert_eq!(server.scrape()[&canceled], 0.0);
    drop(responses);
    server.await_value(&canceled, 1.0);
    server.await_value("loyd_calls_in_flight", 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_waits_and_calls_that_are_refused_for_it_show() {
    let server = Counted::start(&["--compute-threads", "1", "--queued-work", "2ms"]);
    let mut client = server.client().await;
    let (sender, requests) = mpsc::channel(1);
    let response = soon(client.solve_batch(ReceiverStream::new(requests))).await;
    let mut responses = response.unwrap().into_inner();
    sender.send(long()).await.unwrap();
    // The first answer shows that the queue is full; it stays so for a while.
    soon(responses.message()).await.unwrap().unwrap();
    server.await_that("loyd_queue_depth", |pieces| pieces >= 1.0);
    server.await_value("loyd_compute_threads_busy", 1.0);
    client
        .solve(solve(&[1, 2, 3, 4, 5, 6, 7, 0, 8]))
        .await
        .unwrap_err();
    server.await_value("loyd_shed_total", 1.0);
    server.await_value("loyd_compute_threads", 1.0);
    drop(sender);
    drop(responses);
    server.await_value("loyd_queue_depth", 0.0);
    server.await_value("loyd_compute_threads_busy", 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_cut_is_unavailable_and_one_without_a_line_is_counted() {
    let server = Counted::start(&[
        "--max-connection-age",
        "300ms",
        "--max-connection-age-grace",
        "300ms",
        "--call-log-rate",
        "0",
    ]);
    let mut client = server.client().await;
    let (_sender, requests) = mpsc::channel(1);
    let response = soon(client.solve_batch(ReceiverStream::new(requests))).await;
    let mut responses = response.unwrap().into_inner();
    soon(responses.message()).await.unwrap_err();
    for (code, count) in [("Unavailable", 1.0), ("Canceled", 0.0)] {
        let series = format!("grpc_server_handled_total{}", with_code(BATCH, code));
        server.await_value(&series, count);
    }
    server.await_value("loyd_calls_not_logged_total", 1.0);
    server.await_value("loyd_log_lines_lost_total", 0.0);
}

#[test]
fn every_metric_says_what_it_is() {
    let server = Counted::start(&[]);
    let (_, text) = get(&server.admin, "/metrics");
    let described: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next())
        .collect();
    for series in server.scrape().keys() {
        assert!(
            described.iter().any(|name| series.starts_with(name)),
            "{series}"
        );
    }
    let all = server.scrape();
    for name in [
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
        "process_open_fds",
        "process_max_fds",
        "process_start_time_seconds",
        "process_threads",
    ] {
        assert!(all[name] > 0.0 || name.contains("cpu"), "{name}");
    }
    let build = all
        .keys()
        .find(|series| series.starts_with("loyd_build_info{"));
    assert!(build.unwrap().contains(env!("CARGO_PKG_VERSION")));
}
