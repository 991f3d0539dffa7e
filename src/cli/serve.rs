//! `loyd serve`: the gRPC server.

use std::io::{self, Write};
use std::num::{NonZeroU64, NonZeroUsize};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tonic::service::Routes;

use super::exit::Exit;
use super::options::{Algorithm, parse_count, parse_duration};
use crate::server::{Address, Bound, Config, ConnectionSettings, Drained, Origin, Services};
use crate::service::{self, Settings, Solver};

/// Arguments of `loyd serve`.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Args {
    /// Address to listen on: IP:PORT, where port 0 takes a free one, or
    /// unix:PATH. May be given several times. Each is printed on standard
    /// output, on a line: `listening on http://127.0.0.1:50051`
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:50051",
        value_delimiter = ','
    )]
    listen: Vec<Address>,

    /// Permissions of Unix sockets, in octal: who may write may call
    #[arg(long, value_name = "MODE", default_value = "0660", value_parser = parse_mode)]
    socket_mode: u32,

    /// Whether clients may list the services and their types
    #[arg(long, value_enum, value_name = "ON", default_value = "on")]
    reflection: Switch,

    /// The method where a request names none
    #[arg(
        long,
        value_enum,
        value_name = "METHOD",
        default_value = "bidirectional-bfs"
    )]
    default_algorithm: Algorithm,

    /// Build all goal tables before serving, not each on its first use
    #[arg(long)]
    warm: bool,

    /// The most boards of a message in packed form: bounds what a message
    /// makes the server keep beside its bytes
    #[arg(long, value_name = "N", default_value = "65536",
          value_parser = |value: &str| parse_count(value, 4_194_304))]
    max_packed_boards: NonZeroUsize,

    /// The most boards of a message in list form, which take more memory each
    #[arg(long, value_name = "N", default_value = "16384",
          value_parser = |value: &str| parse_count(value, 4_194_304))]
    max_list_boards: NonZeroUsize,

    /// The most states to expand for a board, whatever a request says
    #[arg(long, value_name = "N", default_value_t = Settings::default().max_expanded)]
    max_expanded: NonZeroU64,

    /// The most open connections; one more is closed, for another replica
    #[arg(long, value_name = "N", default_value = "1024",
          value_parser = |value: &str| parse_count(value, 1_000_000))]
    max_connections: NonZeroUsize,

    #[command(flatten)]
    connection: ConnectionArgs,

    /// Threads that solve [default: one a core]
    #[arg(long, value_name = "N", value_parser = |value: &str| parse_count(value, 1024))]
    compute_threads: Option<NonZeroUsize>,

    /// How much expected work may wait for the threads, in one thread's time:
    /// over it unary calls are refused with UNAVAILABLE and streams wait
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1s")]
    queued_work: Duration,

    /// Compress every answer that its client can read compressed (gzip, zstd),
    /// not only those to compressed requests. Small messages cost several times
    /// their solving then
    #[arg(long)]
    compress_responses: bool,

    /// Speak gRPC-Web too, over HTTP/2 and HTTP/1.1, for pages in browsers
    #[arg(long)]
    grpc_web: bool,

    /// Where a page comes from that may call by gRPC-Web, as
    /// https://example.org; `*` for all. May be given several times
    #[arg(
        long,
        value_name = "ORIGIN",
        value_delimiter = ',',
        requires = "grpc_web"
    )]
    grpc_web_origin: Vec<Origin>,

    /// How long connections and calls are still taken after SIGTERM or Ctrl-C,
    /// while health says NOT_SERVING: as long as load balancers take to notice
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    drain_delay: Duration,

    /// How long running calls may take to end after that; streams get what they
    /// are owed and then UNAVAILABLE. A second signal cuts all at once
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "30s")]
    drain_timeout: Duration,
}

/// What every connection is given. Together with the limits of a message they
/// bound what clients can make the server keep.
#[derive(clap::Args, Clone, Debug)]
struct ConnectionArgs {
    /// The most open streams (calls) of a connection
    #[arg(long, value_name = "N", default_value_t = ConnectionSettings::default().max_streams,
          value_parser = clap::value_parser!(u32).range(1..))]
    max_streams: u32,

    /// Bytes a client may send on a stream before they are read. The window of
    /// the connection follows from this and --max-streams
    #[arg(long, value_name = "BYTES", default_value_t = ConnectionSettings::default().stream_window,
          value_parser = clap::value_parser!(u32).range(1024..=MAX_WINDOW))]
    stream_window: u32,

    /// The most bytes of an HTTP/2 frame that a client may send
    #[arg(long, value_name = "BYTES", default_value_t = ConnectionSettings::default().max_frame_bytes,
          value_parser = clap::value_parser!(u32).range(16_384..=16_777_215))]
    max_frame_bytes: u32,

    /// The most bytes of the headers of a call
    #[arg(long, value_name = "BYTES", default_value_t = ConnectionSettings::default().max_header_bytes,
          value_parser = clap::value_parser!(u32).range(1024..=1_048_576))]
    max_header_bytes: u32,

    /// Calls a client may cancel before they are begun, until its connection is
    /// closed as an attack
    #[arg(long, value_name = "N", default_value_t = ConnectionSettings::default().max_pending_resets)]
    max_pending_resets: usize,

    /// Faulty calls of a client until its connection is closed as an attack
    #[arg(long, value_name = "N", default_value_t = ConnectionSettings::default().max_local_resets)]
    max_local_resets: usize,

    /// How long a client may take to say that it speaks HTTP/2
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    hello_timeout: Duration,

    /// Ping a connection that is silent for so long
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "60s")]
    keepalive_interval: Duration,

    /// Close a connection that leaves a ping unanswered for so long
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "20s")]
    keepalive_timeout: Duration,

    /// The longest that a call may take, whatever deadline it asks for; a
    /// stream's too [default: none]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    max_deadline: Option<Duration>,
}

/// The largest window there is (RFC 9113, section 6.9.1).
const MAX_WINDOW: i64 = (1 << 31) - 1;

impl From<ConnectionArgs> for ConnectionSettings {
    fn from(args: ConnectionArgs) -> ConnectionSettings {
        ConnectionSettings {
            max_streams: args.max_streams,
            stream_window: args.stream_window,
            max_frame_bytes: args.max_frame_bytes,
            max_pending_resets: args.max_pending_resets,
            max_local_resets: args.max_local_resets,
            hello_timeout: args.hello_timeout,
            keepalive_interval: args.keepalive_interval,
            keepalive_timeout: args.keepalive_timeout,
            max_deadline: args.max_deadline,
            max_header_bytes: args.max_header_bytes,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

fn parse_mode(value: &str) -> Result<u32, String> {
    u32::from_str_radix(value, 8)
        .ok()
        .filter(|mode| *mode <= 0o777 && !value.starts_with('+'))
        .ok_or_else(|| format!("`{value}` is not an octal number from 0 to 0777, such as 0660"))
}

/// Runs the server until a signal ends it.
pub(super) fn run(args: Args) -> Exit {
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return Exit::Lost.because(format!("cannot start the runtime: {error}")),
    };
    let exit = runtime.block_on(serve(args));
    // Searches that nobody waits for any more need not be waited for either.
    runtime.shutdown_background();
    exit
}

async fn serve(args: Args) -> Exit {
    // From here on a signal is a clean stop, even before the server is ready.
    let (stop, cut) = match stop_signals() {
        Ok(signals) => signals,
        Err(error) => return Exit::Lost.because(format!("cannot wait for signals: {error}")),
    };
    let mut settings = Settings {
        default_method: args.default_algorithm.into(),
        max_expanded: args.max_expanded,
        queued_work: args.queued_work,
        max_packed_boards: args.max_packed_boards.get(),
        max_list_boards: args.max_list_boards.get(),
        compress_responses: args.compress_responses,
        ..Settings::default()
    };
    if let Some(threads) = args.compute_threads {
        settings.compute_threads = threads;
    }
    let solver = match Solver::start(settings) {
        Ok(solver) => solver,
        Err(error) => return Exit::Lost.because(format!("cannot start a thread: {error}")),
    };
    let bound = match Bound::to(&args.listen, args.socket_mode).await {
        Ok(bound) => bound,
        Err(error) => return Exit::Unavailable.because(error),
    };
    announce(bound.addresses());
    let ready = warm(args.warm.then(|| solver.clone()));
    let config = Config {
        reflection: args.reflection == Switch::On,
        drain_delay: args.drain_delay,
        drain_timeout: args.drain_timeout,
        max_connections: args.max_connections.get(),
        web_origins: args.grpc_web.then_some(args.grpc_web_origin),
        connection: args.connection.into(),
    };
    let services = Services {
        routes: Routes::new(solver.into_server()),
        names: &[service::NAME],
        descriptors: service::DESCRIPTOR_SETS,
    };
    match bound.serve(config, services, ready, stop, cut).await {
        Ok(Drained::Cleanly) => tracing::info!("stopped"),
        // The operator's own limit: no failure.
        Ok(Drained::Cut { connections, calls }) => {
            tracing::warn!(connections, calls, "stopped, and cut what was left");
        }
        Err(error) => return Exit::Lost.because(format!("cannot serve reflection: {error}")),
    }
    Exit::Done
}

/// The lines of standard output, for scripts that need the port.
fn announce(addresses: &[Address]) {
    let mut out = io::stdout().lock();
    for address in addresses {
        let uri = address.uri(false);
        tracing::info!(%uri, version = env!("CARGO_PKG_VERSION"), "serving");
        // A server is of use even where its standard output is closed.
        let _ = writeln!(out, "listening on {uri}").and_then(|()| out.flush());
    }
}

/// Builds the tables, beside the serving: the server is up meanwhile, and its
/// health says when they are there.
async fn warm(solver: Option<Solver>) {
    let Some(solver) = solver else { return };
    let started = Instant::now();
    match tokio::task::spawn_blocking(move || solver.warm()).await {
        Ok(()) => tracing::info!(elapsed = ?started.elapsed(), "all goal tables are built"),
        // Not fatal: a table that is missing is built by its first request.
        Err(error) => tracing::error!(%error, "cannot build the goal tables"),
    }
}

/// Two futures: the first SIGTERM or Ctrl-C, and the second.
fn stop_signals() -> io::Result<(impl Future<Output = ()>, impl Future<Output = ()>)> {
    let terminate = signal(SignalKind::terminate())?;
    let interrupt = signal(SignalKind::interrupt())?;
    let (count, counted) = watch::channel(0_u32);
    tokio::spawn(count_signals(terminate, interrupt, count));
    let reached = |number: u32| {
        let mut counted = counted.clone();
        async move {
            if counted.wait_for(|count| *count >= number).await.is_err() {
                // The counting task can't end before the runtime does.
                std::future::pending::<()>().await;
            }
        }
    };
    Ok((reached(1), reached(2)))
}

async fn count_signals(mut terminate: Signal, mut interrupt: Signal, count: watch::Sender<u32>) {
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        count.send_modify(|count| *count += 1);
    }
}
