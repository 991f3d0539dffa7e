//! TLS and mutual TLS: who is served, who is refused, and new certificates.

use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use loyd::server::{Config, Tls, TlsSettings};
use loyd::service::Settings;
use loyd::wire::v1::solver_service_client::SolverServiceClient;
use rcgen::SanType;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, ClientTlsConfig};

use crate::certificates::{Authority, Files, Pair, dns, email, uri};
use crate::command_line::loyd;
use crate::server_life::Process;
use crate::support::{PATIENCE, Server, batch, packed, soon, spread};

fn settings(files: &Files) -> TlsSettings {
    TlsSettings {
        certificate: files.path("cert.pem"),
        key: files.path("key.pem"),
        client_ca: None,
        allowed_clients: Vec::new(),
        handshake_timeout: PATIENCE,
    }
}

async fn serve(settings: TlsSettings) -> Server {
    let config = Config {
        tls: Some(Arc::new(Tls::load(settings).unwrap())),
        ..Config::default()
    };
    Server::with(Settings::default(), config).await
}

/// A server that asks for certificates of an authority.
async fn serve_mutually(
    authority: &Authority,
    clients: &Authority,
    allowed: &[&str],
) -> (Server, Files) {
    let files = Files::new(&authority.server());
    files.write("clients.pem", &clients.pem);
    let settings = TlsSettings {
        client_ca: Some(files.path("clients.pem")),
        allowed_clients: allowed.iter().map(|name| name.parse().unwrap()).collect(),
        ..settings(&files)
    };
    (serve(settings).await, files)
}

/// Connects and calls: a client that is refused may hear it in either.
async fn call(address: &str, tls: ClientTlsConfig) -> Result<SolverServiceClient<Channel>, String> {
    let channel = Channel::from_shared(format!("https://{address}"))
        .unwrap()
        .tls_config(tls)
        .unwrap();
    let channel = soon(channel.connect())
        .await
        .map_err(|error| format!("{error:?}"))?;
    let mut client = SolverServiceClient::new(channel);
    let answers = batch(&mut client, vec![packed(1, &spread(1))])
        .await
        .map_err(|status| format!("{status:?}"))?;
    assert_eq!(answers.len(), 1);
    Ok(client)
}

async fn call_as(server: &Server, authority: &Authority, pair: &Pair) -> bool {
    let tls = authority.trusted().identity(pair.identity());
    call(&server.address.to_string(), tls).await.is_ok()
}

#[tokio::test]
async fn those_who_trust_the_certificate_are_served() {
    let authority = Authority::new();
    let files = Files::new(&authority.server());
    let server = serve(settings(&files)).await;
    let address = server.address.to_string();
    call(&address, authority.trusted()).await.unwrap();
    let by_name = authority.trusted().domain_name("loyd.test");
    call(&address, by_name).await.unwrap();
    let by_another = authority.trusted().domain_name("other.test");
    call(&address, by_another).await.unwrap_err();
    call(&address, Authority::new().trusted())
        .await
        .unwrap_err();
}

#[tokio::test]
async fn plain_text_is_not_served() {
    let files = Files::new(&Authority::new().server());
    let server = serve(settings(&files)).await;
    let called = async {
        let mut client = SolverServiceClient::connect(format!("http://{}", server.address))
            .await
            .ok()?;
        batch(&mut client, vec![packed(1, &spread(1))]).await.ok()
    };
    assert!(soon(called).await.is_none());
}

/// What a client that offers this protocol gets.
async fn negotiate(server: &Server, authority: &Authority, protocol: &[u8]) -> Option<Vec<u8>> {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap();
    roots.add(root).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = tokio::net::TcpStream::connect(server.address)
        .await
        .unwrap();
    let name = ServerName::IpAddress(server.address.ip().into());
    let connected = soon(TlsConnector::from(Arc::new(config)).connect(name, stream)).await;
    connected.ok()?.get_ref().1.alpn_protocol().map(Vec::from)
}

#[tokio::test]
async fn alpn_chooses_http_2() {
    let authority = Authority::new();
    let files = Files::new(&authority.server());
    let server = serve(settings(&files)).await;
    assert_eq!(
        negotiate(&server, &authority, b"h2").await,
        Some(b"h2".to_vec())
    );
    assert_eq!(negotiate(&server, &authority, b"nonsense/1").await, None);
}

#[tokio::test]
async fn a_client_without_the_right_certificate_is_refused() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let (server, _files) = serve_mutually(&authority, &clients, &[]).await;
    let address = server.address.to_string();
    call(&address, authority.trusted()).await.unwrap_err();
    let stranger = Authority::new().client(dns("batch.test"));
    assert!(!call_as(&server, &authority, &stranger).await);
    assert!(call_as(&server, &authority, &clients.client(dns("batch.test"))).await);
}

#[tokio::test]
async fn only_allowed_clients_are_served() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let allowed = ["Batch.test", "spiffe://loyd.test/batch", "ops@loyd.test"];
    let (server, _files) = serve_mutually(&authority, &clients, &allowed).await;
    let cases: [(SanType, bool); 8] = [
        (dns("batch.test"), true),
        (dns("other.test"), false),
        (uri("spiffe://loyd.test/batch"), true),
        (uri("spiffe://loyd.test/batch/more"), false),
        (email("ops@loyd.test"), true),
        (email("else@loyd.test"), false),
        // A name of one kind is no name of another.
        (uri("batch.test"), false),
        (dns("ops@loyd.test"), false),
    ];
    for (name, served) in cases {
        let shown = format!("{name:?}");
        let pair = clients.client(name);
        assert_eq!(call_as(&server, &authority, &pair).await, served, "{shown}");
    }
}

#[tokio::test]
async fn a_handshake_that_takes_too_long_is_cut() {
    let files = Files::new(&Authority::new().server());
    let server = serve(TlsSettings {
        handshake_timeout: Duration::from_millis(100),
        ..settings(&files)
    })
    .await;
    let address = server.address;
    let silent = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.read_to_end(&mut Vec::new())
    });
    assert_eq!(soon(silent).await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn a_handshake_does_not_hold_up_a_drain() {
    let files = Files::new(&Authority::new().server());
    let mut server = serve(settings(&files)).await;
    let _silent = TcpStream::connect(server.address).unwrap();
    server.stop();
    assert_eq!(server.stopped().await, loyd::server::Drained::Cleanly);
}

fn start(files: &Files) -> Process {
    Process::logged(&[
        "--tls-cert",
        &files.text("cert.pem"),
        "--tls-key",
        &files.text("key.pem"),
    ])
}

fn address(process: &Process) -> String {
    process.uri.strip_prefix("https://").unwrap().to_owned()
}

#[tokio::test]
async fn changed_certificates_are_used_and_connections_stay() {
    let (first, second) = (Authority::new(), Authority::new());
    let files = Files::new(&first.server());
    let process = start(&files);
    let address = address(&process);

    let mut client = call(&address, first.trusted()).await.unwrap();
    let (sender, requests) = mpsc::channel(1);
    let mut responses = soon(client.solve_batch(ReceiverStream::new(requests)))
        .await
        .unwrap()
        .into_inner();
    files.put(&second.server());
    // Nobody asks for it: the files are looked at every few seconds.
    let renewed = async {
        while call(&address, second.trusted()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    soon(renewed).await;
    call(&address, first.trusted()).await.unwrap_err();
    sender.send(packed(7, &spread(1))).await.unwrap();
    assert_eq!(soon(responses.message()).await.unwrap().unwrap().id, 7);
}

#[tokio::test]
async fn a_bad_file_keeps_the_old_certificate_and_is_logged() {
    let authority = Authority::new();
    let files = Files::new(&authority.server());
    let process = start(&files);
    let address = address(&process);
    for (name, text, reason) in [
        ("cert.pem", "nonsense", "holds no certificate"),
        (
            "cert.pem",
            Authority::new().server().certificate.as_str(),
            "with the key",
        ),
        ("key.pem", "", "holds no private key"),
    ] {
        let good = std::fs::read_to_string(files.path(name)).unwrap();
        files.write(name, text);
        process.signal("-HUP");
        let line = process.await_log("the old ones stay");
        assert!(line.contains(reason) && line.contains(name), "{line}");
        call(&address, authority.trusted()).await.unwrap();
        files.write(name, &good);
    }
    process.signal("-HUP");
    process.await_log("the certificates have not changed");
}

#[test]
fn the_command_line_speaks_it() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let files = Files::new(&authority.server());
    files.write("ca.pem", &authority.pem);
    files.write("clients.pem", &clients.pem);
    let pair = clients.client(uri("spiffe://loyd.test/shell"));
    files.write("client.pem", &pair.certificate);
    files.write("client-key.pem", &pair.key);
    let path = |name: &str| files.text(name);
    let process = Process::start(&[
        "--tls-cert",
        &path("cert.pem"),
        "--tls-key",
        &path("key.pem"),
        "--tls-client-ca",
        &path("clients.pem"),
        "--tls-allow-client",
        "spiffe://loyd.test/shell",
    ]);
    let (ca, cert, key) = (path("ca.pem"), path("client.pem"), path("client-key.pem"));
    let us = ["--tls-cert", &cert, "--tls-key", &key];
    let named = ["--tls-ca", &ca, "--tls-server-name", "loyd.test"];
    let run = |command: &[&str], more: &[&[&str]]| {
        let options = ["--connect", &process.uri];
        loyd(&[command, &options, &more.concat()].concat(), b"")
    };
    let solve = ["solve", "1 2 3 x 4 6 7 5 8"];
    let solved = run(&solve, &[&["--tls-ca", &ca], &us]);
    assert_eq!(solved.stdout, b"rdr\n");
    assert_eq!(run(&solve, &[&named, &us]).stdout, b"rdr\n");
    let bench = ["bench", "--count", "1000"];
    assert_eq!(run(&bench, &[&named, &us]).status.code(), Some(0));
    assert_eq!(run(&["health"], &[&named, &us]).status.code(), Some(0));

    // Who has no certificate is not told the health either.
    assert_eq!(run(&["health"], &[&named]).status.code(), Some(69));
    for (more, code, message) in [
        (vec![], 2, "https:// needs --tls-ca"),
        (
            vec!["--tls-ca", &ca, "--tls-cert", &cert],
            2,
            "needs --tls-key",
        ),
        (vec!["--tls-ca", "/nowhere"], 2, "cannot read /nowhere"),
        (
            vec!["--tls-ca", &path("clients.pem")],
            69,
            "invalid peer certificate",
        ),
        (
            vec!["--tls-ca", &ca, "--tls-server-name", "other.test"],
            69,
            "other.test",
        ),
    ] {
        let output = run(&solve, &[&more]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{more:?}: {said}");
        assert!(said.contains(message), "{more:?}: {said}");
    }
}

#[test]
fn unusable_files_end_it_with_exit_code_2() {
    let authority = Authority::new();
    let pair = authority.server();
    let files = Files::new(&pair);
    files.write("empty.pem", "");
    files.write("other.pem", &authority.server().key);
    let path = |name: &str| files.text(name);
    let run = |cert: &str, key: &str, ca: &str| {
        let options = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--tls-cert",
            cert,
            "--tls-key",
            key,
            "--tls-client-ca",
            ca,
        ];
        let output = loyd(&options, b"");
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    let (cert, key, empty, other) = (
        path("cert.pem"),
        path("key.pem"),
        path("empty.pem"),
        path("other.pem"),
    );
    assert!(run("/nowhere", &key, &cert).contains("cannot read /nowhere"));
    assert!(run(&empty, &key, &cert).contains("holds no certificate"));
    assert!(run(&cert, &empty, &cert).contains("holds no private key"));
    assert!(run(&cert, &other, &cert).contains("with the key"));
    assert!(run(&cert, &key, &empty).contains("holds no certificate"));
}

#[test]
fn the_command_line_gives_up_a_server_that_says_nothing() {
    let authority = Authority::new();
    let files = Files::new(&authority.server());
    files.write("ca.pem", &authority.pem);
    // The system accepts for it.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("https://{}", silent.local_addr().unwrap());
    let ca = files.text("ca.pem");
    let output = loyd(&["solve", "--connect", &uri, "--tls-ca", &ca, "123x"], b"");
    assert_eq!(output.status.code(), Some(69));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no answer within 10s"), "{said}");
}
