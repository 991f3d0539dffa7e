//! Where connections come from: TCP and Unix domain sockets, several at once.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::task::{Context, Poll};

use tokio::net::{TcpListener, UnixListener};

use super::stream::{Peer, Stream};
use super::unix::{self, SocketFile};

/// How many connections may wait to be accepted: what tokio asks for TCP.
const BACKLOG: u32 = 1024;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An IP address and a port; port 0 takes a free one.
    Tcp(SocketAddr),
    /// A path in the file system.
    Unix(PathBuf),
}

impl Address {
    /// How a client names it. TLS is spoken over TCP alone.
    pub fn uri(&self, tls: bool) -> String {
        match self {
            Address::Tcp(address) if tls => format!("https://{address}"),
            Address::Tcp(address) => format!("http://{address}"),
            Address::Unix(_) => self.to_string(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// What is no address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not an IP address and a port, such as 127.0.0.1:50051 or [::1]:0, nor a socket's path, such as unix:./loyd.sock"
)]
pub struct AddressError;

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        match text.strip_prefix("unix:") {
            Some("") => Err(AddressError),
            Some(path) => Ok(Address::Unix(path.into())),
            None => text.parse().map(Address::Tcp).map_err(|_| AddressError),
        }
    }
}

/// Why an address can't be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {reason}")]
pub struct BindError {
    /// The address.
    pub address: Address,
    /// What the system said.
    #[source]
    pub reason: io::Error,
}

/// A socket that is listened on.
pub(super) enum Listener {
    Tcp(TcpListener, SocketAddr),
    /// The file goes first: see [`SocketFile`].
    Unix(SocketFile, UnixListener),
}

impl Listener {
    /// Binds an address. `socket_mode` are the permissions of a Unix socket:
    /// who may write to it may call.
    pub(super) async fn bind(address: &Address, socket_mode: u32) -> Result<Listener, BindError> {
        match address {
            Address::Tcp(address) => bind_tcp(*address).await,
            Address::Unix(path) => unix::bind(path, socket_mode, BACKLOG)
                .await
                .map(|(file, listener)| Listener::Unix(file, listener)),
        }
        .map_err(|reason| BindError {
            address: address.clone(),
            reason,
        })
    }

    /// The address, with the port that was taken.
    pub(super) fn address(&self) -> Address {
        match self {
            Listener::Tcp(_, address) => Address::Tcp(*address),
            Listener::Unix(file, _) => Address::Unix(file.path().to_owned()),
        }
    }

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<(Stream, Peer)>> {
        match self {
            Listener::Tcp(listener, _) => listener
                .poll_accept(context)
                .map_ok(|(stream, peer)| (Stream::Tcp(stream), Peer::Tcp(peer))),
            Listener::Unix(_, listener) => listener.poll_accept(context).map_ok(|(stream, _)| {
                let peer = Peer::Unix(stream.peer_cred().ok());
                (Stream::Unix(stream), peer)
            }),
        }
    }
}

/// All that a server listens on.
pub(super) struct Listeners {
    all: Vec<Listener>,
    /// The listener whose turn is next: none waits for ever behind a busy one.
    next: usize,
}

impl Listeners {
    pub(super) fn new(all: Vec<Listener>) -> Listeners {
        Listeners { all, next: 0 }
    }

    /// The next connection, whatever it comes from.
    pub(super) async fn accept(&mut self) -> io::Result<(Stream, Peer)> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<io::Result<(Stream, Peer)>> {
        let (before, after) = self.all.split_at(self.next.min(self.all.len()));
        for (turn, listener) in after.iter().chain(before).enumerate() {
            let accepted = listener.poll_accept(context);
            if accepted.is_ready() {
                self.next = (self.next + turn + 1) % self.all.len();
                return accepted;
            }
        }
        Poll::Pending
    }
}

async fn bind_tcp(address: SocketAddr) -> io::Result<Listener> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok(Listener::Tcp(listener, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_alike() {
        for text in [
            "127.0.0.1:50051",
            "[::1]:0",
            "unix:./loyd.sock",
            "unix:/run/a b",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "unix:",
            "localhost:1",
            "127.0.0.1",
            "[::1]",
            "127.0.0.1:65536",
        ] {
            assert_eq!(text.parse::<Address>(), Err(AddressError), "{text}");
        }
    }

    #[test]
    fn tls_is_named_for_tcp_alone() {
        let tcp: Address = "[::1]:1".parse().unwrap();
        let unix: Address = "unix:a".parse().unwrap();
        assert_eq!(tcp.uri(false), "http://[::1]:1");
        assert_eq!(tcp.uri(true), "https://[::1]:1");
        assert_eq!(unix.uri(true), "unix:a");
    }
}
