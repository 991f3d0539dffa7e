//! `grpc.health.v1.Health`, over the types that tonic-health generates.
//!
//! Its own service answers `NOT_FOUND` to a `Watch` of an unknown name, where
//! the protocol asks for `SERVICE_UNKNOWN`, and is born `SERVING`.

use std::pin::Pin;

use futures_util::{Stream, StreamExt};
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health as HealthService, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::service::ENCODINGS;

/// The health of the whole server (`""`) and of each service: they start and
/// stop together.
pub(super) struct Health {
    names: &'static [&'static str],
    serving: watch::Receiver<bool>,
}

impl Health {
    /// Begins as not serving; what is sent is the health from then on.
    pub(super) fn new(names: &'static [&'static str]) -> (watch::Sender<bool>, Health) {
        let (sender, serving) = watch::channel(false);
        (sender, Health { names, serving })
    }

    pub(super) fn into_server(self) -> HealthServer<Health> {
        // A client that compresses does so in all its calls.
        let server = HealthServer::new(self);
        ENCODINGS.iter().fold(server, |server, &encoding| {
            server.accept_compressed(encoding)
        })
    }

    fn knows(&self, name: &str) -> bool {
        name.is_empty() || self.names.contains(&name)
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: status.into(),
    }
}

fn status_of(serving: bool) -> ServingStatus {
    if serving {
        ServingStatus::Serving
    } else {
        ServingStatus::NotServing
    }
}

#[tonic::async_trait]
impl HealthService for Health {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let name = &request.get_ref().service;
        if !self.knows(name) {
            return Err(Status::not_found("no service of this name is served here"));
        }
        Ok(Response::new(response(status_of(*self.serving.borrow()))))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let known = self.knows(&request.get_ref().service);
        let changes = WatchStream::new(self.serving.clone());
        let statuses = changes.map(move |serving| {
            let status = if known {
                status_of(serving)
            } else {
                ServingStatus::ServiceUnknown
            };
            Ok(response(status))
        });
        Ok(Response::new(Box::pin(statuses)))
    }
}
