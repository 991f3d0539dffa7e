//! One connection, from its first byte to its end.

use std::convert::Infallible;
use std::fmt::Display;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::time::{Instant, timeout_at};
use tonic::body::Body;

use super::call::Handler;
use super::hello::{Hello, PREFACE, hear, refuse_http1};
use super::http1::Requests;
use super::lifetime;
use super::outgoing::Outgoing;
use super::protocol::{self, Protocol, Refusal};
use super::stream::{Peer, Stream};
use super::tls::Tls;
use super::web::Web;
use super::wire::{Counted, Traffic};

/// The bytes a client of HTTP/2 sends first of all: the preface and the header
/// of its SETTINGS frame.
const HTTP2_HELLO_BYTES: usize = PREFACE.len() + 9;

/// The least that HTTP/1.1 needs to read a request's headers.
const HTTP1_LEAST_BUFFER: usize = 8 << 10;

/// A connection that was told to go, has no call running, and on which nothing
/// was sent in so many checks is let go of.
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
    /// How long a client may take to say that it speaks HTTP/2, and by HTTP/1.1
    /// for the headers of a request: those are looked at once in this time.
    pub hello_timeout: Duration,
    /// How long a connection may be silent before it is pinged.
    pub keepalive_interval: Duration,
    /// How long the answer to a ping may take.
    pub keepalive_timeout: Duration,
    /// How long a call over HTTP/1.1 may wait for its request, in all.
    pub web_request_timeout: Duration,
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
            // A page sends a message, not a stream, and a dead one sends nothing.
            web_request_timeout: Duration::from_secs(60),
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

/// What all connections share.
#[derive(Clone)]
pub(super) struct Serving {
    pub(super) handler: Handler,
    /// Whether browsers are served too.
    pub(super) web: Option<Web>,
    /// What TCP connections are secured by, if they are.
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) settings: ConnectionSettings,
}

/// Serves a connection until it ends, or until a drain begins and its running
/// calls have ended.
pub(super) async fn serve(stream: Stream, peer: Peer, serving: Serving) {
    let mut drain = serving.handler.drain.clone();
    let welcome = async {
        let mut stream = match (stream, serving.tls.clone()) {
            (Stream::Tcp(stream), Some(tls)) => tls.handshake(stream).await?,
            (stream, _) => stream,
        };
        let hello_ends = Instant::now() + serving.settings.hello_timeout;
        let (hello, before) = timeout_at(hello_ends, hear(&mut stream)).await??;
        Ok::<_, io::Error>((stream, hello, before, hello_ends))
    };
    tokio::select! {
        welcomed = welcome => match welcomed {
            Ok((stream, hello, before, hello_ends)) => {
                serve_http(stream, peer, serving, hello, before, hello_ends).await;
            }
            Err(error) => {
                tracing::debug!(%peer, %error, "connection ended before it began");
            }
        },
        // It has asked for nothing yet.
        () = drain.begins() => {}
    }
}

/// Serves the calls of a connection of which the first bytes were read.
async fn serve_http(
    stream: Stream,
    peer: Peer,
    serving: Serving,
    hello: Hello,
    before: Vec<u8>,
    hello_ends: Instant,
) {
    let Serving {
        handler,
        web,
        settings,
        ..
    } = serving;
    let (io, traffic) = Counted::new(stream, before);
    let io = TokioIo::new(io);
    let requests = (hello == Hello::Http1).then(|| Requests::new(Arc::clone(&traffic)));
    let life = Life {
        peer,
        traffic,
        handler: handler.clone(),
        requests: requests.clone(),
        settings,
        hello_ends,
        hello_bytes: match hello {
            Hello::Http2 => HTTP2_HELLO_BYTES,
            _ => 0,
        },
    };
    let is_web = web.is_some();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (handler, web) = (handler.clone(), web.clone());
        let request = request.map(Body::new);
        let asked = requests.as_ref().map(Requests::begin);
        // In a box: a call is 2.7 KB, which hyper would move ten times before it
        // first runs.
        Box::pin(async move {
            let spoken = protocol::of(&request, web.is_some());
            let is_as_made = matches!(spoken, Ok(Protocol::Grpc));
            let response = match (spoken, web) {
                (Ok(Protocol::Grpc), _) => handler.answer(request).await,
                (spoken, Some(web)) => {
                    let request_timeout = settings.web_request_timeout;
                    web.answer(handler, request, spoken, request_timeout).await
                }
                (Ok(Protocol::Web | Protocol::WebText), None) => {
                    Ok(Refusal::ContentType.into_response(false))
                }
                (Err(refusal), None) => Ok(refusal.into_response(false)),
            }?;
            let response = match asked {
                Some(asked) => asked.until_answered(response),
                None => response,
            };
            Ok::<_, Infallible>(if is_as_made {
                Outgoing::counted(response)
            } else {
                Outgoing::uncounted(response)
            })
        })
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
                // See `Requests`.
                .header_read_timeout(None)
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
    handler: Handler,
    /// What is asked by HTTP/1.1, if that is spoken.
    requests: Option<Requests>,
    settings: ConnectionSettings,
    hello_ends: Instant,
    /// What must have come by then.
    hello_bytes: usize,
}

impl Life {
    async fn lead<E: Display>(self, connection: impl GracefulConnection<Error = E>) {
        let Life {
            peer,
            traffic,
            handler,
            requests,
            settings,
            hello_ends,
            hello_bytes,
        } = self;
        let mut drain = handler.drain.clone();
        let mut connection = pin!(connection);
        let mut hello = pin!(tokio::time::sleep_until(hello_ends));
        let mut old = pin!(lifetime::after(settings.max_age.map(lifetime::jittered)));
        let mut idle = pin!(handler.calls.idle_for(settings.idle_timeout));
        let mut half_asked = pin!(async {
            match &requests {
                Some(requests) => requests.half_asked(settings.hello_timeout).await,
                None => std::future::pending().await,
            }
        });
        let mut grace = pin!(lifetime::after(None));
        let mut quiet = pin!(quiet(&handler, &traffic));
        let mut said_hello = false;
        let mut draining = false;
        let mut leaving = false;
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
                    continue;
                }
                () = drain.begins(), if !draining => draining = true,
                () = &mut old, if !leaving => {
                    tracing::debug!(%peer, "connection is old; its client is to open another");
                    grace.set(lifetime::after(Some(settings.max_age_grace)));
                }
                () = &mut idle, if !leaving => {
                    tracing::debug!(%peer, "connection is idle");
                }
                () = &mut half_asked => {
                    tracing::debug!(%peer, "half a request's headers came; connection closed");
                    return;
                }
                () = &mut grace => {
                    tracing::debug!(%peer, "connection is old; its calls are cut");
                    handler.caller.cut();
                    return;
                }
                () = &mut quiet, if leaving => {
                    tracing::debug!(%peer, "it has its answers and does not go; connection closed");
                    return;
                }
            }
            // Whatever the reason is, the client is to go.
            if traffic.received() < hello_bytes {
                // It has asked for nothing, and hyper would wait for it.
                return;
            }
            leaving = true;
            connection.as_mut().graceful_shutdown();
        }
    }
}

/// Resolves once nothing is owed to the client and nothing was sent to it for a
/// while. Begun when the client was told to go: it never says that it heard.
async fn quiet(handler: &Handler, traffic: &Traffic) {
    let mut sent_before = traffic.sent();
    let mut quiet_checks = 0;
    while quiet_checks < QUIET_CHECKS {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let sent = traffic.sent();
        let owes = handler.calls.are_running() || traffic.is_blocked();
        quiet_checks = if owes || sent != sent_before {
            0
        } else {
            quiet_checks + 1
        };
        sent_before = sent;
    }
}
