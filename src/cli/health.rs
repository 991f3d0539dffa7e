//! `loyd health`: asks a server whether it serves, for probes of containers.

use std::error::Error;
use std::time::Duration;

use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::connect::connect;
use super::exit::Exit;
use super::options::parse_positive_duration;
use super::print;
use super::remote::{RemoteError, describe, no_grpc};
use super::tls::ClientTlsArgs;

/// Arguments of `loyd health`.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Args {
    /// The server to ask
    #[arg(long, value_name = "URI", default_value = "http://127.0.0.1:50051")]
    connect: String,

    #[command(flatten)]
    tls: ClientTlsArgs,

    /// The service to ask for, such as loyd.v1.SolverService [default: the
    /// server as a whole]
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    service: String,

    /// How long the server may take to answer
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration, default_value = "5s")]
    timeout: Duration,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum HealthError {
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error("no health from {uri}: {reason}")]
    NoAnswer { uri: String, reason: String },
}

/// Asks, and prints the answer.
pub(super) fn run(args: Args) -> Exit {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return Exit::Lost.because(format!("cannot start the runtime: {error}")),
    };
    match runtime.block_on(ask(&args)) {
        Ok(status) => match print(format_args!("{}\n", status.as_str_name())) {
            Err(error) => Exit::Lost.because(format!("cannot write the health: {error}")),
            Ok(()) if status == ServingStatus::Serving => Exit::Done,
            Ok(()) => Exit::NotServing,
        },
        Err(HealthError::Remote(error)) => error.exit().because(error),
        Err(error) => Exit::Unavailable.because(error),
    }
}

async fn ask(args: &Args) -> Result<ServingStatus, HealthError> {
    let no_answer = |reason| HealthError::NoAnswer {
        uri: args.connect.clone(),
        reason,
    };
    let asked = async {
        let channel = connect(&args.connect, &args.tls).await?;
        let request = HealthCheckRequest {
            service: args.service.clone(),
        };
        match HealthClient::new(channel).check(request).await {
            Ok(response) => Ok(response.get_ref().status()),
            Err(status) if status.code() == Code::NotFound => Ok(ServingStatus::ServiceUnknown),
            Err(status) => Err(no_answer(match status.source() {
                Some(source) => no_grpc(&args.connect, source),
                None => describe(&status),
            })),
        }
    };
    match tokio::time::timeout(args.timeout, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(no_answer("it took too long".to_owned())),
    }
}
