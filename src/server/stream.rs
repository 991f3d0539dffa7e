//! A connection's bytes, whatever it came over.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::UCred;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// Who is at the other end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Peer {
    /// By its address.
    Tcp(SocketAddr),
    /// By what the system says of its process, where it does.
    Unix(Option<UCred>),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Tcp(address) => address.fmt(f),
            Peer::Unix(None) => f.write_str("unix"),
            Peer::Unix(Some(peer)) => match peer.pid() {
                Some(pid) => write!(f, "unix (uid {}, pid {pid})", peer.uid()),
                None => write!(f, "unix (uid {})", peer.uid()),
            },
        }
    }
}

/// A stream of bytes both ways.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// Boxed: a session is far larger than a socket.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Without `TCP_NODELAY` a small answer waits 40 ms for company.
    pub(super) fn prepare(&self) {
        if let Stream::Tcp(stream) = self
            && let Err(error) = stream.set_nodelay(true)
        {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
    }
}

/// Calls the same method of whichever stream it is.
macro_rules! delegate {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match $self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).$method($($argument),*),
            Stream::Unix(stream) => Pin::new(stream).$method($($argument),*),
            Stream::Tls(stream) => Pin::new(stream).$method($($argument),*),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        delegate!(self.poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        delegate!(self.poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self.poll_shutdown(context))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self.poll_write_vectored(context, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Tcp(stream) => stream.is_write_vectored(),
            Stream::Unix(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
