//! The operator's listener: metrics and probes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::server_life::Process;
use crate::support::PATIENCE;

/// Status and body of the answer to these bytes.
pub fn exchange(address: &str, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

pub fn get(address: &str, path: &str) -> (u16, String) {
    exchange(
        address,
        &format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n"),
    )
}

/// Waits until the probe has this status.
fn await_status(address: &str, path: &str, status: u16) {
    let asked = Instant::now();
    while get(address, path).0 != status {
        assert!(asked.elapsed() < PATIENCE, "{path} never is {status}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub const ADMIN: [&str; 2] = ["--admin-listen", "127.0.0.1:0"];

#[test]
fn probes_follow_the_life_of_the_server() {
    let more = [&ADMIN[..], &["--drain-delay", "600s"]].concat();
    let mut process = Process::start(&more);
    let admin = process.admin_address();
    await_status(&admin, "/readyz", 200);
    assert_eq!(get(&admin, "/readyz").1, "ready\n");
    assert_eq!(get(&admin, "/livez").0, 200);
    process.signal("-TERM");
    // While clients are still served, and the process lives.
    await_status(&admin, "/readyz", 503);
    assert_eq!(get(&admin, "/readyz").1, "stopping\n");
    assert_eq!(get(&admin, "/livez").0, 200);
    assert!(
        get(&admin, "/metrics")
            .1
            .lines()
            .any(|line| line == "loyd_draining 1")
    );
    process.signal("-TERM");
    assert_eq!(process.exit_code(), Some(0));
}

#[test]
fn the_address_comes_after_those_of_clients() {
    let options = [
        &["--listen", "127.0.0.1:0", "--listen", "[::1]:0"],
        &ADMIN[..],
    ]
    .concat();
    let mut process = Process::spawn(&options, 2, Stdio::null());
    assert!(process.uris[1].starts_with("http://[::1]:"));
    assert!(process.admin_address().starts_with("127.0.0.1:"));
}

#[test]
fn what_it_does_not_know_it_refuses() {
    let mut process = Process::start(&ADMIN);
    let admin = process.admin_address();
    assert_eq!(get(&admin, "/").0, 404);
    assert_eq!(get(&admin, "/metrics/").0, 404);
    let post = "POST /metrics HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(exchange(&admin, post).0, 405);
    let head = "HEAD /livez HTTP/1.1\r\nhost: a\r\n\r\n";
    assert_eq!(exchange(&admin, head), (200, String::new()));
    let long = format!("GET /livez HTTP/1.1\r\na: {}\r\n\r\n", "x".repeat(20_000));
    assert_eq!(exchange(&admin, &long).0, 431);
}

#[test]
fn silent_peers_take_no_more_than_their_places() {
    let mut process = Process::start(&ADMIN);
    let admin = process.admin_address();
    let silent: Vec<TcpStream> = (0..64)
        .map(|_| TcpStream::connect(&admin).unwrap())
        .collect();
    // One more is closed without a word, or reset.
    let mut one_more = TcpStream::connect(&admin).unwrap();
    one_more.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(matches!(one_more.read(&mut [0]), Ok(0) | Err(_)));
    drop(silent);
    let asked = Instant::now();
    let answered = || {
        let mut stream = TcpStream::connect(&admin).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.write_all(b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer.starts_with(b"HTTP/1.1 200")
    };
    while !answered() {
        assert!(asked.elapsed() < PATIENCE);
    }
}

#[test]
fn an_address_in_use_is_exit_code_69() {
    let mut process = Process::start(&ADMIN);
    let admin = process.admin_address();
    let second = Command::new(env!("CARGO_BIN_EXE_loyd"))
        .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", &admin])
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(69));
    assert!(String::from_utf8_lossy(&second.stderr).contains(&admin));
    // Clients are told nothing of a server that never serves.
    assert!(second.stdout.is_empty());
}
