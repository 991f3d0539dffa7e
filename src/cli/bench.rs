//! `loyd bench`: a load client for a running server.

use std::io::{self, Write};
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::ValueEnum;
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use super::connect::connect;
use super::exit::Exit;
use super::options::{SearchArgs, parse_count, parse_positive_duration};
use super::remote::{self, RemoteError};
use super::tls::ClientTlsArgs;
use crate::puzzle::{Board, Problem, Shape, cantor};
use crate::wire::v1::solver_service_client::SolverServiceClient;
use crate::wire::v1::{
    self as wire, Outcome, PackedBoards, SolveBatchRequest, SolveRequest, solve_batch_request,
    solve_batch_response,
};

/// How many different boards are sent, over and over.
const DIFFERENT_BOARDS: usize = 65_536;

/// Latencies are kept to three digits, up to an hour.
const LONGEST_US: u64 = 3_600_000_000;

/// Arguments of `loyd bench`.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Args {
    /// The server to load [example: http://127.0.0.1:50051]
    #[arg(long, value_name = "URI")]
    connect: String,

    #[command(flatten)]
    tls: ClientTlsArgs,

    #[command(flatten)]
    search: SearchArgs,

    /// How boards are sent
    #[arg(long, value_enum, default_value = "packed")]
    form: Form,

    /// Boards of a message; `unary` sends one
    #[arg(long, value_name = "N", default_value = "1024",
          value_parser = |value: &str| parse_count(value, 65_536))]
    boards_per_message: NonZeroUsize,

    /// Streams, or callers that wait for their answer, of each connection
    #[arg(long, value_name = "N", default_value = "1")]
    streams: NonZeroU32,

    /// Connections
    #[arg(long, value_name = "N", default_value = "1")]
    connections: NonZeroU32,

    /// Messages of a stream that wait for their answer
    #[arg(long, value_name = "N", default_value = "16",
          value_parser = |value: &str| parse_count(value, 65_536))]
    in_flight: NonZeroUsize,

    /// Messages a second of each stream; without it as many as are answered
    #[arg(long, value_name = "N")]
    rate: Option<NonZeroU32>,

    /// How long to send
    #[arg(long, value_name = "TIME", value_parser = parse_positive_duration, default_value = "5s",
          conflicts_with = "count")]
    duration: Duration,

    /// Send this many boards instead, in all
    #[arg(long, value_name = "BOARDS")]
    count: Option<NonZeroU64>,

    /// Write the result as a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// SolveBatch, a byte a tile
    Packed,
    /// SolveBatch, a message a board
    List,
    /// Solve
    Unary,
}

/// The result. Its keys are part of the command line's contract.
#[derive(Serialize)]
struct Report {
    /// What was solved, or told to be unsolvable. Without the errors: what is
    /// refused is quick.
    boards: u64,
    /// Boards, or messages, that were not.
    errors: u64,
    seconds: f64,
    latency_us: Latency,
}

/// Of a message, from handing it over to its last answer.
#[derive(Serialize)]
struct Latency {
    p50: u64,
    p90: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

/// What one stream saw.
struct Tally {
    boards: u64,
    errors: u64,
    /// What the first error was.
    first_error: Option<String>,
    latency: Histogram<u64>,
}

impl Tally {
    fn new() -> Result<Tally, RemoteError> {
        let latency = Histogram::new_with_bounds(1, LONGEST_US, 3)
            .map_err(|error| RemoteError::Start(io::Error::other(error)))?;
        Ok(Tally {
            boards: 0,
            errors: 0,
            first_error: None,
            latency,
        })
    }

    fn answered(&mut self, since: Instant) {
        let microseconds = u64::try_from(since.elapsed().as_micros()).unwrap_or(LONGEST_US);
        self.latency.saturating_record(microseconds.max(1));
    }

    /// Counts the boards of a message, with the errors among them.
    fn count(&mut self, boards: usize, errors: usize) {
        self.boards += boards.saturating_sub(errors) as u64;
        self.errors += errors as u64;
    }

    fn add(&mut self, other: &Tally) {
        self.boards += other.boards;
        self.errors += other.errors;
        if self.first_error.is_none() {
            self.first_error.clone_from(&other.first_error);
        }
        // Both have the same bounds, so all of it fits.
        let _ = self.latency.add(&other.latency);
    }
}

/// Runs the command.
pub(super) fn run(args: Args) -> Exit {
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return Exit::Lost.because(format!("cannot start the client: {error}")),
    };
    match runtime.block_on(load(Arc::new(args.clone()))) {
        Ok(report) => match report.write(args.json) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Exit::Lost.because(format!("cannot write the result: {error}"))
            }
            _ if report.errors > 0 => Exit::LineError,
            _ => Exit::Done,
        },
        Err(error) => error.exit().because(error),
    }
}

impl Report {
    fn write(&self, json: bool) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if json {
            serde_json::to_writer(&mut out, self)?;
            return writeln!(out);
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "a rate is shown to three digits"
        )]
        let rate = self.boards as f64 / self.seconds;
        let Latency {
            p50,
            p90,
            p99,
            p999,
            max,
        } = self.latency_us;
        writeln!(out, "boards     {}", self.boards)?;
        writeln!(out, "errors     {}", self.errors)?;
        writeln!(out, "seconds    {:.3}", self.seconds)?;
        writeln!(out, "boards/s   {rate:.0}")?;
        writeln!(
            out,
            "latency of a message, us: p50 {p50}  p90 {p90}  p99 {p99}  p99.9 {p999}  max {max}"
        )
    }
}

async fn load(args: Arc<Args>) -> Result<Report, RemoteError> {
    let boards = Arc::new(random_boards());
    let shared = Arc::new(Shared {
        sent: AtomicU64::new(0),
        limit: args.count.map(NonZeroU64::get),
        ends: args.count.is_none().then(|| Instant::now() + args.duration),
    });
    let mut streams = JoinSet::new();
    let started = Instant::now();
    for _ in 0..args.connections.get() {
        let channel = connect(&args.connect, &args.tls).await?;
        for _ in 0..args.streams.get() {
            let load = Load {
                args: Arc::clone(&args),
                boards: Arc::clone(&boards),
                shared: Arc::clone(&shared),
                client: SolverServiceClient::new(channel.clone()),
            };
            streams.spawn(load.run());
        }
    }
    let mut all = Tally::new()?;
    while let Some(ended) = streams.join_next().await {
        all.add(&ended.map_err(|error| RemoteError::Start(io::Error::other(error)))??);
    }
    if let Some(error) = &all.first_error {
        // Standard error may be closed; the count of errors still tells.
        let _ = writeln!(io::stderr(), "the first error: {error}");
    }
    let at = |quantile| all.latency.value_at_quantile(quantile);
    Ok(Report {
        boards: all.boards,
        errors: all.errors,
        seconds: started.elapsed().as_secs_f64(),
        latency_us: Latency {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: all.latency.max(),
        },
    })
}

/// Solvable 3x3 boards in a fixed pseudo-random order: runs are comparable.
fn random_boards() -> Vec<Board> {
    // Knuth's MMIX generator; its high bits are random enough to pick boards.
    let mut state: u64 = 0x4c6f_7964;
    let mut boards = Vec::with_capacity(DIFFERENT_BOARDS);
    while boards.len() < DIFFERENT_BOARDS {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let rank = (state >> 33) % u64::from(cantor::factorial(9));
        let mut tiles = [0; 9];
        cantor::unrank(u32::try_from(rank).unwrap_or(0), &mut tiles);
        if let Ok(board) = Board::from_bytes(Shape::EIGHT, &tiles)
            && Problem::to_standard_goal(board).is_solvable()
        {
            boards.push(board);
        }
    }
    boards
}

/// What decides when all streams end.
struct Shared {
    sent: AtomicU64,
    limit: Option<u64>,
    ends: Option<Instant>,
}

impl Shared {
    /// How many of `wanted` boards may still be sent, and which is the first.
    fn take(&self, wanted: usize) -> Option<(u64, usize)> {
        if self.ends.is_some_and(|ends| Instant::now() >= ends) {
            return None;
        }
        let first = self.sent.fetch_add(wanted as u64, Ordering::Relaxed);
        match self.limit {
            Some(limit) if first >= limit => None,
            Some(limit) => {
                let left = usize::try_from(limit - first).unwrap_or(usize::MAX);
                Some((first, wanted.min(left)))
            }
            None => Some((first, wanted)),
        }
    }
}

/// One stream, or one unary caller.
struct Load {
    args: Arc<Args>,
    boards: Arc<Vec<Board>>,
    shared: Arc<Shared>,
    client: SolverServiceClient<Channel>,
}

impl Load {
    async fn run(self) -> Result<Tally, RemoteError> {
        match self.args.form {
            Form::Unary => self.unary().await,
            Form::Packed | Form::List => self.batch().await,
        }
    }

    fn pick(&self, first: u64, count: usize) -> impl Iterator<Item = &Board> {
        let start = usize::try_from(first).unwrap_or(0) % self.boards.len().max(1);
        self.boards.iter().cycle().skip(start).take(count)
    }

    async fn unary(mut self) -> Result<Tally, RemoteError> {
        let mut tally = Tally::new()?;
        let mut pace = Pace::new(self.args.rate);
        let options = remote::options_to_wire(&self.args.search);
        while let Some((first, _)) = self.shared.take(1) {
            let board = self.pick(first, 1).next().map(remote::board_to_wire);
            let request = SolveRequest {
                board,
                goal: None,
                options: Some(options),
            };
            let since = pace.wait().await;
            let answered = self.client.solve(request).await;
            if let Err(status) = &answered {
                let error = RemoteError::of_first_call(&self.args.connect, status);
                if tally.latency.is_empty() && matches!(error, RemoteError::Connect { .. }) {
                    return Err(error);
                }
                tally
                    .first_error
                    .get_or_insert_with(|| remote::describe(status));
            }
            tally.answered(since);
            let solved = answered.is_ok_and(|response| {
                response
                    .get_ref()
                    .solution
                    .as_ref()
                    .is_some_and(|solution| {
                        matches!(solution.outcome(), Outcome::Solved | Outcome::LimitReached)
                    })
            });
            tally.boards += u64::from(solved);
            tally.errors += u64::from(!solved);
        }
        Ok(tally)
    }

    async fn batch(mut self) -> Result<Tally, RemoteError> {
        let mut tally = Tally::new()?;
        let in_flight = self.args.in_flight.get();
        let (requests, sent) = mpsc::channel(in_flight);
        // A slot for each message in flight; it also carries when it was sent.
        let (slots, mut waiting) = mpsc::channel(in_flight);
        let mut responses = self
            .client
            .solve_batch(ReceiverStream::new(sent))
            .await
            .map_err(|status| RemoteError::of_first_call(&self.args.connect, &status))?
            .into_inner();
        let sender = tokio::spawn(async move {
            let mut pace = Pace::new(self.args.rate);
            let mut id = 0;
            let wanted = self.args.boards_per_message.get();
            while let Some((first, count)) = self.shared.take(wanted) {
                let request = self.request(id, first, count);
                let since = pace.wait().await;
                if slots.send(since).await.is_err() || requests.send(request).await.is_err() {
                    return;
                }
                id += 1;
            }
        });
        loop {
            let response = match responses.message().await {
                Ok(Some(response)) => response,
                Ok(None) => break,
                Err(status) => return Err(lost(&tally, &status)),
            };
            match response.results {
                Some(solve_batch_response::Results::Packed(results)) => {
                    tally.count(results.outcomes.len(), results.errors.len());
                }
                Some(solve_batch_response::Results::List(list)) => {
                    let is_error = |result: &&wire::BoardResult| {
                        matches!(result.result, Some(wire::board_result::Result::Error(_)))
                    };
                    let errors = list.results.iter().filter(is_error).count();
                    tally.count(list.results.len(), errors);
                }
                Some(solve_batch_response::Results::Error(error)) => {
                    tally.errors += 1;
                    tally.first_error.get_or_insert(error.message);
                }
                None => tally.errors += 1,
            }
            if !response.more
                && let Some(since) = waiting.recv().await
            {
                tally.answered(since);
            }
        }
        sender
            .await
            .map_err(|error| RemoteError::Start(io::Error::other(error)))?;
        Ok(tally)
    }

    fn request(&self, id: u64, first: u64, count: usize) -> SolveBatchRequest {
        let boards = match self.args.form {
            Form::List | Form::Unary => solve_batch_request::Boards::List(
                self.pick(first, count).map(remote::board_to_wire).collect(),
            ),
            Form::Packed => {
                let mut tiles = Vec::with_capacity(count * 9);
                self.pick(first, count)
                    .for_each(|board| tiles.extend_from_slice(board.tiles()));
                let tiles = Bytes::from(tiles);
                solve_batch_request::Boards::Packed(PackedBoards {
                    rows: 0,
                    columns: 0,
                    tiles,
                })
            }
        };
        let options = Some(remote::options_to_wire(&self.args.search));
        SolveBatchRequest {
            id,
            boards: Some(boards),
            goal: None,
            options,
        }
    }
}

fn lost(tally: &Tally, status: &tonic::Status) -> RemoteError {
    RemoteError::Lost {
        answered: tally.boards,
        reason: remote::describe(status),
    }
}

/// Keeps a rate; what comes late is not sent later for it, and its latency
/// counts from when it was due (no coordinated omission).
struct Pace {
    interval: Option<Duration>,
    next: Instant,
}

impl Pace {
    fn new(rate: Option<NonZeroU32>) -> Pace {
        let interval = rate.map(|rate| Duration::from_secs(1) / rate.get());
        Pace {
            interval,
            next: Instant::now(),
        }
    }

    /// Waits for the next turn; since when its latency counts.
    async fn wait(&mut self) -> Instant {
        let Some(interval) = self.interval else {
            return Instant::now();
        };
        let due = self.next;
        self.next += interval;
        tokio::time::sleep_until(due.into()).await;
        due
    }
}
