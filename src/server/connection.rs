//! One HTTP/2 connection, from its preface to its end.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tonic::body::Body;
use tonic::service::Routes;

use super::deadline;
use super::lifetime::{self, CallBody, Calls};
use super::stream::{Peer, Stream};
use super::tls::Tls;

/// The bytes a client sends first of all: the preface (RFC 9113, section 3.4)
/// and the header of its SETTINGS frame.
const HELLO_BYTES: usize = 24 + 9;

/// The smallest message worth planning for, in bytes on the wire: one packed
/// 3x3 board, framed.
const SMALL_MESSAGE: u64 = 20;

/// h2 charges a DATA frame under this many bytes as if it had as many.
const CHARGED_FRAME: u64 = 256;

/// What a connection is given.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionSettings {
    /// The most streams that are open at once.
    pub max_streams: u32,
    /// The bytes a client may send on a stream before they are read. What a
    /// connection makes us keep is at most `max_streams` times this and the
    /// message that is being read.
    pub stream_window: u32,
    /// The most bytes of a frame that a client may send.
    pub max_frame_bytes: u32,
    /// The most streams that a client may have reset before we looked at them:
    /// the bound on a rapid reset (CVE-2023-44487).
    pub max_pending_resets: usize,
    /// The most streams that we may have had to reset for a client's faults.
    pub max_local_resets: usize,
    /// How long a client may take to say that it speaks HTTP/2.
    pub hello_timeout: Duration,
    /// How long a connection may be silent before it is pinged.
    pub keepalive_interval: Duration,
    /// How long the answer to a ping may take.
    pub keepalive_timeout: Duration,
    /// The longest that a call may take, whatever it asks for.
    pub max_deadline: Option<Duration>,
    /// The most bytes of a request's headers.
    pub max_header_bytes: u32,
    /// How long a connection may be without a call.
    pub idle_timeout: Option<Duration>,
    /// How old a connection may get, by a tenth more or less, before its
    /// client is told to open another.
    pub max_age: Option<Duration>,
    /// How long its calls may then go on.
    pub max_age_grace: Duration,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        ConnectionSettings {
            max_streams: 100,
            stream_window: 64 << 10,
            max_frame_bytes: 16 << 10,
            max_pending_resets: 20,
            max_local_resets: 1024,
            hello_timeout: Duration::from_secs(10),
            keepalive_interval: Duration::from_secs(60),
            keepalive_timeout: Duration::from_secs(20),
            // A pipeline may stream for days.
            max_deadline: None,
            max_header_bytes: 16 << 10,
            idle_timeout: None,
            max_age: None,
            max_age_grace: Duration::from_secs(60),
        }
    }
}

impl ConnectionSettings {
    /// The connection's own window.
    ///
    /// h2 charges `256 - len` for every unread DATA frame of `len < 256` bytes
    /// and closes the whole connection (`too_many_data_frames`) when the sum
    /// passes half the connection's window. So that even `max_streams` streams
    /// full of small unread messages keep their connection:
    ///
    /// `window / 2 >= max_streams * stream_window * (256 - len) / len`
    ///
    /// The window is only a permission: what is kept unread stays bounded by
    /// `max_streams * stream_window`.
    fn connection_window(&self) -> u32 {
        /// The largest window there is (RFC 9113, section 6.9.1).
        const LARGEST: u32 = (1 << 31) - 1;
        let unread = u64::from(self.max_streams) * u64::from(self.stream_window);
        let charged = unread.saturating_mul(CHARGED_FRAME - SMALL_MESSAGE) / SMALL_MESSAGE;
        u32::try_from(charged.saturating_mul(2))
            .unwrap_or(LARGEST)
            .min(LARGEST)
    }
}

/// Serves a connection, after its handshake where it is one of TLS, until it
/// ends, or until `drain` turns true and its running calls have ended.
pub(super) async fn serve(
    stream: Stream,
    peer: Peer,
    tls: Option<Arc<Tls>>,
    routes: Routes,
    settings: ConnectionSettings,
    mut drain: watch::Receiver<bool>,
) {
    let stream = match (stream, tls) {
        (Stream::Tcp(stream), Some(tls)) => tokio::select! {
            shaken = tls.handshake(stream) => match shaken {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::debug!(%peer, %error, "no TLS handshake; connection closed");
                    return;
                }
            },
            // It has asked for nothing yet.
            _ = drain.wait_for(|drain| *drain) => return,
        },
        (stream, _) => stream,
    };
    serve_http(stream, peer, routes, settings, drain).await;
}

/// Serves the calls of a connection.
async fn serve_http(
    stream: Stream,
    peer: Peer,
    routes: Routes,
    settings: ConnectionSettings,
    mut drain: watch::Receiver<bool>,
) {
    let (io, received) = Counted::new(stream);
    let calls = settings.idle_timeout.map(|_| Calls::new());
    let service = {
        let calls = calls.clone();
        service_fn(move |request: hyper::Request<Incoming>| {
            let call = calls.as_ref().map(Calls::begin);
            let response = deadline::call(
                routes.clone(),
                request.map(Body::new),
                settings.max_deadline,
            );
            async move {
                let response = response.await?;
                Ok::<_, Infallible>(match call {
                    Some(call) => response.map(|inner| Body::new(CallBody { inner, _call: call })),
                    None => response,
                })
            }
        })
    };
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(settings.stream_window)
        .initial_connection_window_size(settings.connection_window())
        .max_concurrent_streams(settings.max_streams)
        .max_header_list_size(settings.max_header_bytes)
        .max_frame_size(settings.max_frame_bytes)
        .max_pending_accept_reset_streams(settings.max_pending_resets)
        .max_local_error_reset_streams(settings.max_local_resets)
        .keep_alive_interval(settings.keepalive_interval)
        .keep_alive_timeout(settings.keepalive_timeout);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(io), service));
    let mut hello = std::pin::pin!(tokio::time::sleep(settings.hello_timeout));
    let mut old = std::pin::pin!(lifetime::after(settings.max_age.map(lifetime::jittered)));
    let mut idle = std::pin::pin!(idle(calls, settings.idle_timeout));
    let mut grace = std::pin::pin!(lifetime::after(None));
    let mut said_hello = false;
    let mut draining = false;
    let mut leaving = false;
    loop {
        let go_away = tokio::select! {
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(%peer, %error, "connection ended");
                }
                return;
            }
            () = &mut hello, if !said_hello => {
                if received.load(Ordering::Relaxed) < HELLO_BYTES {
                    tracing::debug!(%peer, "no HTTP/2 preface came; connection closed");
                    return;
                }
                said_hello = true;
                false
            }
            // An error means that the server is gone, which is a drain too.
            _ = drain.wait_for(|drain| *drain), if !draining => {
                draining = true;
                true
            }
            () = &mut old, if !leaving => {
                tracing::debug!(%peer, "connection is old; its client is to open another");
                grace.set(lifetime::after(Some(settings.max_age_grace)));
                leaving = true;
                true
            }
            () = &mut idle, if !leaving => {
                tracing::debug!(%peer, "connection is idle");
                leaving = true;
                true
            }
            () = &mut grace => {
                tracing::debug!(%peer, "connection is old; its calls are cut");
                return;
            }
        };
        if go_away {
            if received.load(Ordering::Relaxed) < HELLO_BYTES {
                // It has asked for nothing, and hyper would wait for it.
                return;
            }
            connection.as_mut().graceful_shutdown();
        }
    }
}

/// Resolves once the connection was idle for its time; never without one.
async fn idle(calls: Option<Calls>, timeout: Option<Duration>) {
    match (calls, timeout) {
        (Some(calls), Some(timeout)) => calls.idle_for(timeout).await,
        _ => std::future::pending().await,
    }
}

/// An I/O stream that counts the bytes it received.
struct Counted<T> {
    io: T,
    received: Arc<AtomicUsize>,
}

impl<T> Counted<T> {
    fn new(io: T) -> (Counted<T>, Arc<AtomicUsize>) {
        let received = Arc::new(AtomicUsize::new(0));
        (
            Counted {
                io,
                received: Arc::clone(&received),
            },
            received,
        )
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Counted<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(context, buffer);
        self.received
            .fetch_add(buffer.filled().len() - before, Ordering::Relaxed);
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Counted<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
