//! Addresses to listen on: several at once, and Unix sockets' files.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use loyd::server::{Address, Bound};

use crate::command_line::loyd;
use crate::server_life::Process;
use crate::support::{PATIENCE, soon};

/// A directory, and the address of a socket in it.
fn socket() -> (tempfile::TempDir, PathBuf, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("loyd.sock");
    let address = format!("unix:{}", path.to_str().unwrap());
    (directory, path, address)
}

/// Locks a directory until the file is dropped.
fn lock(directory: &tempfile::TempDir) -> fs::File {
    let locked = fs::File::open(directory.path()).unwrap();
    rustix::fs::flock(&locked, rustix::fs::FlockOperation::LockExclusive).unwrap();
    locked
}

fn solves(uri: &str) -> bool {
    let output = loyd(&["solve", "1 2 3 x 4 6 7 5 8", "--connect", uri], b"");
    output.stdout == b"rdr\n"
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

/// Starts a server that can't listen on this, and returns what it says.
fn refused(addresses: &[&str]) -> String {
    let listen = addresses
        .iter()
        .flat_map(|address| ["--listen", address])
        .collect::<Vec<_>>();
    let output = loyd(&[&["serve"], &listen[..]].concat(), b"");
    assert_eq!(output.status.code(), Some(69));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn every_address_is_told_and_served() {
    let (_directory, _, unix) = socket();
    let process = Process::listening(&["127.0.0.1:0", &unix, "[::1]:0"], &[]);
    let [first, second, third] = &process.uris[..] else {
        panic!("{:?}", process.uris);
    };
    assert!(first.starts_with("http://127.0.0.1:"), "{first}");
    assert_eq!(*second, unix);
    assert!(third.starts_with("http://[::1]:"), "{third}");
    for uri in &process.uris {
        assert!(solves(uri), "{uri}");
    }
}

#[test]
fn a_socket_has_its_mode_and_goes_with_the_server() {
    for (options, mode) in [(&[][..], 0o660), (&["--socket-mode", "0600"], 0o600)] {
        let (_directory, path, unix) = socket();
        let mut process = Process::listening(&[&unix], options);
        let permissions = fs::metadata(&path).unwrap().permissions();
        assert_eq!(permissions.mode() & 0o777, mode);
        process.signal("-TERM");
        assert_eq!(process.exit_code(), Some(0));
        assert!(!path.exists());
    }
}

#[test]
fn a_path_may_have_a_comma() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a,b.sock");
    let unix = format!("unix:{}", path.to_str().unwrap());
    let process = Process::listening(&[&unix], &[]);
    assert_eq!(process.uris, [unix.as_str()]);
    assert!(solves(&unix));
}

#[test]
fn a_socket_that_a_killed_server_left_is_replaced() {
    let (_directory, path, unix) = socket();
    let mut killed = Process::listening(&[&unix], &[]);
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    assert!(is_socket(&path));
    let _process = Process::listening(&[&unix], &[]);
    assert!(solves(&unix));
}

#[test]
fn of_many_servers_that_start_at_once_one_gets_the_socket() {
    const SERVERS: usize = 4;
    for _ in 0..5 {
        let (_directory, path, unix) = socket();
        // What a killed server leaves.
        drop(UnixListener::bind(&path).unwrap());
        let mut servers: Vec<Child> = (0..SERVERS)
            .map(|_| {
                Command::new(env!("CARGO_BIN_EXE_loyd"))
                    .args(["serve", "--listen", &unix])
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap()
            })
            .collect();
        let given_up = Instant::now() + PATIENCE;
        let mut refused = 0;
        while refused < SERVERS - 1 {
            assert!(Instant::now() < given_up, "only {refused} were refused");
            std::thread::sleep(Duration::from_millis(10));
            servers.retain_mut(|server| match server.try_wait().unwrap() {
                None => true,
                Some(status) => {
                    assert_eq!(status.code(), Some(69));
                    refused += 1;
                    false
                }
            });
        }
        // And it is the one whose socket is there.
        let answers = solves(&unix);
        let [last] = &mut servers[..] else {
            panic!("{refused} were refused");
        };
        let ended = last.try_wait().unwrap();
        last.kill().unwrap();
        last.wait().unwrap();
        assert_eq!(ended, None);
        assert!(answers);
    }
}

#[tokio::test]
async fn a_lock_that_is_never_given_back_is_waited_for_so_long() {
    let (directory, _, unix) = socket();
    let address: Address = unix.parse().unwrap();
    let locked = lock(&directory);
    let error = soon(Bound::to(std::slice::from_ref(&address), 0o600)).await;
    let said = error.err().unwrap().to_string();
    assert!(said.contains("locked by another process"), "{said}");
    drop(locked);
    soon(Bound::to(&[address], 0o600)).await.unwrap();
}

#[test]
fn who_waits_for_a_lock_can_be_stopped() {
    let (directory, path, address) = socket();
    let _locked = lock(&directory);
    let mut process = Process::unread(&["--listen", &address], Stdio::null());
    process.await_log("waiting for another server");
    process.signal("-TERM");
    // The lock is never given back: to have waited for it would be exit code 69.
    assert_eq!(process.exit_code(), Some(0));
    assert!(!path.exists());
}

#[test]
fn a_socket_that_is_listened_on_is_left_alone() {
    let (_directory, _, unix) = socket();
    let _process = Process::listening(&[&unix], &[]);
    let said = refused(&[&unix]);
    assert!(said.contains("another server listens there"), "{said}");
    assert!(said.contains(&unix), "{said}");
    assert!(solves(&unix));
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let (_directory, path, unix) = socket();
    fs::write(&path, "precious").unwrap();
    assert!(refused(&[&unix]).contains("it is no socket"));
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn all_addresses_are_bound_or_none() {
    let (_directory, path, unix) = socket();
    let process = Process::start(&[]);
    let taken = process.uri.strip_prefix("http://").unwrap();
    let said = refused(&[&unix, taken]);
    assert!(
        said.contains(&format!("cannot listen on {taken}")),
        "{said}"
    );
    assert!(!path.exists());
}

#[tokio::test]
async fn a_successors_socket_is_not_removed() {
    let (_directory, path, unix) = socket();
    let address: Address = unix.parse().unwrap();
    let bound = Bound::to(&[address], 0o600).await.unwrap();
    // Kept under another name, so that its inode is not used again.
    fs::rename(&path, path.with_extension("old")).unwrap();
    let _successor = UnixListener::bind(&path).unwrap();
    drop(bound);
    assert!(is_socket(&path));
}
