//! One connection, from its first byte to its end.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::time::Instant;
use tonic::body::Body;

use super::call::Calls;
use super::hello::{Hello, PREFACE, hear, refuse_http1};
use super::stream::{Peer, Stream};
use super::web::Web;
use super::wire::{Counted, Traffic};

/// The bytes a client of HTTP/2 sends first of all: the preface and the header
/// of its SETTINGS frame.
const HTTP2_HELLO_BYTES: usize = PREFACE.len() + 9;

/// The least that HTTP/1.1 needs to read a request's headers.
const HTTP1_LEAST_BUFFER: usize = 8 << 10;

/// In a drain, a connection without an open call on which nothing was sent in
/// so many checks is let go of: its client never says that it heard the news.
const QUIET_CHECKS: u32 = 4;
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

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

/// What all connections share.
#[derive(Clone)]
pub(super) struct Serving {
    pub(super) calls: Calls,
    /// Whether browsers are served too.
    pub(super) web: Option<Web>,
    pub(super) settings: ConnectionSettings,
}

/// Serves a connection until it ends, or until a drain begins and its running
/// calls have ended.
pub(super) async fn serve(mut stream: Stream, peer: Peer, serving: Serving) {
    let Serving {
        calls,
        web,
        settings,
    } = serving;
    let hello_ends = Instant::now() + settings.hello_timeout;
    let mut drain = calls.drain.clone();
    let heard = tokio::select! {
        heard = hear(&mut stream) => heard,
        () = tokio::time::sleep_until(hello_ends) => {
            tracing::debug!(%peer, "nothing was asked in time; connection closed");
            return;
        }
        // It has asked for nothing.
        () = drain.begins() => return,
    };
    let (hello, before) = match heard {
        Ok(heard) => heard,
        Err(error) => {
            tracing::debug!(%peer, %error, "connection ended before it began");
            return;
        }
    };
    let (io, traffic) = Counted::new(stream, before);
    let io = TokioIo::new(io);
    let life = Life {
        peer,
        traffic,
        calls: calls.clone(),
        hello_ends,
        hello_bytes: match hello {
            Hello::Http2 => HTTP2_HELLO_BYTES,
            _ => 0,
        },
    };
    let is_web = web.is_some();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (calls, web) = (calls.clone(), web.clone());
        let request = request.map(Body::new);
        async move {
            match web {
                None => calls.answer(request).await,
                Some(web) => web.answer(calls, request).await,
            }
        }
    });
    match hello {
        Hello::Http2 => {
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
            life.lead(builder.serve_connection(io, service)).await;
        }
        Hello::Http1 if is_web => {
            let header_bytes = usize::try_from(settings.max_header_bytes).unwrap_or(usize::MAX);
            let mut builder = http1::Builder::new();
            builder
                .timer(TokioTimer::new())
                // Also ends a connection that is kept alive and asks nothing.
                .header_read_timeout(settings.keepalive_interval)
                .max_buf_size(header_bytes.max(HTTP1_LEAST_BUFFER));
            life.lead(builder.serve_connection(io, service)).await;
        }
        Hello::Http1 => {
            tracing::debug!(%peer, "HTTP/1.1 where HTTP/2 is spoken; connection refused");
            if let Err(error) = refuse_http1(io.into_inner()).await {
                tracing::debug!(%peer, %error, "refused connection ended");
            }
        }
        Hello::Tls => {
            tracing::debug!(%peer, "TLS where none is spoken; connection closed");
        }
        Hello::Unknown => {
            tracing::debug!(%peer, "neither HTTP/2 nor HTTP/1.1; connection closed");
        }
    }
}

/// When a connection ends.
struct Life {
    peer: Peer,
    traffic: Arc<Traffic>,
    calls: Calls,
    hello_ends: Instant,
    /// What must have come by then.
    hello_bytes: usize,
}

impl Life {
    async fn lead<E: std::fmt::Display>(self, connection: impl GracefulConnection<Error = E>) {
        let Life {
            peer,
            traffic,
            calls,
            hello_ends,
            hello_bytes,
        } = self;
        let mut drain = calls.drain.clone();
        let mut connection = std::pin::pin!(connection);
        let mut hello = std::pin::pin!(tokio::time::sleep_until(hello_ends));
        let mut said_hello = false;
        let mut draining = false;
        let mut checks = tokio::time::interval(CHECK_INTERVAL);
        let mut quiet_checks = 0;
        let mut sent_before = 0;
        loop {
            tokio::select! {
                ended = &mut connection => {
                    if let Err(error) = ended {
                        tracing::debug!(%peer, %error, "connection ended");
                    }
                    return;
                }
                () = &mut hello, if !said_hello => {
                    if traffic.received() < hello_bytes {
                        tracing::debug!(%peer, "no HTTP/2 preface came; connection closed");
                        return;
                    }
                    said_hello = true;
                }
                () = drain.begins(), if !draining => {
                    if traffic.received() < hello_bytes {
                        // It has asked for nothing, and hyper would wait for it.
                        return;
                    }
                    draining = true;
                    connection.as_mut().graceful_shutdown();
                }
                _ = checks.tick(), if draining => {
                    let sent = traffic.sent();
                    let owes = calls.open.of_connection() > 0 || traffic.is_blocked();
                    quiet_checks = if owes || sent != sent_before { 0 } else { quiet_checks + 1 };
                    sent_before = sent;
                    if quiet_checks == QUIET_CHECKS {
                        tracing::debug!(%peer, "it has its answers and does not go; connection closed");
                        return;
                    }
                }
            }
        }
    }
}
