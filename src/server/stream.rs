//! A connection's bytes, whatever it came over.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::UCred;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

use super::connection::Serving;

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
    /// Sets what TCP is to do.
    pub(super) fn prepare(&self, serving: &Serving) {
        let Stream::Tcp(stream) = self else { return };
        // Else a small answer waits 40 ms for company.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        // HTTP/2 has pings of its own, HTTP/1.1 none.
        let settings = &serving.settings;
        if serving.web.is_some()
            && let Err(error) = keep_alive(
                stream,
                settings.keepalive_interval,
                settings.keepalive_timeout,
            )
        {
            tracing::debug!(%error, "cannot set SO_KEEPALIVE");
        }
    }
}

/// Has the system ask a peer that is silent for this interval whether it is
/// there, and end the connection where no answer comes within this time.
fn keep_alive(stream: &TcpStream, interval: Duration, timeout: Duration) -> io::Result<()> {
    /// How often it asks, since single packets get lost.
    const PROBES: u32 = 4;
    // What Linux takes.
    let seconds = |time: Duration| time.clamp(Duration::from_secs(1), Duration::from_secs(32_767));
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, seconds(interval))?;
    set_tcp_keepintvl(stream, seconds(timeout / PROBES))?;
    set_tcp_keepcnt(stream, PROBES)?;
    Ok(())
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
