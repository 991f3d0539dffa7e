//! The server's process: its address, its signals, its end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc as mpsc_std;
use std::time::{Duration, Instant};

use loyd::server::Config;
use loyd::service::Settings;
use loyd::wire::v1::solver_service_client::SolverServiceClient;
use loyd::wire::v1::{Algorithm, solve_batch_response};

use crate::support::{PATIENCE, Server, batch, packed, soon, spread};

/// A `loyd serve` of its own; killed where a test ends early.
pub struct Process {
    pub child: Child,
    /// The first of its addresses.
    pub uri: String,
    pub uris: Vec<String>,
    stdout: Option<BufReader<ChildStdout>>,
    log: Option<mpsc_std::Receiver<String>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    pub fn start(more: &[&str]) -> Process {
        Process::listening(&["127.0.0.1:0"], more)
    }

    pub fn listening(addresses: &[&str], more: &[&str]) -> Process {
        let listen = addresses.iter().flat_map(|address| ["--listen", address]);
        let options: Vec<&str> = listen.chain(more.iter().copied()).collect();
        Process::spawn(&options, addresses.len(), Stdio::null())
    }

    /// One whose log can be waited for.
    pub fn logged(more: &[&str]) -> Process {
        let mut process = Process::with_log(more, Stdio::piped());
        process.read_log();
        process
    }

    /// Begins to read the log, which was not read so far.
    pub fn read_log(&mut self) {
        let log = BufReader::new(self.child.stderr.take().unwrap());
        let (sender, receiver) = mpsc_std::channel();
        // Ends with the process.
        std::thread::spawn(move || {
            log.lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        self.log = Some(receiver);
    }

    /// Waits for the next line of the log with this text.
    pub fn await_log(&self, text: &str) -> String {
        let log = self.log.as_ref().expect("it was started with a log");
        loop {
            let line = log.recv_timeout(PATIENCE).expect("the line never comes");
            if line.contains(text) {
                return line;
            }
        }
    }

    /// What is left of the log, up to its end.
    pub fn rest_of_log(&self) -> Vec<String> {
        let log = self.log.as_ref().expect("it was started with a log");
        let mut lines = Vec::new();
        loop {
            match log.recv_timeout(PATIENCE) {
                Ok(line) => lines.push(line),
                Err(mpsc_std::RecvTimeoutError::Disconnected) => return lines,
                Err(error) => panic!("the log never ends: {error}"),
            }
        }
    }

    pub fn with_log(more: &[&str], log: Stdio) -> Process {
        let options = [&["--listen", "127.0.0.1:0"], more].concat();
        Process::spawn(&options, 1, log)
    }

    /// Starts it, and reads so many addresses from its standard output.
    pub fn spawn(options: &[&str], addresses: usize, log: Stdio) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loyd"));
        command.arg("serve").args(options);
        Process::run(command, addresses, log)
    }

    /// One of which only the log is read.
    pub fn unread(options: &[&str], stdout: Stdio) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loyd"));
        command.arg("serve").args(options).stdout(stdout);
        let mut process = Process {
            child: command.stderr(Stdio::piped()).spawn().unwrap(),
            uri: String::new(),
            uris: Vec::new(),
            stdout: None,
            log: None,
        };
        process.read_log();
        process
    }

    /// Runs a command that becomes a server.
    pub fn run(mut command: Command, addresses: usize, log: Stdio) -> Process {
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let uris: Vec<String> = stdout
            .by_ref()
            .lines()
            .take(addresses)
            .map(|line| {
                let line = line.unwrap();
                let uri = line.strip_prefix("listening on ");
                uri.expect("the first lines").to_owned()
            })
            .collect();
        Process {
            child,
            uri: uris[0].clone(),
            uris,
            stdout: Some(stdout),
            log: None,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        self.uri.strip_prefix("http://").unwrap()
    }

    /// Where its operator asks, by the line after its addresses.
    pub fn admin_address(&mut self) -> String {
        let mut line = String::new();
        let stdout = self.stdout.as_mut().expect("it is read");
        stdout.read_line(&mut line).unwrap();
        let address = line.strip_prefix("admin on http://");
        address.expect("the line after").trim_end().to_owned()
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
    }

    pub fn exit_code(&mut self) -> Option<i32> {
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server does not end");
    }
}

#[test]
fn signals_end_it_with_exit_code_0() {
    for signal in ["-TERM", "-INT"] {
        let mut process = Process::start(&[]);
        process.signal(signal);
        assert_eq!(process.exit_code(), Some(0), "{signal}");
    }
}

/// Its log says where it listens, too.
#[tokio::test]
async fn a_full_standard_output_holds_up_nothing() {
    let (_unread, mut full) = std::io::pipe().unwrap();
    // What a pipe holds on Linux.
    full.write_all(&[0; 64 << 10]).unwrap();
    let mut process = Process::unread(&["--listen", "127.0.0.1:0"], full.into());
    let line = process.await_log("serving uri=");
    let (_, uri) = line.split_once("uri=").unwrap();
    let uri = uri.split_whitespace().next().unwrap().to_owned();
    let mut client = soon(SolverServiceClient::connect(uri)).await.unwrap();
    let answers = batch(&mut client, vec![packed(1, &spread(1))]).await;
    assert_eq!(answers.unwrap().len(), 1);
    process.signal("-TERM");
    assert_eq!(process.exit_code(), Some(0));
}

#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut process = Process::with_log(&[], full.into());
    process.signal("-TERM");
    assert_eq!(process.exit_code(), Some(0));
}

#[test]
fn an_address_in_use_is_exit_code_69() {
    let process = Process::start(&[]);
    let address = process.uri.strip_prefix("http://").unwrap();
    let second = Command::new(env!("CARGO_BIN_EXE_loyd"))
        .args(["serve", "--listen", address])
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(69));
    assert!(String::from_utf8_lossy(&second.stderr).contains(address));
    assert!(second.stdout.is_empty());
}

#[tokio::test]
async fn a_peer_that_says_nothing_is_let_go() {
    let mut config = Config::default();
    config.connection.hello_timeout = Duration::from_millis(100);
    let server = Server::with(Settings::default(), config).await;
    let mut client = server.client().await;
    let address = server.address;
    let silent = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // What the server says, up to its end.
        stream.read_to_end(&mut Vec::new()).unwrap();
    });
    soon(silent).await.unwrap();
    // One that said hello in time is not.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(
        batch(&mut client, vec![packed(1, &spread(1))])
            .await
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn a_server_that_was_warmed_answers_by_its_tables() {
    let process = Process::start(&["--warm", "--default-algorithm", "goal-table"]);
    let mut client = SolverServiceClient::connect(process.uri.clone())
        .await
        .unwrap();
    let answers = batch(&mut client, vec![packed(1, &spread(100))])
        .await
        .unwrap();
    let Some(solve_batch_response::Results::Packed(results)) = &answers[0].results else {
        panic!("packed boards are answered packed");
    };
    let totals = results.totals.unwrap();
    assert_eq!(totals.algorithm(), Algorithm::GoalTable);
    assert_eq!((totals.expanded, totals.generated), (0, 0));
}

#[tokio::test]
async fn one_connection_too_many_is_closed_and_the_others_are_not() {
    let config = Config {
        max_connections: 2,
        ..Config::default()
    };
    let server = Server::with(Settings::default(), config).await;
    let mut first = server.client().await;
    let second = server.client().await;
    let address = server.address;
    let third = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.read_to_end(&mut Vec::new())
    });
    // Closed without a word, or reset: either way not served.
    assert!(matches!(soon(third).await.unwrap(), Ok(0) | Err(_)));
    assert_eq!(
        batch(&mut first, vec![packed(1, &spread(1))])
            .await
            .unwrap()
            .len(),
        1
    );
    drop(second);
    // Its place is free again.
    let mut tries = 0;
    while SolverServiceClient::connect(format!("http://{address}"))
        .await
        .is_err()
    {
        tries += 1;
        assert!(tries < 1_000);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
