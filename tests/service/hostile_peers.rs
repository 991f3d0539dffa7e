//! Peers that break the protocol's spirit or letter: the server stays up, keeps
//! a bounded amount, and serves a polite client meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use loyd::wire::v1::solver_service_client::SolverServiceClient;

use crate::frames::{
    self, CONTINUATION, DATA, END_HEADERS, HEADERS, PING, PRIORITY, RST_STREAM, SETTINGS, frame,
    hello, setting, window_update,
};
use crate::memory_is_bounded::{BASE, watch};
use crate::server_life::Process;
use crate::support::{PATIENCE, batch, packed, soon, spread};

const SOLVE_BATCH: &str = "/loyd.v1.SolverService/SolveBatch";

/// A peer that connects again whenever it is thrown out.
struct Attack {
    ends: Arc<AtomicBool>,
    /// How often the server closed its connection.
    closed: Arc<AtomicUsize>,
    peers: Vec<JoinHandle<()>>,
}

impl Attack {
    /// From so many connections: `first`, and then `more` over and over, each
    /// time with the next number.
    fn begin(
        process: &Process,
        connections: usize,
        first: Vec<u8>,
        more: impl Fn(u32) -> Vec<u8> + Send + Clone + 'static,
    ) -> Attack {
        let ends = Arc::new(AtomicBool::new(false));
        let closed = Arc::new(AtomicUsize::new(0));
        let peers = (0..connections).map(|_| {
            let address = process.address().to_owned();
            let (ends, closed) = (Arc::clone(&ends), Arc::clone(&closed));
            let (first, more) = (first.clone(), more.clone());
            std::thread::spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    let Ok(mut peer) = TcpStream::connect(&address) else {
                        continue;
                    };
                    peer.set_nonblocking(true).unwrap();
                    let mut bytes = first.clone();
                    let mut number = 0;
                    while push(&mut peer, &bytes, &ends).is_ok() {
                        if ends.load(Ordering::Relaxed) {
                            return;
                        }
                        bytes = more(number);
                        number += 1;
                    }
                    closed.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        Attack {
            peers: peers.collect(),
            ends,
            closed,
        }
    }

    fn end(self) -> usize {
        self.ends.store(true, Ordering::Relaxed);
        for peer in self.peers {
            peer.join().unwrap();
        }
        self.closed.load(Ordering::Relaxed)
    }
}

/// Writes, and reads nothing; an error once the server has closed.
fn push(peer: &mut TcpStream, mut bytes: &[u8], ends: &AtomicBool) -> std::io::Result<()> {
    if bytes.is_empty() {
        // Nothing more to say: look whether the server is still there.
        std::thread::sleep(Duration::from_millis(5));
        let mut heard = [0; 4096];
        match peer.read(&mut heard) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
    }
    while !bytes.is_empty() && !ends.load(Ordering::Relaxed) {
        match peer.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The stream of a client's call of this number.
fn stream(number: u32) -> u32 {
    2 * (number % (1 << 29)) + 1
}

/// Nothing else is sent.
fn nothing(_: u32) -> Vec<u8> {
    Vec::new()
}

#[tokio::test]
async fn calls_that_are_reset_at_once() {
    let process = Process::start(&[]);
    let authority = process.address().to_owned();
    let attack = Attack::begin(&process, 2, hello(), move |number| {
        let stream = stream(number);
        let reset = frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
        [frames::call(stream, &authority, SOLVE_BATCH), reset].concat()
    });
    watch(&process, BASE).await;
    assert!(attack.end() > 0, "they are thrown out");
}

#[tokio::test]
async fn headers_that_grow_when_they_are_unpacked() {
    let process = Process::start(&[]);
    // HPACK: a field of 4,000 bytes that is remembered, then named by a byte.
    let mut block = vec![0x40, 1, b'a', 0x7f, 0xa1, 0x1e];
    block.extend([b'x'; 4_000]);
    block.extend([0xbe; 12_000]);
    let attack = Attack::begin(&process, 2, hello(), move |number| {
        frame(HEADERS, END_HEADERS, stream(number), &block)
    });
    watch(&process, BASE).await;
    attack.end();
}

#[tokio::test]
async fn headers_that_never_end() {
    let process = Process::start(&[]);
    for block in [
        vec![],
        vec![0; 1],
        frames::fields(&[("a", "b")]).repeat(1_000),
    ] {
        let begun = [hello(), frame(HEADERS, 0, 1, &block)].concat();
        let attack = Attack::begin(&process, 2, begun, move |_| {
            frame(CONTINUATION, 0, 1, &block)
        });
        watch(&process, BASE).await;
        assert!(attack.end() > 0, "they are thrown out");
    }
}

#[tokio::test]
async fn windows_that_are_never_opened() {
    let process = Process::start(&[]);
    let authority = process.address().to_owned();
    // All of them fit the window that a connection begins with: 64 KiB.
    let request = prost::Message::encode_to_vec(&packed(1, &spread(50)));
    let mut message = vec![0];
    message.extend((request.len() as u32).to_be_bytes());
    message.extend(request);
    // SETTINGS_INITIAL_WINDOW_SIZE: nothing may be sent to it.
    let first = [hello(), setting(4, 0)].concat();
    let attack = Attack::begin(&process, 4, first, move |number| {
        if number >= 100 {
            return Vec::new();
        }
        let stream = stream(number);
        let data = frame(DATA, 0, stream, &message);
        [frames::call(stream, &authority, SOLVE_BATCH), data].concat()
    });
    watch(&process, BASE + 400 * (128 << 10)).await;
    assert_eq!(attack.end(), 0, "they are slow, and not at fault");
}

#[tokio::test]
async fn windows_that_break_the_rules() {
    let process = Process::start(&[]);
    let authority = process.address().to_owned();
    const MOST: u32 = (1 << 31) - 1;
    let faults = [
        window_update(0, MOST),
        window_update(0, 0),
        setting(4, MOST + 1),
        frame(SETTINGS, 0, 0, &[0; 5]),
        frame(SETTINGS, 0, 1, &[]),
        frame(PING, 0, 0, &[0; 7]),
        frame(DATA, 0, 0, b"x"),
        frame(DATA, 0, 7, b"x"),
        frame(CONTINUATION, END_HEADERS, 1, &[]),
        frame(
            HEADERS,
            END_HEADERS,
            2,
            &frames::call_fields(&authority, SOLVE_BATCH),
        ),
        // Longer than we said that a frame may be.
        frame(DATA, 0, 1, &[0; 20_000]),
        b"not a frame at all, and quite some more of it".to_vec(),
    ];
    for fault in faults {
        let mut peer = TcpStream::connect(process.address()).unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        let bytes = [
            hello(),
            frames::call(1, &authority, SOLVE_BATCH),
            fault.clone(),
        ]
        .concat();
        peer.write_all(&bytes).unwrap();
        // Up to the end, which the server makes.
        let mut heard = Vec::new();
        match peer.read_to_end(&mut heard) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{fault:?}"),
        }
    }
    // Too much for a stream is that stream's end alone.
    let mut peer = TcpStream::connect(process.address()).unwrap();
    let bytes = [
        hello(),
        frames::call(1, &authority, SOLVE_BATCH),
        window_update(1, MOST),
    ];
    peer.write_all(&bytes.concat()).unwrap();
    watch(&process, BASE).await;
}

#[tokio::test]
async fn floods_of_frames_that_ask_for_an_answer_or_none() {
    let process = Process::start(&[]);
    let authority = process.address().to_owned();
    let call = [hello(), frames::call(1, &authority, SOLVE_BATCH)].concat();
    let floods = [
        frame(PING, 0, 0, &[0; 8]),
        frame(SETTINGS, 0, 0, &[]),
        setting(4, 1 << 20),
        frame(PRIORITY, 0, 3, &[0, 0, 0, 1, 7]),
        frame(DATA, 0, 1, &[]),
        // Of an unknown kind.
        frame(0xfa, 0, 0, &[0; 16]),
    ];
    let attacks: Vec<Attack> = floods
        .into_iter()
        .map(|flood| {
            let chunk = flood.repeat(200);
            Attack::begin(&process, 1, call.clone(), move |_| chunk.clone())
        })
        .collect();
    watch(&process, BASE).await;
    for attack in attacks {
        attack.end();
    }
}

#[tokio::test]
async fn hellos_that_take_their_time() {
    let process = Process::start(&["--hello-timeout", "500ms"]);
    let attack = Attack::begin(&process, 50, vec![], |number| {
        std::thread::sleep(Duration::from_millis(100));
        hello()
            .get(number as usize..=number as usize)
            .unwrap_or_default()
            .to_vec()
    });
    watch(&process, BASE).await;
    assert!(attack.end() >= 50, "they are let go");
}

#[tokio::test]
async fn more_streams_than_there_may_be() {
    let process = Process::start(&[]);
    let authority = process.address().to_owned();
    let attack = Attack::begin(&process, 4, hello(), move |number| {
        if number >= 5_000 {
            return nothing(number);
        }
        frames::call(stream(number), &authority, SOLVE_BATCH)
    });
    watch(&process, BASE).await;
    attack.end();
}

#[tokio::test]
async fn more_connections_than_there_may_be_open_files() {
    let mut command = Command::new("sh");
    let script = "ulimit -n 40 && exec \"$0\" serve --listen 127.0.0.1:0 --hello-timeout 1s";
    command.args(["-c", script, env!("CARGO_BIN_EXE_loyd")]);
    let process = Process::run(command, 1, Stdio::null());
    let mut polite = SolverServiceClient::connect(process.uri.clone())
        .await
        .unwrap();
    let ask = |id| vec![packed(id, &spread(10))];
    batch(&mut polite, ask(1)).await.unwrap();
    let open: Vec<_> = (0..100)
        .map(|_| TcpStream::connect(process.address()).unwrap())
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    // Who is connected is served,
    assert_eq!(batch(&mut polite, ask(2)).await.unwrap().len(), 1);
    // and so is the next, once there is room.
    let newcomer = SolverServiceClient::connect(process.uri.clone());
    let mut newcomer = soon(newcomer).await.unwrap();
    assert_eq!(batch(&mut newcomer, ask(3)).await.unwrap().len(), 1);
    drop(open);
}
