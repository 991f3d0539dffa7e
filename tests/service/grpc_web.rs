//! gRPC-Web: HTTP/1.1 on the same port, and pages of the origins that may call.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use loyd::server::{Config, Drained, Origin};
use loyd::service::Settings;
use loyd::wire::v1::{SolveRequest, SolveResponse};
use prost::Message;

use crate::support::{PATIENCE, Server, batch, packed, soon, spread, square};

const HERE: &str = "https://example.org";

fn web_config(origins: &[&str]) -> Config {
    let origins: Vec<Origin> = origins.iter().map(|text| text.parse().unwrap()).collect();
    Config {
        web_origins: Some(origins),
        ..Config::default()
    }
}

async fn server(origins: &[&str]) -> Server {
    Server::with(Settings::default(), web_config(origins)).await
}

/// An answer of HTTP/1.1.
struct Answer {
    /// Status line and headers, in small letters.
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

async fn ask(server: &Server, head: String, body: Vec<u8>) -> Answer {
    let address = server.address;
    let asked = tokio::task::spawn_blocking(move || {
        let mut peer = TcpStream::connect(address).unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!("{head}host: {address}\r\nconnection: close\r\n\r\n");
        peer.write_all(&[head.as_bytes(), &body].concat()).unwrap();
        let mut said = Vec::new();
        peer.read_to_end(&mut said).unwrap();
        let end = said
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap();
        let head = String::from_utf8(said[..end].to_vec()).unwrap();
        Answer {
            head: head.to_lowercase(),
            body: said[end + 4..].to_vec(),
        }
    });
    soon(asked).await.unwrap()
}

async fn preflight(server: &Server, origin: &str) -> Answer {
    let head = format!(
        "OPTIONS /loyd.v1.SolverService/Solve HTTP/1.1\r\norigin: {origin}\r\n\
         access-control-request-method: POST\r\n\
         access-control-request-headers: content-type,x-grpc-web\r\n"
    );
    ask(server, head, Vec::new()).await
}

async fn solve(server: &Server, kind: &str, message: &[u8]) -> Answer {
    let mut body = vec![0];
    body.extend((message.len() as u32).to_be_bytes());
    body.extend(message);
    let head = format!(
        "POST /loyd.v1.SolverService/Solve HTTP/1.1\r\norigin: {HERE}\r\n\
         content-type: {kind}\r\ncontent-length: {}\r\n",
        body.len()
    );
    ask(server, head, body).await
}

fn sample() -> Vec<u8> {
    SolveRequest {
        board: Some(square(&[2, 3, 4, 1, 5, 0, 7, 6, 8])),
        ..Default::default()
    }
    .encode_to_vec()
}

/// The chunks of a body without their lengths.
fn dechunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n").unwrap();
        let length = usize::from_str_radix(str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return whole;
        }
        whole.extend(&body[end + 2..end + 2 + length]);
        body = &body[end + 2 + length + 2..];
    }
}

#[tokio::test]
async fn a_call_over_http_1_is_answered_with_its_trailers_in_the_body() {
    let server = server(&[HERE]).await;
    let answer = solve(&server, "application/grpc-web+proto", &sample()).await;
    assert!(answer.head.starts_with("http/1.1 200"), "{}", answer.head);
    assert_eq!(answer.header("access-control-allow-origin"), Some(HERE));
    let exposed = answer.header("access-control-expose-headers").unwrap();
    assert!(exposed.contains("grpc-status") && exposed.contains("grpc-message"));
    let body = dechunked(&answer.body);
    let length = u32::from_be_bytes(body[1..5].try_into().unwrap()) as usize;
    let response = SolveResponse::decode(&body[5..5 + length]).unwrap();
    assert_eq!(response.solution.unwrap().length, 19);
    let trailers = &body[5 + length..];
    assert_eq!(trailers[0], 0x80);
    let trailers = String::from_utf8(trailers[5..].to_vec()).unwrap();
    assert!(trailers.contains("grpc-status:0"), "{trailers}");
}

#[tokio::test]
async fn only_pages_of_these_origins_may_call() {
    let server = server(&[HERE, "http://127.0.0.1:8080"]).await;
    for origin in [HERE, "http://127.0.0.1:8080"] {
        let answer = preflight(&server, origin).await;
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
        assert_eq!(answer.header("access-control-allow-methods"), Some("post"));
        let allowed = answer.header("access-control-allow-headers").unwrap();
        assert!(allowed.contains("content-type") && allowed.contains("x-grpc-web"));
        assert_eq!(answer.header("access-control-allow-credentials"), None);
    }
    for origin in ["https://example.com", "http://example.org", "null"] {
        let answer = preflight(&server, origin).await;
        assert_eq!(
            answer.header("access-control-allow-origin"),
            None,
            "{origin}"
        );
    }
}

#[tokio::test]
async fn all_pages_may_call_only_where_that_is_said() {
    let open = server(&["*"]).await;
    let answer = preflight(&open, "https://example.com").await;
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    let closed = server(&[]).await;
    let answer = preflight(&closed, "https://example.com").await;
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn grpc_itself_goes_on_beside_it() {
    let mut server = server(&[HERE]).await;
    let mut client = server.client().await;
    let answers = batch(&mut client, vec![packed(1, &spread(10))]).await;
    assert_eq!(answers.unwrap().len(), 1);
    // What is neither is refused, and its page may read why.
    for (kind, status) in [
        ("application/json", "415"),
        ("application/grpc-webs", "415"),
        ("application/grpc", "505"),
    ] {
        let answer = solve(&server, kind, &sample()).await;
        let expected = format!("http/1.1 {status}");
        assert!(answer.head.starts_with(&expected), "{}", answer.head);
        assert_eq!(answer.header("access-control-allow-origin"), Some(HERE));
        let said = String::from_utf8(answer.body).unwrap();
        assert!(said.contains("application/grpc-web"), "{said}");
    }
    let answer = ask(&server, "GET / HTTP/1.1\r\n".to_owned(), Vec::new()).await;
    assert!(answer.head.starts_with("http/1.1 405"), "{}", answer.head);
    assert_eq!(answer.header("allow"), Some("post"));
    // A connection that is kept alive does not hold up a drain.
    let address = server.address;
    let kept_alive = tokio::task::spawn_blocking(move || {
        let mut idle = TcpStream::connect(address).unwrap();
        idle.write_all(b"OPTIONS / HTTP/1.1\r\nhost: x\r\n\r\n")
            .unwrap();
        idle.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(idle.read(&mut [0; 4096]).unwrap() > 0);
        idle
    });
    let _idle = soon(kept_alive).await.unwrap();
    server.stop();
    assert_eq!(server.stopped().await, Drained::Cleanly);
}

#[tokio::test]
async fn malformed_bodies_cost_their_call_alone() {
    let server = server(&[HERE]).await;
    for (kind, message) in [
        ("application/grpc-web", vec![0xff; 100]),
        ("application/grpc-web-text", vec![0xff; 100]),
        ("application/grpc-web-text+proto", b"AAAA====AAA".to_vec()),
    ] {
        let answer = solve(&server, kind, &message).await;
        assert!(answer.head.starts_with("http/1.1 200"), "{}", answer.head);
        let status = answer.header("grpc-status").unwrap();
        assert_ne!(status, "0", "{kind}");
    }
    let answer = solve(&server, "application/grpc-web", &sample()).await;
    assert!(answer.head.starts_with("http/1.1 200"), "{}", answer.head);
}

/// The answer to a call whose body is in base64, in as many pieces.
async fn solve_text(server: &Server, pieces: &[&[u8]]) -> Answer {
    let pieces = pieces.iter().map(|piece| STANDARD.encode(piece));
    let body = pieces.collect::<String>().into_bytes();
    let head = format!(
        "POST /loyd.v1.SolverService/Solve HTTP/1.1\r\n\
         content-type: application/grpc-web-text; charset=utf-8\r\n\
         accept: application/grpc-web-text\r\ncontent-length: {}\r\n",
        body.len()
    );
    ask(server, head, body).await
}

#[tokio::test]
async fn text_may_come_in_pieces_that_are_each_padded() {
    let server = server(&[HERE]).await;
    let message = sample();
    let prefix = [&[0][..], &(message.len() as u32).to_be_bytes()].concat();
    let whole = [&prefix[..], &message].concat();
    for pieces in [
        &[&whole[..]][..],
        &[&prefix, &message],
        &[&whole[..1], &whole[1..3], &whole[3..10], &whole[10..]],
    ] {
        let answer = solve_text(&server, pieces).await;
        assert!(answer.head.starts_with("http/1.1 200"), "{}", answer.head);
        let text = dechunked(&answer.body);
        // The answer is in pieces too: the message, and the trailers.
        let end = text.iter().position(|letter| *letter == b'=');
        let first = end.map_or(text.len(), |at| (at / 4 + 1) * 4);
        let body = STANDARD.decode(&text[..first]).unwrap();
        let length = u32::from_be_bytes(body[1..5].try_into().unwrap()) as usize;
        let response = SolveResponse::decode(&body[5..5 + length]).unwrap();
        assert_eq!(response.solution.unwrap().length, 19);
    }
    let head = "POST /loyd.v1.SolverService/Solve HTTP/1.1\r\n\
                content-type: application/grpc-web-text\r\ncontent-length: 5\r\n";
    let answer = ask(&server, head.to_owned(), b"AAAA?".to_vec()).await;
    assert_eq!(answer.header("grpc-status"), Some("13"));
    let message = answer.header("grpc-message").unwrap();
    assert!(message.contains("not%20base64"), "{message}");
    assert!(!message.contains("tonic"), "{message}");
}

/// Sends these bytes, and reads until the server closes the connection.
async fn heard_until_closed(server: &Server, bytes: &'static [u8]) -> String {
    heard_until_closed_after(server, [bytes]).await
}

/// The same, of parts with a pause between them.
async fn heard_until_closed_after<const PARTS: usize>(
    server: &Server,
    parts: [&'static [u8]; PARTS],
) -> String {
    let address = server.address;
    let heard = tokio::task::spawn_blocking(move || {
        let mut peer = TcpStream::connect(address).unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        for bytes in parts {
            peer.write_all(bytes).unwrap();
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut heard = Vec::new();
        peer.read_to_end(&mut heard).unwrap();
        String::from_utf8_lossy(&heard).into_owned()
    });
    soon(heard).await.unwrap()
}

#[tokio::test]
async fn a_request_that_never_comes_whole_ends_its_call_and_connection() {
    let mut config = web_config(&[HERE]);
    config.connection.web_request_timeout = Duration::from_millis(200);
    let server = Server::with(Settings::default(), config).await;
    let half: [&'static [u8]; 2] = [
        b"POST /loyd.v1.SolverService/Solve HTTP/1.1\r\nhost: x\r\n\
          content-type: application/grpc-web\r\ncontent-length: 100\r\n\r\n\0\0\0",
        b"POST /loyd.v1.SolverService/SolveBatch HTTP/1.1\r\nhost: x\r\n\
          content-type: application/grpc-web-text\r\ncontent-length: 100\r\n\r\nAAAA",
    ];
    for bytes in half {
        let heard = heard_until_closed(&server, bytes).await;
        assert!(
            heard.contains("grpc-status: 4") || heard.contains("grpc-status:4"),
            "{heard}"
        );
        assert!(!heard.contains("tonic"), "{heard}");
    }
    let answer = solve(&server, "application/grpc-web", &sample()).await;
    assert!(answer.head.starts_with("http/1.1 200"), "{}", answer.head);
}

#[tokio::test]
async fn a_connection_without_calls_lives_as_long_as_the_idle_timeout_says() {
    let asks = b"OPTIONS / HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut config = web_config(&[HERE]);
    config.connection.idle_timeout = Some(Duration::from_millis(200));
    let server = Server::with(Settings::default(), config).await;
    // Also with half a request.
    for bytes in [&asks[..], b"POST / HT"] {
        heard_until_closed(&server, bytes).await;
    }

    let mut config = web_config(&[HERE]);
    config.connection.keepalive_interval = Duration::from_millis(100);
    config.connection.keepalive_timeout = Duration::from_millis(100);
    config.connection.hello_timeout = Duration::from_millis(100);
    let server = Server::with(Settings::default(), config).await;
    let address = server.address;
    let asked = tokio::task::spawn_blocking(move || {
        let mut peer = TcpStream::connect(address).unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        for _ in 0..2 {
            peer.write_all(asks).unwrap();
            let read = peer.read(&mut [0; 4096]).unwrap();
            assert!(read > 0, "it was closed");
            std::thread::sleep(Duration::from_millis(600));
        }
    });
    soon(asked).await.unwrap();
    // But who has begun to ask has to go on, be it the first time or later.
    for bytes in [
        &b"POST / HT"[..],
        b"OPTIONS / HTTP/1.1\r\nhost: x\r\n\r\nPO",
    ] {
        let (first, rest) = bytes.split_at(bytes.len() - 2);
        heard_until_closed_after(&server, [first, rest]).await;
    }
}

#[test]
fn an_origin_that_is_none_is_a_usage_error() {
    for (args, text) in [
        (
            &["--grpc-web", "--grpc-web-origin", "example.org"][..],
            "not an origin",
        ),
        (&["--grpc-web-origin", HERE][..], "--grpc-web"),
    ] {
        let refused = Command::new(env!("CARGO_BIN_EXE_loyd"))
            .arg("serve")
            .args(args)
            .output()
            .unwrap();
        assert_eq!(refused.status.code(), Some(2));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains(text), "{said}");
    }
}
