//! Sockets and life: listening, connections, health, drain. It knows no
//! puzzles: it serves whatever routes it is given.

mod admin;
mod call;
mod client_identity;
mod connection;
mod deadline;
mod drain;
pub(crate) mod file;
mod health;
mod hello;
mod http1;
mod lifetime;
mod listener;
mod messages;
mod observe;
mod outgoing;
mod protocol;
mod refusals;
mod size_limit;
mod stream;
pub(crate) mod tls;
mod trailers;
mod unix;
mod web;
mod web_request;
mod wire;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::service::Routes;
use tracing::Instrument;

use admin::Admin;
use call::Handler;
pub use client_identity::{ClientIdentity, ClientIdentityError};
pub use connection::ConnectionSettings;
use connection::Serving;
use drain::Drain;
use health::Health;
use lifetime::Calls;
pub use listener::{Address, AddressError, BindError};
use listener::{Listener, Listeners};
use refusals::Refusals;
use size_limit::Limited;
pub use tls::{Tls, TlsError, TlsSettings};
use web::Web;
pub use web::{Origin, OriginError};

use crate::telemetry::Metrics;
use crate::telemetry::call::{Caller, Observer};
use crate::telemetry::metrics::{Life, Raised};
#[cfg(feature = "otlp")]
use crate::telemetry::otlp::Tracer;

/// How often the log is told of calls that were left out of it.
const LEFT_OUT_INTERVAL: Duration = Duration::from_secs(1);

/// How long calls that were cut may take to be told of, and how often that is
/// looked at: they only have to be woken.
const TOLD_TIMEOUT: Duration = Duration::from_secs(1);
const TOLD_CHECK: Duration = Duration::from_millis(5);

/// How to serve.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whether clients may list the services and their types.
    pub reflection: bool,
    /// How long connections and calls are still taken once the server is to
    /// stop and its health says so.
    pub drain_delay: Duration,
    /// How long running calls may take to end after that.
    pub drain_timeout: Duration,
    /// The most connections that are open at once; one more is closed at once,
    /// so that its client tries another replica.
    pub max_connections: usize,
    /// Where pages come from that may call by gRPC-Web; `None` where it is not
    /// spoken.
    pub web_origins: Option<Vec<Origin>>,
    /// What TCP connections are secured by, if they are. Unix sockets are not:
    /// their file's permissions say who may call.
    pub tls: Option<Arc<Tls>>,
    /// What every connection is given.
    pub connection: ConnectionSettings,
    /// What is counted.
    pub metrics: Metrics,
    /// The most lines of the log in a second that tell of calls which ended
    /// well, and as many of the others.
    pub call_log_rate: u32,
    /// Where the spans of calls are sent, if they are.
    #[cfg(feature = "otlp")]
    pub tracer: Option<Tracer>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            reflection: true,
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(30),
            max_connections: 1024,
            web_origins: None,
            tls: None,
            connection: ConnectionSettings::default(),
            metrics: Metrics::new(),
            // Some MB an hour at most.
            call_log_rate: 100,
            #[cfg(feature = "otlp")]
            tracer: None,
        }
    }
}

/// The services to offer.
pub struct Services {
    /// Those of the application.
    pub routes: Routes,
    /// Their names, for health checks.
    pub names: &'static [&'static str],
    /// Their encoded descriptor sets, for reflection.
    pub descriptors: &'static [&'static [u8]],
}

/// How a server came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Every connection ended by itself.
    Cleanly,
    /// Some were cut.
    Cut {
        /// So many connections, idle ones among them.
        connections: usize,
        /// So many calls that were not answered in full.
        calls: usize,
    },
}

/// How far a server's life has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Serving,
    /// From the signal to stop on.
    Stopping,
}

/// Sockets that are bound and not yet served.
pub struct Bound {
    listeners: Vec<Listener>,
    addresses: Vec<Address>,
    admin: Option<Admin>,
}

impl Bound {
    /// Binds all of these addresses, or none.
    ///
    /// `socket_mode` are the permissions of Unix sockets. A socket that a
    /// killed server left behind is replaced; the file goes when the server
    /// stops to listen.
    ///
    /// # Errors
    /// Where the system refuses one of them.
    pub async fn to(addresses: &[Address], socket_mode: u32) -> Result<Bound, BindError> {
        let mut bound = Bound {
            listeners: Vec::with_capacity(addresses.len()),
            addresses: Vec::with_capacity(addresses.len()),
            admin: None,
        };
        for address in addresses {
            let listener = Listener::bind(address, socket_mode).await?;
            bound.addresses.push(listener.address());
            bound.listeners.push(listener);
        }
        Ok(bound)
    }

    /// Also binds an address for the operator alone: metrics and probes, over
    /// HTTP/1.1.
    ///
    /// # Errors
    /// Where the system refuses it.
    pub async fn admin_on(&mut self, address: SocketAddr) -> Result<(), BindError> {
        self.admin = Some(Admin::bind(address).await?);
        Ok(())
    }

    /// The operator's address, with the port that was taken.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(Admin::address)
    }

    /// The addresses, in the order asked for, with the ports that were taken.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Serves until `stop` resolves; health says `SERVING` once `ready` did.
    ///
    /// Then health says `NOT_SERVING`, and after [`Config::drain_delay`] the
    /// server drains: no connection is accepted any more, open ones are told to
    /// go away, streams get the answers to what they sent and `UNAVAILABLE`,
    /// and running calls may end until [`Config::drain_timeout`]. When `cut`
    /// resolves, all that is left is cut at once.
    ///
    /// # Errors
    /// Where reflection can't be set up from [`Services::descriptors`].
    pub async fn serve(
        self,
        config: Config,
        services: Services,
        ready: impl Future<Output = ()>,
        stop: impl Future<Output = ()>,
        cut: impl Future<Output = ()>,
    ) -> Result<Drained, tonic_reflection::server::Error> {
        let (serving, health) = Health::new(services.names);
        let mut routes = services
            .routes
            .add_service(Limited::new(health.into_server()));
        if config.reflection {
            routes = add_reflection(routes, services.descriptors)?;
        }
        let observer = observer(&config, services.descriptors);
        let (draining, drain) = Drain::new();
        let running = Arc::new(AtomicUsize::new(0));
        let mut accepting = Accepting {
            listeners: Listeners::new(self.listeners),
            connections: JoinSet::new(),
            max_connections: config.max_connections,
            serving: Serving {
                handler: Handler {
                    routes: routes.prepare(),
                    max_deadline: config.connection.max_deadline,
                    drain,
                    most_unread: config
                        .connection
                        .stream_window
                        .try_into()
                        .unwrap_or(usize::MAX),
                    calls: Calls::new(Arc::clone(&running)),
                    observer: Arc::clone(&observer),
                    caller: Arc::default(),
                },
                web: config.web_origins.as_deref().map(Web::new),
                tls: config.tls.clone(),
                settings: config.connection,
            },
            running: Arc::clone(&running),
            life: config.metrics.life().clone(),
            refusals: Refusals::new(config.metrics.life(), "a connection"),
        };
        let life = config.metrics.life();
        let (phase, phases) = watch::channel(Phase::Starting);
        // Ends with this function.
        let mut helpers = JoinSet::new();
        if let Some(admin) = self.admin {
            helpers.spawn(admin.serve(config.metrics.clone(), phases));
        }
        if let Some(tls) = &config.tls {
            helpers.spawn(Arc::clone(tls).keep_fresh());
        }
        let telling = Arc::clone(&observer);
        helpers.spawn(async move {
            loop {
                tokio::time::sleep(LEFT_OUT_INTERVAL).await;
                telling.tell_left_out();
            }
        });
        let mut is_ready = false;
        tokio::pin!(ready, stop, cut);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                () = &mut ready, if !is_ready => {
                    is_ready = true;
                    serving.send_replace(true);
                    phase.send_replace(Phase::Serving);
                    life.serving.set(1);
                }
                () = accepting.next() => {}
            }
        }
        serving.send_replace(false);
        phase.send_replace(Phase::Stopping);
        life.serving.set(0);
        life.draining.set(1);
        tracing::info!(delay = ?config.drain_delay, "stopping; health says not serving");
        let delayed = async {
            loop {
                accepting.next().await;
            }
        };
        let cut_early = tokio::select! {
            biased;
            () = &mut cut => true,
            () = tokio::time::sleep(config.drain_delay) => false,
            () = delayed => false,
        };

        let mut connections = accepting.end();
        tracing::info!(
            connections = connections.len(),
            calls = running.load(Ordering::Relaxed),
            "draining"
        );
        // With the sender gone, health watches end once they told their clients.
        drop(serving);
        draining.send_replace(true);
        if !cut_early {
            let drained = async { while connections.join_next().await.is_some() {} };
            tokio::select! {
                () = drained => {}
                () = tokio::time::sleep(config.drain_timeout) => {}
                () = cut => {}
            }
        }
        let (left, calls) = (connections.len(), running.load(Ordering::Relaxed));
        observer.cut();
        connections.shutdown().await;
        // Calls are tasks of their own, which end when they see that their
        // connections are gone.
        let told = async {
            while running.load(Ordering::Relaxed) > 0 {
                tokio::time::sleep(TOLD_CHECK).await;
            }
        };
        let _ = tokio::time::timeout(TOLD_TIMEOUT, told).await;
        observer.tell_left_out();
        Ok(if left == 0 {
            Drained::Cleanly
        } else {
            Drained::Cut {
                connections: left,
                calls,
            }
        })
    }
}

/// The listeners, and what was accepted.
struct Accepting {
    listeners: Listeners,
    connections: JoinSet<()>,
    max_connections: usize,
    serving: Serving,
    /// The calls of all connections that are running.
    running: Arc<AtomicUsize>,
    life: Life,
    refusals: Refusals,
}

impl Accepting {
    /// Accepts a connection, or lets go of one that ended.
    async fn next(&mut self) {
        tokio::select! {
            biased;
            // Ended connections are let go of before new ones are counted.
            Some(_) = self.connections.join_next() => {}
            accepted = self.listeners.accept() => match accepted {
                Ok((_, peer)) if self.connections.len() >= self.max_connections => {
                    self.life.refused.inc();
                    tracing::debug!(%peer, "too many connections; this one is closed");
                }
                Ok((stream, peer)) => {
                    stream.prepare(&self.serving);
                    let mut serving = self.serving.clone();
                    serving.handler.calls = Calls::new(Arc::clone(&self.running));
                    serving.handler.caller = Arc::new(Caller::new(peer.to_string()));
                    self.life.accepted.inc();
                    let open = Raised::new(&self.life.connections);
                    let span = tracing::debug_span!("connection", %peer);
                    let served = async move {
                        connection::serve(stream, peer, serving).await;
                        drop(open);
                    };
                    self.connections.spawn(served.instrument(span));
                }
                Err(error) => self.refusals.wait(&error).await,
            },
        }
    }

    /// Accepts no more.
    fn end(self) -> JoinSet<()> {
        self.connections
    }
}

/// What calls are told to, of all services that there are.
fn observer(config: &Config, descriptors: &[&'static [u8]]) -> Arc<Observer> {
    const OURS: [&[u8]; 3] = [
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let methods = observe::methods(&[&OURS[..], descriptors].concat());
    let observer = Observer::new(&config.metrics, &methods, config.call_log_rate);
    #[cfg(feature = "otlp")]
    let observer = observer.traced(config.tracer.clone());
    Arc::new(observer)
}

fn add_reflection(
    routes: Routes,
    descriptors: &[&'static [u8]],
) -> Result<Routes, tonic_reflection::server::Error> {
    let builder = || {
        descriptors.iter().fold(
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET),
            |builder, set| builder.register_encoded_file_descriptor_set(set),
        )
    };
    // Many clients still ask by the older name alone.
    Ok(routes
        .add_service(Limited::new(builder().build_v1()?))
        .add_service(Limited::new(builder().build_v1alpha()?)))
}
