//! Sockets and life: listening, connections, health, drain. It knows no
//! puzzles: it serves whatever routes it is given.

mod connection;
mod deadline;
mod health;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::service::Routes;

pub use connection::ConnectionSettings;
use health::Health;

/// How long to wait before accepting again after the system refused, for
/// example because too many files are open: long enough not to spin, short
/// enough not to be noticed once it recovers.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// How to serve.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whether clients may list the services and their types.
    pub reflection: bool,
    /// How long running calls may take to end once the server stops.
    pub drain_timeout: Duration,
    /// The most connections that are open at once; one more is closed at once,
    /// so that its client tries another replica.
    pub max_connections: usize,
    /// What every connection is given.
    pub connection: ConnectionSettings,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            reflection: true,
            drain_timeout: Duration::from_secs(30),
            max_connections: 1024,
            connection: ConnectionSettings::default(),
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
    /// So many connections were cut.
    Cut(usize),
}

/// A socket that is bound and not yet served.
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

impl Bound {
    /// Binds an address; port 0 takes a free port.
    ///
    /// # Errors
    /// Where the system refuses.
    pub async fn to(address: SocketAddr) -> io::Result<Bound> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Bound { listener, address })
    }

    /// The address, with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` resolves, then drains: health says `NOT_SERVING`,
    /// no connection is accepted any more, open ones are told to go away, and
    /// running calls may end until [`Config::drain_timeout`] or until `cut`
    /// resolves.
    ///
    /// # Errors
    /// Where reflection can't be set up from [`Services::descriptors`].
    pub async fn serve(
        self,
        config: Config,
        services: Services,
        stop: impl Future<Output = ()>,
        cut: impl Future<Output = ()>,
    ) -> Result<Drained, tonic_reflection::server::Error> {
        let (serving, health) = Health::new(services.names);
        let mut routes = services.routes.add_service(health.into_server());
        if config.reflection {
            routes = add_reflection(routes, services.descriptors)?;
        }
        let routes = routes.prepare();

        let (draining, drain) = watch::channel(false);
        let mut connections = JoinSet::new();
        serving.send_replace(true);
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((_, peer)) if connections.len() >= config.max_connections => {
                        tracing::debug!(%peer, "too many connections; this one is closed");
                    }
                    Ok((stream, peer)) => {
                        prepare(&stream);
                        connections.spawn(connection::serve(
                            stream,
                            peer,
                            routes.clone(),
                            config.connection,
                            drain.clone(),
                        ));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(ACCEPT_BACKOFF).await;
                    }
                },
                // Ended connections are let go of as they end.
                Some(_) = connections.join_next() => {}
            }
        }

        tracing::info!(connections = connections.len(), "draining");
        drop(self.listener);
        serving.send_replace(false);
        // With the sender gone, health watches end once they told their clients.
        drop(serving);
        draining.send_replace(true);
        let drained = async { while connections.join_next().await.is_some() {} };
        tokio::select! {
            () = drained => {}
            () = tokio::time::sleep(config.drain_timeout) => {}
            () = cut => {}
        }
        let left = connections.len();
        connections.shutdown().await;
        Ok(if left == 0 {
            Drained::Cleanly
        } else {
            Drained::Cut(left)
        })
    }
}

/// Without `TCP_NODELAY` a small answer waits 40 ms for company.
fn prepare(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
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
        .add_service(builder().build_v1()?)
        .add_service(builder().build_v1alpha()?))
}
