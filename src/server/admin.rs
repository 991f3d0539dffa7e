//! The operator's own listener: metrics, and whether the server lives and is
//! ready. Plain HTTP/1.1, a request a connection, for whoever may reach it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::Phase;
use super::listener::{Address, BindError};
use super::refusals::Refusals;
use crate::telemetry::Metrics;

/// The most connections at once: probes and a few scrapers need a handful. For
/// one more the oldest is closed. Those who ask are answered within
/// milliseconds, so it is one that says or reads nothing, and such peers can't
/// keep a probe from its answer.
const MAX_CONNECTIONS: usize = 64;

/// How long a connection may take, from its first byte to the last of its
/// answer: probes give up sooner.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The most bytes of a request's headers: the least that hyper takes.
const MAX_HEADER_BYTES: usize = 8 << 10;

/// The text format of Prometheus.
const METRICS_TYPE: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4");
const TEXT_TYPE: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// A listener that is bound and not yet served.
pub(super) struct Admin {
    listener: TcpListener,
    address: SocketAddr,
}

impl Admin {
    pub(super) async fn bind(address: SocketAddr) -> Result<Admin, BindError> {
        let because = |reason| BindError {
            address: Address::Tcp(address),
            reason,
        };
        let listener = TcpListener::bind(address).await.map_err(because)?;
        let address = listener.local_addr().map_err(because)?;
        Ok(Admin { listener, address })
    }

    /// The address, with the port that was taken.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is dropped, connections included.
    pub(super) async fn serve(self, metrics: Metrics, phase: watch::Receiver<Phase>) {
        let life = metrics.life();
        let refusals = Refusals::new(life, "an admin connection");
        let mut connections = JoinSet::new();
        // The oldest first, those that have ended among them.
        let mut open = VecDeque::new();
        loop {
            let accepted = tokio::select! {
                biased;
                // Ended connections are let go of before new ones are counted.
                Some(_) = connections.join_next() => continue,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    open.retain(|connection: &AbortHandle| !connection.is_finished());
                    if open.len() >= MAX_CONNECTIONS
                        && let Some(oldest) = open.pop_front()
                    {
                        life.admin_closed.inc();
                        oldest.abort();
                    }
                    let answered = answer_one(stream, metrics.clone(), phase.clone());
                    open.push_back(connections.spawn(answered));
                }
                Err(error) => refusals.wait(&error).await,
            }
        }
    }
}

/// Answers the one request of a connection.
async fn answer_one(stream: TcpStream, metrics: Metrics, phase: watch::Receiver<Phase>) {
    let service = service_fn(|request| {
        let response = answer(&request, &metrics, *phase.borrow());
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(TIMEOUT)
        .keep_alive(false)
        .max_buf_size(MAX_HEADER_BYTES);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(TIMEOUT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "admin connection ended"),
        Err(_) => tracing::debug!("admin connection took too long; closed"),
    }
}

fn answer(request: &Request<Incoming>, metrics: &Metrics, phase: Phase) -> Response<String> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed);
        return response;
    }
    match request.uri().path() {
        "/metrics" => match metrics.render() {
            Ok(body) => {
                let mut response = Response::new(body);
                response.headers_mut().insert(CONTENT_TYPE, METRICS_TYPE);
                response
            }
            Err(error) => {
                tracing::error!(%error, "cannot write the metrics");
                text(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "cannot write the metrics\n",
                )
            }
        },
        "/livez" => text(StatusCode::OK, "alive\n"),
        "/readyz" => match phase {
            Phase::Starting => text(StatusCode::SERVICE_UNAVAILABLE, "starting\n"),
            Phase::Serving => text(StatusCode::OK, "ready\n"),
            Phase::Stopping => text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
        },
        _ => text(
            StatusCode::NOT_FOUND,
            "there are /metrics, /livez and /readyz\n",
        ),
    }
}

fn text(status: StatusCode, body: &str) -> Response<String> {
    let mut response = Response::new(body.to_owned());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, TEXT_TYPE);
    response
}
