//! What a call may look like, and how what is none is answered.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Request};
use loyd::server::Config;
use loyd::service::Settings;
use loyd::wire::v1::solver_service_client::SolverServiceClient;
use loyd::wire::v1::{Algorithm, SolveRequest};
use prost::Message;
use tonic::Code;
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::codegen::Service;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::support::{
    PATIENCE, Server, algorithm, batch, packed, packed_bytes, soon, spread, square,
};

const SOLVE: &str = "/loyd.v1.SolverService/Solve";
const SOLVE_BATCH: &str = "/loyd.v1.SolverService/SolveBatch";

/// What clients take for a header list by default, and some drop beyond.
const TRAILERS_LIMIT: usize = 8 << 10;

struct Answer {
    headers: HeaderMap,
    messages: Bytes,
    trailers: HeaderMap,
}

impl Answer {
    /// A header, of the first or the last ones: an error has them all in one.
    fn header(&self, name: &str) -> Option<&str> {
        let value = self.trailers.get(name).or(self.headers.get(name))?;
        value.to_str().ok()
    }

    fn code(&self) -> Code {
        Code::from_bytes(self.header("grpc-status").unwrap_or("none").as_bytes())
    }

    fn largest_headers(&self) -> usize {
        let size = |headers: &HeaderMap| {
            // RFC 9113, section 6.5.2.
            let fields = headers
                .iter()
                .map(|(name, value)| name.as_str().len() + value.len() + 32);
            fields.sum::<usize>()
        };
        size(&self.headers).max(size(&self.trailers))
    }
}

/// Calls by hand: any path, any headers, any bytes.
async fn call(server: &Server, path: &str, headers: &[(&str, &[u8])], body: Vec<u8>) -> Answer {
    let mut request = Request::post(format!("http://{}{path}", server.address))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::new(Full::from(body))).unwrap();
    let mut channel = server.plain_channel().await;
    let response = soon(channel.call(request)).await.unwrap();
    let headers = response.headers().clone();
    let body = soon(response.into_body().collect()).await.unwrap();
    Answer {
        headers,
        trailers: body.trailers().cloned().unwrap_or_default(),
        messages: body.to_bytes(),
    }
}

/// A message as gRPC frames it.
fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    let mut frame = BytesMut::new();
    frame.put_u8(flag);
    frame.put_u32(message.len() as u32);
    frame.put_slice(message);
    frame.to_vec()
}

fn sample() -> SolveRequest {
    SolveRequest {
        board: Some(square(&[2, 3, 4, 1, 5, 0, 7, 6, 8])),
        ..Default::default()
    }
}

async fn is_well(server: &Server) {
    let mut client = server.client().await;
    let answers = batch(&mut client, vec![packed(1, &spread(3))]).await;
    assert_eq!(answers.unwrap().len(), 1);
}

const ENCODINGS: [(CompressionEncoding, &str); 2] = [
    (CompressionEncoding::Gzip, "gzip"),
    (CompressionEncoding::Zstd, "zstd"),
];

#[tokio::test]
async fn a_compressed_request_is_read_and_answered_alike() {
    let server = Server::start().await;
    for (encoding, name) in ENCODINGS {
        let mut client = SolverServiceClient::new(server.channel().await)
            .send_compressed(encoding)
            .accept_compressed(encoding);
        let response = soon(client.solve(sample())).await.unwrap();
        assert_eq!(response.metadata().get("grpc-encoding").unwrap(), name);
        assert_eq!(response.into_inner().solution.unwrap().length, 19);
        let many = (0..50).map(|id| packed(id, &spread(100))).collect();
        assert_eq!(batch(&mut client, many).await.unwrap().len(), 50);
        // Whoever compresses does so in all calls.
        let mut health = HealthClient::new(server.channel().await).send_compressed(encoding);
        let checked = soon(health.check(HealthCheckRequest::default())).await;
        assert_eq!(
            checked.unwrap().into_inner().status(),
            ServingStatus::Serving
        );
    }
}

#[tokio::test]
async fn an_offer_alone_compresses_nothing() {
    let server = Server::start().await;
    let mut client = SolverServiceClient::new(server.channel().await)
        .accept_compressed(CompressionEncoding::Gzip);
    let response = soon(client.solve(sample())).await.unwrap();
    assert!(response.metadata().get("grpc-encoding").is_none());
    // A client that compresses and can't read what is compressed.
    let mut client =
        SolverServiceClient::new(server.channel().await).send_compressed(CompressionEncoding::Gzip);
    let response = soon(client.solve(sample())).await.unwrap();
    assert!(response.metadata().get("grpc-encoding").is_none());
}

#[tokio::test]
async fn an_offer_is_taken_where_the_operator_says_so() {
    let settings = Settings {
        compress_responses: true,
        ..Settings::default()
    };
    let server = Server::with(settings, Config::default()).await;
    for (encoding, name) in ENCODINGS {
        let mut client =
            SolverServiceClient::new(server.channel().await).accept_compressed(encoding);
        let response = soon(client.solve(sample())).await.unwrap();
        assert_eq!(response.metadata().get("grpc-encoding").unwrap(), name);
    }
    let response = soon(server.client().await.solve(sample())).await.unwrap();
    assert!(response.metadata().get("grpc-encoding").is_none());
}

#[tokio::test]
async fn an_encoding_that_is_not_known_is_unimplemented() {
    let server = Server::start().await;
    let message = framed(1, &sample().encode_to_vec());
    for path in [SOLVE, SOLVE_BATCH] {
        let answer = call(
            &server,
            path,
            &[("grpc-encoding", b"snappy")],
            message.clone(),
        )
        .await;
        assert_eq!(answer.code(), Code::Unimplemented);
        assert_eq!(
            answer.header("grpc-accept-encoding"),
            Some("gzip,zstd,identity")
        );
    }
    is_well(&server).await;
}

#[tokio::test]
async fn a_message_that_grows_over_the_limit_is_resource_exhausted() {
    let server = Server::start().await;
    for (encoding, _) in ENCODINGS {
        let mut client = SolverServiceClient::new(server.channel().await).send_compressed(encoding);
        // A few kilobytes on the wire.
        let bomb = packed_bytes(1, vec![0; 64 << 20]);
        let status = batch(&mut client, vec![bomb]).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
        assert!(status.message().contains("4194304"), "{status:?}");
        let bomb = SolveRequest {
            board: Some(square(&vec![0; 64 << 20])),
            ..Default::default()
        };
        let status = soon(client.solve(bomb)).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
        assert!(status.message().contains("4194304"), "{status:?}");
    }
    is_well(&server).await;
}

#[tokio::test]
async fn unknown_methods_and_services_are_unimplemented() {
    let server = Server::start().await;
    for path in [
        "/loyd.v1.SolverService/Fly",
        "/loyd.v1.Solver/Solve",
        "/loyd.v1.SolverService",
        "/loyd.v1.SolverService/Solve/",
        "/",
        "/%00%ff",
    ] {
        let answer = call(&server, path, &[], framed(0, b"")).await;
        assert_eq!(answer.code(), Code::Unimplemented, "{path}");
    }
    is_well(&server).await;
}

#[tokio::test]
async fn trailers_stay_under_8_kib_whatever_was_asked() {
    let server = Server::start().await;
    let long = vec![0xf0; 15_000];
    let wide = framed(
        0,
        &SolveRequest {
            board: Some(square(&vec![u32::MAX; 1_000_000])),
            ..Default::default()
        }
        .encode_to_vec(),
    );
    // Reflection tells of the symbol that it does not know.
    let mut symbol = vec![34, 0x80, 0x80, 0x40];
    symbol.extend([b'%'; 1 << 20]);
    let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let answers = [
        call(&server, SOLVE, &[("grpc-encoding", &long)], framed(0, b"")).await,
        call(&server, SOLVE_BATCH, &[("grpc-encoding", &long)], vec![]).await,
        call(&server, SOLVE, &[], wide).await,
        call(&server, SOLVE, &[], framed(0, &[0xff; 100_000])).await,
        call(&server, reflection, &[], framed(0, &symbol)).await,
    ];
    for answer in answers {
        assert_ne!(answer.code(), Code::Ok);
        assert!(answer.largest_headers() < TRAILERS_LIMIT);
        let message = answer.header("grpc-message").unwrap();
        assert!(!message.is_empty());
    }
    is_well(&server).await;
}

/// The HTTP status of a request, and what it says to that.
async fn refused(server: &Server, method: &str, kind: Option<&str>) -> (u16, HeaderMap, String) {
    let mut request = Request::builder()
        .method(method)
        .uri(format!("http://{}{SOLVE}", server.address));
    if let Some(kind) = kind {
        request = request.header("content-type", kind);
    }
    let body = Full::from(framed(0, &sample().encode_to_vec()));
    let request = request.body(Body::new(body)).unwrap();
    let mut channel = server.plain_channel().await;
    let response = soon(channel.call(request)).await.unwrap();
    let (head, body) = response.into_parts();
    let text = soon(body.collect()).await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&text).into_owned();
    (head.status.as_u16(), head.headers, text)
}

#[tokio::test]
async fn what_is_no_call_is_refused_in_words_of_http() {
    let plain = Server::start().await;
    let config = Config {
        web_origins: Some(Vec::new()),
        ..Config::default()
    };
    let web = Server::with(Settings::default(), config).await;
    for server in [&plain, &web] {
        for kind in [
            None,
            Some("text/plain"),
            Some("application/json"),
            Some("application/grpcx"),
            Some("application/grpc-webs"),
        ] {
            let (status, _, text) = refused(server, "POST", kind).await;
            assert_eq!(status, 415, "{kind:?}");
            assert!(text.contains("application/grpc"), "{text}");
        }
        for method in ["GET", "PUT", "DELETE", "BREW"] {
            let (status, headers, text) = refused(server, method, Some("application/grpc")).await;
            assert_eq!(status, 405, "{method}");
            assert_eq!(headers["allow"], "POST");
            assert!(text.contains("POST"), "{text}");
        }
        // The client would end the connection, were there a body.
        let (status, headers, text) = refused(server, "HEAD", Some("application/grpc")).await;
        assert_eq!((status, text.as_str()), (405, ""));
        assert_eq!(headers["allow"], "POST");
        for kind in [
            "application/grpc",
            "application/grpc+proto",
            "Application/gRPC;a=b",
        ] {
            let (status, headers, _) = refused(server, "POST", Some(kind)).await;
            assert_eq!(status, 200, "{kind}");
            assert_eq!(headers["content-type"], "application/grpc");
        }
        is_well(server).await;
    }
    // Where it is spoken, and where not; and the questions of pages.
    for kind in ["application/grpc-web", "application/grpc-web+proto"] {
        assert_eq!(refused(&plain, "POST", Some(kind)).await.0, 415);
        assert_eq!(refused(&web, "POST", Some(kind)).await.0, 200);
    }
    assert_eq!(refused(&plain, "OPTIONS", None).await.0, 405);
    assert_eq!(refused(&web, "OPTIONS", None).await.0, 200);
}

#[tokio::test]
async fn a_method_of_one_message_takes_no_second() {
    let server = Server::start().await;
    let solve = sample().encode_to_vec();
    for (path, message) in [
        (SOLVE, &solve[..]),
        ("/grpc.health.v1.Health/Check", b""),
        ("/grpc.health.v1.Health/Watch", b""),
    ] {
        let one = framed(0, message);
        for more in [&one[..], &[0, 0, 0, 0, 9], &framed(0, &[0; 100_000])] {
            let answer = call(&server, path, &[], [&one, more].concat()).await;
            assert_eq!(answer.code(), Code::Unimplemented, "{path}");
            let said = answer.header("grpc-message").unwrap();
            assert!(said.contains("one%20message"), "{said}");
        }
    }
    let answer = call(&server, SOLVE, &[], framed(0, &solve)).await;
    assert_eq!(answer.code(), Code::Ok);
    is_well(&server).await;
}

#[tokio::test]
async fn every_service_refuses_a_message_over_the_limit_alike() {
    let server = Server::start().await;
    let too_long = framed(0, &vec![0; (4 << 20) + 1]);
    // As far as it is read.
    let declared = [&[0][..], &(4_194_305_u32).to_be_bytes(), &[10; 1000]].concat();
    for path in [
        SOLVE,
        SOLVE_BATCH,
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ] {
        for body in [&too_long, &declared] {
            let answer = call(&server, path, &[], body.clone()).await;
            assert_eq!(answer.code(), Code::ResourceExhausted, "{path}");
            let message = answer.header("grpc-message").unwrap();
            assert!(message.contains("4194304"), "{path}: {message}");
        }
    }
    // A small one that grows.
    for (encoding, name) in ENCODINGS {
        let mut health = HealthClient::new(server.channel().await).send_compressed(encoding);
        let service = "x".repeat(16 << 20);
        let status = soon(health.check(HealthCheckRequest { service })).await;
        let status = status.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{name}");
        assert!(status.message().contains("4194304"), "{status:?}");
    }
    is_well(&server).await;
}

/// Frames that hold no message: what they are, and what is answered.
#[tokio::test]
async fn odd_frames_cost_their_call_alone() {
    let server = Server::start().await;
    // One is searched, and one waits for the next, as all that is looked up.
    let goods = [Algorithm::BidirectionalBfs, Algorithm::GoalTable].map(|method| {
        let mut good = packed(1, &spread(1));
        good.options = algorithm(method);
        framed(0, &good.encode_to_vec())
    });
    let cases: [(&str, Vec<u8>, Code); 8] = [
        ("nothing at all", vec![], Code::Ok),
        ("an empty message", framed(0, b""), Code::Ok),
        ("half a header", vec![0, 0], Code::Internal),
        (
            "half a message",
            framed(0, &[8; 100])[..50].to_vec(),
            Code::Internal,
        ),
        (
            "garbage in a frame",
            framed(0, &[0xff; 100]),
            Code::Internal,
        ),
        ("garbage for a frame", vec![0xa5; 1_000], Code::Internal),
        (
            "compressed, nothing said of how",
            framed(1, b"x"),
            Code::Internal,
        ),
        (
            "a length of 4 GiB",
            vec![0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3],
            Code::ResourceExhausted,
        ),
    ];
    for (what, bytes, code) in &cases {
        let answer = call(&server, SOLVE_BATCH, &[], bytes.clone()).await;
        assert_eq!(answer.code(), *code, "{what}");
        // After a good message, which has its answer.
        for good in &goods {
            let both = [good.as_slice(), bytes].concat();
            let answer = call(&server, SOLVE_BATCH, &[], both).await;
            assert_eq!(answer.code(), *code, "{what} after a good message");
            assert!(answer.messages.len() > 5, "{what} after a good message");
        }
    }
    for (encoding, bytes) in [("gzip", &[0x1f; 64]), ("zstd", &[0x28; 64])] {
        let headers: &[(&str, &[u8])] = &[("grpc-encoding", encoding.as_bytes())];
        for path in [SOLVE, SOLVE_BATCH] {
            let answer = call(&server, path, headers, framed(1, bytes)).await;
            assert_eq!(answer.code(), Code::Internal, "{encoding} of garbage");
        }
    }
    is_well(&server).await;
}

/// What the server says to these bytes, up to its end.
async fn said_to(server: &Server, bytes: &'static [u8]) -> String {
    let address = server.address;
    let asked = tokio::task::spawn_blocking(move || {
        let mut peer = TcpStream::connect(address).unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        peer.write_all(bytes).unwrap();
        let mut said = String::new();
        match peer.read_to_string(&mut said) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
        said
    });
    soon(asked).await.unwrap()
}

#[tokio::test]
async fn other_protocols_are_told_or_closed_at_once() {
    let mut config = Config::default();
    // Nothing below waits for it.
    config.connection.hello_timeout = 10 * PATIENCE;
    let server = Server::with(Settings::default(), config).await;
    for request in [
        &b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..],
        b"POST /loyd.v1.SolverService/Solve HTTP/1.1\r\ncontent-length: 9\r\n\r\n012345678",
        b"P0",
        b"OPTIONS * HTTP/1.0\r\n\r\n",
    ] {
        let said = said_to(&server, request).await;
        assert!(said.starts_with("HTTP/1.1 505 "), "{said}");
        assert!(said.contains("HTTP/2"), "{said}");
    }
    // A ClientHello's beginning; SSH; nonsense.
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"\0\0\0\0",
        b"ssh-2.0\r\n",
        b"\xff",
    ] {
        assert_eq!(said_to(&server, bytes).await, "");
    }
    is_well(&server).await;
}
