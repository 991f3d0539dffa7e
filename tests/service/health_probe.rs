//! `loyd health`, and the health of a server that is not ready.

use std::net::TcpListener;
use std::process::Output;

use loyd::server::Config;
use loyd::service::Settings;
use tokio::sync::oneshot;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::command_line::loyd;
use crate::server_life::Process;
use crate::support::{Server, batch, packed, soon, spread};

fn probe(uri: &str, more: &[&str]) -> Output {
    loyd(&[&["health", "--connect", uri], more].concat(), b"")
}

#[track_caller]
fn assert_answer(output: &Output, code: i32, printed: &str) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), printed);
}

#[test]
fn the_exit_code_is_the_health() {
    let process = Process::start(&[]);
    assert_answer(&probe(&process.uri, &[]), 0, "SERVING\n");
    let service = ["--service", "loyd.v1.SolverService"];
    assert_answer(&probe(&process.uri, &service), 0, "SERVING\n");
    let unknown = ["--service", "nobody"];
    assert_answer(&probe(&process.uri, &unknown), 1, "SERVICE_UNKNOWN\n");
}

#[test]
fn no_answer_is_exit_code_69() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("http://{}", taken.local_addr().unwrap());
    // Accepted by the system, and never answered.
    let output = probe(&uri, &["--timeout", "200ms"]);
    assert_answer(&output, 69, "");
    assert!(String::from_utf8_lossy(&output.stderr).contains("took too long"));
    drop(taken);
    assert_answer(&probe(&uri, &[]), 69, "");
    assert_answer(&probe("nonsense://x", &[]), 2, "");
}

#[tokio::test]
async fn a_server_serves_once_it_is_ready() {
    let (make_ready, ready) = oneshot::channel::<()>();
    let ready = async { ready.await.unwrap() };
    let server = Server::ready_after(ready, Settings::default(), Config::default()).await;
    let uri = format!("http://{}", server.address);
    let ask = {
        let uri = uri.clone();
        move || {
            let uri = uri.clone();
            tokio::task::spawn_blocking(move || probe(&uri, &[]))
        }
    };
    assert_answer(&soon(ask()).await.unwrap(), 1, "NOT_SERVING\n");

    let mut health = HealthClient::new(server.channel().await);
    let request = HealthCheckRequest::default();
    let mut watch = soon(health.watch(request)).await.unwrap().into_inner();
    let status = soon(watch.message()).await.unwrap().unwrap().status();
    assert_eq!(status, ServingStatus::NotServing);
    // Who calls all the same is answered: it only may take longer.
    let answers = batch(&mut server.client().await, vec![packed(1, &spread(1))]).await;
    assert_eq!(answers.unwrap().len(), 1);

    make_ready.send(()).unwrap();
    let status = soon(watch.message()).await.unwrap().unwrap().status();
    assert_eq!(status, ServingStatus::Serving);
    assert_answer(&soon(ask()).await.unwrap(), 0, "SERVING\n");
}

#[test]
fn a_server_becomes_healthy_once_its_tables_are_built() {
    let process = Process::logged(&["--warm"]);
    process.await_log("all goal tables are built");
    let started = std::time::Instant::now();
    while probe(&process.uri, &[]).status.code() != Some(0) {
        assert!(started.elapsed() < crate::support::PATIENCE);
    }
}
