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
fn silent_peers_keep_nobody_from_an_answer() {
    let mut process = Process::start(&ADMIN);
    let admin = process.admin_address();
    let connect = || {
        let stream = TcpStream::connect(&admin).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    // As many as there may be, and half of them have begun to ask.
    let mut silent: Vec<TcpStream> = (0..64).map(|_| connect()).collect();
    for half in silent.iter_mut().step_by(2) {
        half.write_all(b"GET /livez HTTP/1.1\r\nhost:").unwrap();
    }
    let asked = Instant::now();
    for _ in 0..10 {
        assert_eq!(get(&admin, "/livez").0, 200);
    }
    // Not because they took too long.
    assert!(asked.elapsed() < Duration::from_secs(10));
    // The oldest made room: closed without a word, or reset.
    assert!(matches!(silent[0].read(&mut [0]), Ok(0) | Err(_)));
    let closed = get(&admin, "/metrics")
        .1
        .lines()
        .find_map(|line| line.strip_prefix("loyd_admin_connections_closed_total "))
        .map(|count| count.parse::<u32>().unwrap());
    assert!((1..=11).contains(&closed.unwrap()), "{closed:?}");
    // One of the newest still has its answer.
    let last = &mut silent[62];
    last.write_all(b" a\r\n\r\n").unwrap();
    let mut answer = String::new();
    last.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
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
