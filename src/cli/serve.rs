//! `loyd serve`: the gRPC server.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tonic::service::Routes;

#[cfg(feature = "otlp")]
use super::connect::is_host_and_port;
use super::exit::Exit;
use super::options::{Algorithm, parse_count, parse_duration, parse_positive_duration};
use super::tls::ServerTlsArgs;
use super::{print, signals};
use crate::server::{Address, Bound, Config, ConnectionSettings, Drained, Origin, Services, Tls};
use crate::service::{self, Settings, Solver};
#[cfg(feature = "otlp")]
use crate::telemetry::otlp::Tracer;
use crate::telemetry::{LogFormat, Metrics, max_files};

/// Arguments of `loyd serve`.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Args {
    /// Read options from this TOML file: `max-streams = 50`. A variable of the
    /// environment goes before it, and a flag before both
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print all options as such a file, and do not serve
    #[arg(long)]
    pub(super) print_config: bool,

    /// Address to listen on: IP:PORT, where port 0 takes a free one and [::]
    /// takes IPv4 too (unless the system says otherwise), or unix:PATH. May be given several times (in LOYD_LISTEN with commas
    /// between). Each is printed on standard output, on a line: `listening on
    /// http://127.0.0.1:50051`
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:50051")]
    listen: Vec<Address>,

    /// Address for the operator alone, IP:PORT: metrics (/metrics) and probes
    /// (/livez, /readyz) over plain HTTP/1.1. Whoever reaches it may ask, so
    /// keep it from your clients. It is printed on a line after the others:
    /// `admin on http://127.0.0.1:9464` [default: none]
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<SocketAddr>,

    /// The log on standard error as text for people, or as JSON, an object a
    /// line, for machines. RUST_LOG says how much (`warn`, `info,loyd::call=off`)
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    log_format: LogLines,

    /// The most log lines a second that tell of calls which ended well, and as
    /// many of the others; what is left out is counted in the log
    #[arg(long, value_name = "N", default_value_t = Config::default().call_log_rate)]
    call_log_rate: u32,

    /// Send a span of each call to this OpenTelemetry collector, by OTLP over
    /// gRPC: http://127.0.0.1:4317. Spans it is too slow for are dropped
    /// [default: none]
    #[arg(long, value_name = "URL", value_parser = parse_collector)]
    #[cfg_attr(not(feature = "otlp"), arg(hide = true))]
    otlp_endpoint: Option<String>,

    /// Permissions of Unix sockets, in octal with a leading 0: who may write
    /// may call
    #[arg(long, value_name = "MODE", default_value = "0660", value_parser = parse_mode)]
    socket_mode: u32,

    #[command(flatten)]
    tls: ServerTlsArgs,

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

    /// Build all goal tables at the start, not each on its first use; the
    /// server's health is NOT_SERVING until they are there
    #[arg(long, value_enum, value_name = "ON", default_value = "off", num_args = 0..=1,
          require_equals = true, default_missing_value = "on")]
    warm: Switch,

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
    /// over it unary calls are refused with UNAVAILABLE and streams wait. It
    /// also bounds the boards that are queued in the whole server: a second is
    /// 6,250 by breadth-first search, 125,000 by the default method
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration, default_value = "1s")]
    queued_work: Duration,

    /// The most messages of a stream that are being solved or wait for their
    /// turn to be answered; also the most threads that one stream keeps busy
    #[arg(long, value_name = "N", default_value_t = Settings::default().messages_in_flight,
          value_parser = |value: &str| parse_count(value, 1024))]
    messages_in_flight: NonZeroUsize,

    /// How much the boards of such messages may take until no other message of
    /// the stream is read: bounds what a stream makes the server keep
    #[arg(long, value_name = "BYTES", default_value_t = Settings::default().bytes_in_flight,
          value_parser = |value: &str| parse_count(value, 1 << 30))]
    bytes_in_flight: NonZeroUsize,

    /// End a stream whose answers are not read for so long, with ABORTED: what
    /// it holds is of use to others. Its connection is kept
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration, default_value = "60s")]
    stall_timeout: Duration,

    /// Compress every answer that its client can read compressed (gzip, zstd),
    /// not only those to compressed requests. Small messages cost several times
    /// their solving then
    #[arg(long, value_enum, value_name = "ON", default_value = "off", num_args = 0..=1,
          require_equals = true, default_missing_value = "on")]
    compress_responses: Switch,

    /// Speak gRPC-Web too, over HTTP/2 and HTTP/1.1, for pages in browsers
    #[arg(long, value_enum, value_name = "ON", default_value = "off", num_args = 0..=1,
          require_equals = true, default_missing_value = "on")]
    grpc_web: Switch,

    /// Where a page comes from that may call by gRPC-Web, as
    /// https://example.org; `*` for all. May be given several times (in
    /// LOYD_GRPC_WEB_ORIGIN with commas between)
    #[arg(long, value_name = "ORIGIN")]
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

    /// How long a client may take to say that it speaks HTTP/2, or for the
    /// headers of a request by HTTP/1.1
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration, default_value = "10s")]
    hello_timeout: Duration,

    /// Ping a connection that is silent for so long (over HTTP/1.1, by TCP)
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration, default_value = "60s")]
    keepalive_interval: Duration,

    /// Close a connection that leaves a ping unanswered for so long
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration, default_value = "20s")]
    keepalive_timeout: Duration,

    /// End a call by gRPC-Web over HTTP/1.1, which has no pings, that had to
    /// wait so long in all for its request, with DEADLINE_EXCEEDED
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration, default_value = "60s")]
    web_request_timeout: Duration,

    /// The longest that a call may take, whatever deadline it asks for; a
    /// stream's too [default: none]
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration)]
    max_deadline: Option<Duration>,

    /// Close a connection that had no call for so long [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration)]
    idle_timeout: Option<Duration>,

    /// Tell the client of a connection of this age, up to a tenth more or less,
    /// to open another: spreads clients over new replicas [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration)]
    max_connection_age: Option<Duration>,

    /// How long its calls may then go on
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "60s")]
    max_connection_age_grace: Duration,
}

/// Files beside the connections of clients: the operator's, of which there are
/// up to 64, listeners, and what the runtime and the standard streams need.
const OTHER_FILES: u64 = 100;

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
            web_request_timeout: args.web_request_timeout,
            max_deadline: args.max_deadline,
            max_header_bytes: args.max_header_bytes,
            idle_timeout: args.idle_timeout,
            max_age: args.max_connection_age,
            max_age_grace: args.max_connection_age_grace,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    // The aliases are TOML's words.
    #[value(alias = "true")]
    On,
    #[value(alias = "false")]
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogLines {
    Text,
    Json,
}

/// A collector beside the server, or in its network: without TLS.
#[cfg(feature = "otlp")]
fn parse_collector(value: &str) -> Result<String, String> {
    let is_origin = value.parse::<hyper::Uri>().is_ok_and(|uri| {
        uri.scheme_str() == Some("http")
            && uri
                .authority()
                .is_some_and(|authority| is_host_and_port(authority) && uri.port_u16() != Some(0))
            // It is a service of gRPC, which has paths of its own.
            && uri.path_and_query().is_none_or(|path| path == "/")
    });
    // A fragment is left out where URLs are read.
    if is_origin && !value.contains('#') {
        return Ok(value.to_owned());
    }
    Err("it is no http:// URL of a host and a port alone, such as http://127.0.0.1:4317".to_owned())
}

/// Refused wherever it is set: who asks for traces is to know that there are
/// none.
#[cfg(not(feature = "otlp"))]
fn parse_collector(_: &str) -> Result<String, String> {
    Err("this build sends no traces: it was made without the feature `otlp`".to_owned())
}

/// The leading 0 is asked for, since a number of a TOML file comes here in
/// decimal form: `0o660` as 432, which would be taken for other permissions.
fn parse_mode(value: &str) -> Result<u32, String> {
    u32::from_str_radix(value, 8)
        .ok()
        .filter(|mode| *mode <= 0o777 && value.starts_with('0'))
        .ok_or_else(|| {
            format!(
                "`{value}` is not an octal number from 0 to 0777 with a leading 0, such as 0660 \
                 (a string in a file: \"0660\")"
            )
        })
}

impl Args {
    /// How the log is written.
    pub(super) fn log_format(&self) -> LogFormat {
        match self.log_format {
            LogLines::Text => LogFormat::Text,
            LogLines::Json => LogFormat::Json,
        }
    }

    /// Where pages come from that may call, if any may.
    fn web_origins(&self) -> Result<Option<Vec<Origin>>, String> {
        match self.grpc_web {
            Switch::On => Ok(Some(self.grpc_web_origin.clone())),
            Switch::Off if self.grpc_web_origin.is_empty() => Ok(None),
            Switch::Off => Err("--grpc-web-origin says nothing without --grpc-web".to_owned()),
        }
    }
}

/// Prints the configuration, once it is known to be one.
pub(super) fn print_config(args: Args, config: Result<String, String>) -> Exit {
    let origins = args.web_origins();
    match args.tls.settings(&args.listen).and(origins).and(config) {
        Ok(config) => match print(format_args!("{config}")) {
            Ok(()) => Exit::Done,
            Err(error) => Exit::Lost.because(format!("cannot write the options: {error}")),
        },
        Err(error) => Exit::Usage.because(error),
    }
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
    let (stop, cut) = match signals::stop_signals() {
        Ok(signals) => signals,
        Err(error) => return Exit::Lost.because(format!("cannot wait for signals: {error}")),
    };
    let web_origins = match args.web_origins() {
        Ok(origins) => origins,
        Err(error) => return Exit::Usage.because(error),
    };
    let tls = args.tls.settings(&args.listen);
    let tls = match tls.map(|settings| settings.map(Tls::load)) {
        Ok(None) => None,
        Ok(Some(Ok(tls))) => Some(Arc::new(tls)),
        Ok(Some(Err(error))) => return Exit::Usage.because(error),
        Err(error) => return Exit::Usage.because(error),
    };
    if let Err(error) = signals::reload_on_hangup(tls.clone()) {
        return Exit::Lost.because(format!("cannot wait for signals: {error}"));
    }
    let metrics = Metrics::new();
    #[cfg(feature = "otlp")]
    let endpoint = args.otlp_endpoint.as_deref();
    #[cfg(feature = "otlp")]
    let tracer = match endpoint.map(|endpoint| Tracer::start(endpoint, &metrics)) {
        Some(Err(error)) => return Exit::Usage.because(error),
        Some(Ok(tracer)) => Some(tracer),
        None => None,
    };
    let mut settings = Settings {
        default_method: args.default_algorithm.into(),
        max_expanded: args.max_expanded,
        queued_work: args.queued_work,
        messages_in_flight: args.messages_in_flight,
        bytes_in_flight: args.bytes_in_flight,
        stall_timeout: args.stall_timeout,
        max_packed_boards: args.max_packed_boards.get(),
        max_list_boards: args.max_list_boards.get(),
        compress_responses: args.compress_responses == Switch::On,
        metrics: metrics.clone(),
        ..Settings::default()
    };
    if let Some(threads) = args.compute_threads {
        settings.compute_threads = threads;
    }
    let solver = match Solver::start(settings) {
        Ok(solver) => solver,
        Err(error) => return Exit::Lost.because(format!("cannot start a thread: {error}")),
    };
    let mut stop = Box::pin(stop);
    let bound = tokio::select! {
        bound = Bound::to(&args.listen, args.socket_mode) => bound,
        // It waits for seconds where another process holds a socket's directory.
        () = &mut stop => return Exit::Done,
    };
    let mut bound = match bound {
        Ok(bound) => bound,
        Err(error) => return Exit::Unavailable.because(error),
    };
    if let Some(address) = args.admin_listen
        && let Err(error) = bound.admin_on(address).await
    {
        return Exit::Unavailable.because(error);
    }
    have_files_for(args.max_connections);
    announce(&bound, tls.is_some());
    let ready = warm((args.warm == Switch::On).then(|| solver.clone()));
    let config = Config {
        reflection: args.reflection == Switch::On,
        drain_delay: args.drain_delay,
        drain_timeout: args.drain_timeout,
        max_connections: args.max_connections.get(),
        web_origins,
        tls,
        connection: args.connection.into(),
        metrics,
        call_log_rate: args.call_log_rate,
        #[cfg(feature = "otlp")]
        tracer: tracer.clone(),
    };
    let services = Services {
        routes: Routes::new(solver.into_server()),
        names: &[service::NAME],
        descriptors: service::DESCRIPTOR_SETS,
    };
    let drained = bound.serve(config, services, ready, stop, cut).await;
    #[cfg(feature = "otlp")]
    if let Some(tracer) = tracer {
        // It blocks, and a panic there is no reason to fail at the end.
        let _ = tokio::task::spawn_blocking(move || tracer.finish()).await;
    }
    match drained {
        Ok(Drained::Cleanly) => tracing::info!("stopped"),
        // The operator's own limit: no failure.
        Ok(Drained::Cut { connections, calls }) => {
            tracing::warn!(connections, calls, "stopped, and cut what was left");
        }
        Err(error) => return Exit::Lost.because(format!("cannot serve reflection: {error}")),
    }
    Exit::Done
}

/// Raises the number of files that may be open to what so many connections
/// need, as far as the system lets a process do that. Where that is too few,
/// connections are refused long before there are too many, and the operator's
/// among them.
fn have_files_for(max_connections: NonZeroUsize) {
    let wanted = (max_connections.get() as u64).saturating_add(OTHER_FILES);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|files| files < wanted) {
        let most = limit.maximum.map_or(wanted, |most| most.min(wanted));
        // What this could not do is told below.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(most),
                ..limit
            },
        );
    }
    if let Some(files) = max_files().filter(|files| *files < wanted) {
        tracing::warn!(
            files,
            wanted,
            "too few files may be open for --max-connections: raise ulimit -n, or lower it"
        );
    }
}

/// The lines of standard output, for scripts that need the port.
///
/// From a thread of their own: a full pipe that nobody reads is no reason not
/// to serve, nor not to stop.
fn announce(bound: &Bound, tls: bool) {
    let mut lines = String::new();
    for address in bound.addresses() {
        let uri = address.uri(tls);
        tracing::info!(%uri, version = env!("CARGO_PKG_VERSION"), "serving");
        lines += &format!("listening on {uri}\n");
    }
    if let Some(address) = bound.admin_address() {
        let uri = format!("http://{address}");
        tracing::info!(%uri, "metrics and probes");
        lines += &format!("admin on {uri}\n");
    }
    let written = thread::Builder::new()
        .name("announce".to_owned())
        .spawn(move || {
            let mut out = io::stdout().lock();
            // A server is of use even where its standard output is closed.
            let _ = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
        });
    if let Err(error) = written {
        tracing::warn!(%error, "cannot start a thread to write the addresses to standard output");
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
