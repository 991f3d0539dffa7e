//! The log as a whole: who reads it, and what it holds.

use std::ffi::OsStr;
use std::fs::File;
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use loyd::wire::v1::SolveRequest;
use loyd::wire::v1::solver_service_client::SolverServiceClient;

use crate::admin::{ADMIN, get};
use crate::server_life::Process;
use crate::support::{PATIENCE, soon, square};

/// A server with an admin listener that writes much to a pipe which nobody
/// reads yet; and its admin address.
fn talkative() -> (Process, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loyd"));
    command
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(ADMIN)
        .env("RUST_LOG", "trace");
    let mut process = Process::run(command, 1, Stdio::piped());
    let admin = process.admin_address();
    (process, admin)
}

fn lost(admin: &str) -> u64 {
    let (_, text) = get(admin, "/metrics");
    text.lines()
        .find_map(|line| line.strip_prefix("loyd_log_lines_lost_total "))
        .unwrap()
        .parse()
        .unwrap()
}

/// Calls until lines are lost.
async fn overfill(process: &Process, admin: &str) {
    let mut client = SolverServiceClient::connect(process.uri.clone())
        .await
        .unwrap();
    let asked = Instant::now();
    while lost(admin) == 0 {
        for _ in 0..100 {
            let request = SolveRequest {
                board: Some(square(&[1, 2, 3, 4, 5, 6, 7, 0, 8])),
                ..SolveRequest::default()
            };
            soon(client.solve(request)).await.unwrap();
        }
        assert!(asked.elapsed() < PATIENCE, "no line is ever lost");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_read_late_tells_what_is_missing() {
    let (mut process, admin) = talkative();
    overfill(&process, &admin).await;
    assert_eq!(get(&admin, "/livez").0, 200);
    process.read_log();
    let line = process.await_log("lines of the log were lost");
    assert!(line.contains(" WARN ") && line.contains("lost="), "{line}");
    process.signal("-TERM");
    process.await_log("stopped");
    assert_eq!(process.exit_code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_never_read_does_not_hold_up_the_end() {
    let (mut process, admin) = talkative();
    overfill(&process, &admin).await;
    process.signal("-TERM");
    assert_eq!(process.exit_code(), Some(0));
}

#[test]
fn a_filter_that_is_none_is_refused() {
    let serve = |filter: &OsStr, stderr: Stdio| {
        Command::new(env!("CARGO_BIN_EXE_loyd"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("RUST_LOG", filter)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap()
    };
    for bad in [OsStr::new("bad=["), OsStr::from_bytes(b"\xff=info")] {
        let output = serve(bad, Stdio::piped());
        assert_eq!(output.status.code(), Some(2), "{bad:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with("error: RUST_LOG: "), "{said}");
        // The code tells it even where nothing can be said.
        let full = File::options().write(true).open("/dev/full").unwrap();
        assert_eq!(serve(bad, full.into()).status.code(), Some(2), "{bad:?}");
    }
}

/// The filter that help names for a log without calls.
#[tokio::test]
async fn the_filter_that_help_names_leaves_out_calls_alone() {
    let help = Command::new(env!("CARGO_BIN_EXE_loyd"))
        .args(["serve", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let filter = help
        .split('`')
        .find(|quoted| quoted.contains("loyd::call"))
        .expect("help names one");
    let mut command = Command::new(env!("CARGO_BIN_EXE_loyd"));
    command
        .args(["serve", "--listen", "127.0.0.1:0"])
        .env("RUST_LOG", filter);
    let mut process = Process::run(command, 1, Stdio::piped());
    process.read_log();
    let mut client = SolverServiceClient::connect(process.uri.clone())
        .await
        .unwrap();
    soon(client.solve(SolveRequest::default()))
        .await
        .unwrap_err();
    process.signal("-TERM");
    let log = process.rest_of_log().join("\n");
    assert!(log.contains("serving") && log.contains("stopped"), "{log}");
    assert!(!log.contains("loyd::call"), "{log}");
}

#[test]
fn a_soft_limit_of_files_is_raised() {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "ulimit -S -n 40 && exec \"$0\" serve --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 \
         --max-connections 100",
        env!("CARGO_BIN_EXE_loyd"),
    ]);
    let mut process = Process::run(command, 1, Stdio::piped());
    process.read_log();
    let (_, text) = get(&process.admin_address(), "/metrics");
    assert!(text.contains("\nprocess_max_fds 200\n"), "{text}");
    process.signal("-TERM");
    let log = process.rest_of_log().join("\n");
    assert!(!log.contains("too few files"), "{log}");
}

#[test]
fn too_few_files_are_told_at_the_start_and_then_seldom() {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "ulimit -n 40 && exec \"$0\" serve --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0",
        env!("CARGO_BIN_EXE_loyd"),
    ]);
    let mut process = Process::run(command, 1, Stdio::piped());
    process.read_log();
    let admin = process.admin_address();
    let line = process.await_log("too few files may be open");
    assert!(
        line.contains("files=40") && line.contains("wanted=1124"),
        "{line}"
    );
    let connections: Vec<TcpStream> = (0..60)
        .map(|_| TcpStream::connect(process.address()).unwrap())
        .collect();
    process.await_log("cannot accept a connection");
    // For several more attempts.
    std::thread::sleep(Duration::from_secs(1));
    drop(connections);
    let asked = Instant::now();
    let refused = loop {
        let (_, text) = get(&admin, "/metrics");
        let count = text
            .lines()
            .find_map(|line| line.strip_prefix("loyd_accept_errors_total "))
            .unwrap()
            .parse::<u64>()
            .unwrap();
        if count > 3 || asked.elapsed() > PATIENCE {
            break count;
        }
    };
    assert!(refused > 3, "{refused}");
    process.signal("-TERM");
    let more = process.rest_of_log();
    let told = more.iter().filter(|line| line.contains("cannot accept a"));
    assert!(told.count() <= 2, "{more:#?}");
}
