//! Where connections come from: TCP and Unix domain sockets, several at once.

use std::fmt;
use std::fs;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::task::{Context, Poll};

use tokio::net::{TcpListener, UnixListener, UnixSocket, UnixStream};

use super::stream::{Peer, Stream};

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
    Unix(UnixListener, SocketFile),
}

impl Listener {
    /// Binds an address. `socket_mode` are the permissions of a Unix socket:
    /// who may write to it may call.
    pub(super) async fn bind(address: &Address, socket_mode: u32) -> Result<Listener, BindError> {
        match address {
            Address::Tcp(address) => bind_tcp(*address).await,
            Address::Unix(path) => bind_unix(path, socket_mode)
                .await
                .map(|(listener, file)| Listener::Unix(listener, file)),
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
            Listener::Unix(_, file) => Address::Unix(file.path.clone()),
        }
    }

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<(Stream, Peer)>> {
        match self {
            Listener::Tcp(listener, _) => listener
                .poll_accept(context)
                .map_ok(|(stream, peer)| (Stream::Tcp(stream), Peer::Tcp(peer))),
            Listener::Unix(listener, _) => listener.poll_accept(context).map_ok(|(stream, _)| {
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

/// A Unix socket's file, removed when it is let go of.
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and inode: a later server may have put its own in this place.
    identity: (u64, u64),
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<SocketFile> {
        Ok(SocketFile {
            path: path.to_owned(),
            identity: identity(path)?,
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the socket");
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

async fn bind_tcp(address: SocketAddr) -> io::Result<Listener> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok(Listener::Tcp(listener, address))
}

async fn bind_unix(path: &Path, mode: u32) -> io::Result<(UnixListener, SocketFile)> {
    remove_stale(path).await?;
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    let file = SocketFile::of(path)?;
    // Before it listens: nobody connects by looser permissions.
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok((socket.listen(BACKLOG)?, file))
}

/// Removes the socket that a server left behind which was killed. One that is
/// listened on stays, and so does whatever is no socket.
async fn remove_stale(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "there is a file of this name, and it is no socket",
        ));
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            tracing::info!(path = %path.display(), "removing a socket that nobody listens on");
            fs::remove_file(path)
        }
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another server listens there",
        )),
        // Busy, or not ours to ask: somebody may listen.
        Err(error) => Err(error),
    }
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
