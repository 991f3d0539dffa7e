//! Solving on a server: the client that commands with `--connect` share.

use std::collections::VecDeque;
use std::io;
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::answer::{self, Answer, Found};
use super::connect::connect;
use super::exit::Exit;
use super::lines::Lines;
use super::options::{Algorithm, HeuristicName, SearchArgs};
use super::solve::{Output, SolveError};
use super::task::Task;
use super::tls::ClientTlsArgs;
use crate::puzzle::Board;
use crate::wire::v1::solver_service_client::SolverServiceClient;
use crate::wire::v1::{
    self as wire, BoardList, SolveBatchRequest, SolveBatchResponse, board_result,
    solve_batch_request, solve_batch_response,
};

/// The most lines of a request: where batching stops to pay.
const LINES_PER_REQUEST: usize = 256;

/// The most requests without an answer: enough to keep a server busy over a
/// slow link, and the bound on what is held of an endless input.
const REQUESTS_IN_FLIGHT: usize = 32;

/// How long a server may take to begin its answer to a call; ours does at once.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// What went wrong between us and the server.
#[derive(Debug, thiserror::Error)]
pub(super) enum RemoteError {
    #[error(
        "`{uri}` is not the address of a server: write http://HOST:PORT, https://HOST:PORT (without a path) or unix:PATH"
    )]
    BadUri { uri: String },
    #[error("{0}")]
    Tls(String),
    #[error("cannot connect to {uri}: {reason}")]
    Connect { uri: String, reason: String },
    #[error("the stream was lost (boards answered: {answered}): {reason}")]
    Lost { answered: u64, reason: String },
    #[error("cannot start the client: {0}")]
    Start(#[source] io::Error),
}

impl RemoteError {
    pub(super) fn exit(&self) -> Exit {
        match self {
            RemoteError::BadUri { .. } | RemoteError::Tls(_) => Exit::Usage,
            RemoteError::Connect { .. } => Exit::Unavailable,
            RemoteError::Lost { .. } | RemoteError::Start(_) => Exit::Lost,
        }
    }

    /// Why the first call to a server failed. One that came to no answer at all
    /// tells that nothing there speaks gRPC as we do: the port of a server with
    /// TLS, or without, looks like that.
    pub(super) fn of_first_call(uri: &str, status: &Status) -> RemoteError {
        // What a server answers has no cause here.
        match std::error::Error::source(status) {
            Some(source) => RemoteError::Connect {
                uri: uri.to_owned(),
                reason: no_grpc(uri, source),
            },
            None => RemoteError::Lost {
                answered: 0,
                reason: describe(status),
            },
        }
    }
}

/// Why what could be connected to did not answer a first call, which only ends
/// so where it speaks something else.
pub(super) fn no_grpc(uri: &str, error: &dyn std::error::Error) -> String {
    let reason = root(error);
    if uri.starts_with("http://") {
        format!("{reason} (a server with TLS is at https://HOST:PORT)")
    } else {
        reason
    }
}

/// The innermost cause: the outer ones only say "transport error".
pub(super) fn root(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => root(source),
        None => error.to_string(),
    }
}

/// A line on its way.
enum Entry {
    /// Sent, and answered by the server.
    Sent,
    /// Answered here.
    Answered(Answer),
}

/// Consecutive lines, with the boards among them.
#[derive(Default)]
struct Batch {
    entries: VecDeque<Entry>,
    boards: BoardList,
}

impl Batch {
    fn push(&mut self, task: &Task, line: &str) {
        match task.parse(line) {
            Ok(problem) => {
                self.boards.push((&board_to_wire(problem.start())).into());
                self.entries.push_back(Entry::Sent);
            }
            Err(error) => self
                .entries
                .push_back(Entry::Answered(Answer::refused(&error))),
        }
    }
}

pub(super) fn board_to_wire(board: &Board) -> wire::Board {
    let (rows, columns) = board.shape().sides();
    let tiles = board.tiles().iter().map(|tile| u32::from(*tile)).collect();
    wire::Board {
        tiles,
        rows,
        columns,
    }
}

pub(super) fn options_to_wire(search: &SearchArgs) -> wire::SolveOptions {
    let algorithm = match search.algorithm {
        None => wire::Algorithm::Unspecified,
        Some(Algorithm::BidirectionalBfs) => wire::Algorithm::BidirectionalBfs,
        Some(Algorithm::GoalTable) => wire::Algorithm::GoalTable,
        Some(Algorithm::AStar) => wire::Algorithm::AStar,
        Some(Algorithm::GreedyBestFirst) => wire::Algorithm::GreedyBestFirst,
        Some(Algorithm::Bfs) => wire::Algorithm::Bfs,
    };
    let heuristic = match search.heuristic {
        HeuristicName::Manhattan => wire::Heuristic::Manhattan,
        HeuristicName::MisplacedTiles => wire::Heuristic::MisplacedTiles,
        HeuristicName::LinearConflict => wire::Heuristic::LinearConflict,
    };
    wire::SolveOptions {
        algorithm: algorithm.into(),
        heuristic: heuristic.into(),
        weight: search.weight.get(),
        max_expanded: search.max_expanded,
        detail: wire::Detail::Moves.into(),
    }
}

/// Solves all lines on the server.
pub(super) fn solve(
    uri: &str,
    tls: &ClientTlsArgs,
    task: Task,
    search: &SearchArgs,
    boards: Vec<String>,
    output: &mut Output,
) -> Result<(), SolveError> {
    // A worker beside this thread answers the server's pings while writing an
    // answer waits for whoever reads it (`| less`).
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(RemoteError::Start)?;
    runtime.block_on(async {
        let channel = connect(uri, tls).await?;
        let goal = task.goal().map(board_to_wire);
        let options = options_to_wire(search);
        let (batches, input) = mpsc::channel(REQUESTS_IN_FLIGHT);
        // Reading blocks, and may block for ever: a thread that nobody joins.
        thread::Builder::new()
            .name("loyd-input".to_owned())
            .spawn(move || read_batches(&task, &boards, &batches))
            .map_err(RemoteError::Start)?;
        exchange(uri, channel, goal, options, input, output).await
    })
}

/// Reads lines, and passes them on when a batch is full or the next line has
/// to be waited for.
fn read_batches(task: &Task, boards: &[String], batches: &mpsc::Sender<io::Result<Batch>>) {
    // A send fails only where nobody wants more.
    if !boards.is_empty() {
        for boards in boards.chunks(LINES_PER_REQUEST) {
            let mut batch = Batch::default();
            boards.iter().for_each(|board| batch.push(task, board));
            if batches.blocking_send(Ok(batch)).is_err() {
                return;
            }
        }
        return;
    }
    let mut lines = Lines::new(io::stdin());
    let mut batch = Batch::default();
    loop {
        let full = batch.entries.len() >= LINES_PER_REQUEST;
        let due = full || (!batch.entries.is_empty() && lines.would_wait());
        if due
            && batches
                .blocking_send(Ok(std::mem::take(&mut batch)))
                .is_err()
        {
            return;
        }
        match lines.next() {
            Ok(None) => break,
            Ok(Some(Ok(line))) if line.trim().is_empty() => {}
            Ok(Some(Ok(line))) => batch.push(task, line),
            Ok(Some(Err(error))) => batch
                .entries
                .push_back(Entry::Answered(Answer::refused(&error))),
            Err(error) => {
                let _ = batches
                    .blocking_send(Ok(batch))
                    .and_then(|()| batches.blocking_send(Err(error)));
                return;
            }
        }
    }
    let _ = batches.blocking_send(Ok(batch));
}

async fn exchange(
    uri: &str,
    channel: Channel,
    goal: Option<wire::Board>,
    options: wire::SolveOptions,
    mut input: mpsc::Receiver<io::Result<Batch>>,
    output: &mut Output,
) -> Result<(), SolveError> {
    let (sender, requests) = mpsc::channel(REQUESTS_IN_FLIGHT);
    let mut sender = Some(sender);
    let mut client = SolverServiceClient::new(channel);
    let mut exchange = Exchange {
        pending: VecDeque::new(),
        answered: 0,
        output,
    };
    let called = client.solve_batch(ReceiverStream::new(requests));
    let mut responses = match tokio::time::timeout(FIRST_ANSWER_TIMEOUT, called).await {
        Ok(called) => called
            .map_err(|status| RemoteError::of_first_call(uri, &status))?
            .into_inner(),
        Err(_) => return Err(exchange.broken("the server does not answer").into()),
    };
    let mut next_id = 0;
    while sender.is_some() || !exchange.pending.is_empty() {
        tokio::select! {
            batch = input.recv(), if sender.is_some() && exchange.pending.len() < REQUESTS_IN_FLIGHT => {
                let Some(batch) = batch else {
                    // The half-close: no more requests.
                    sender = None;
                    continue;
                };
                let Batch { entries, boards } = batch.map_err(SolveError::Input)?;
                if !boards.is_empty() {
                    let request = SolveBatchRequest {
                        id: next_id,
                        boards: Some(solve_batch_request::Boards::List(boards)),
                        goal: goal.clone(),
                        options: Some(options),
                    };
                    // Never full: no more requests wait than there is room for.
                    // A closed one shows as the end of the responses.
                    if let Some(sender) = &sender {
                        let _ = sender.send(request).await;
                    }
                }
                exchange.pending.push_back((next_id, entries));
                next_id += 1;
                exchange.write_answered()?;
            }
            response = responses.message() => match response {
                Ok(Some(response)) => exchange.take(response)?,
                Ok(None) => return Err(exchange.broken("the server ended it").into()),
                Err(status) => return Err(exchange.lost(&status).into()),
            },
        }
    }
    end(&mut responses, &exchange).await
}

/// All is answered: what is left is the status.
async fn end(
    responses: &mut Streaming<SolveBatchResponse>,
    exchange: &Exchange<'_>,
) -> Result<(), SolveError> {
    match responses.message().await {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(exchange
            .broken("an answer came that was not asked for")
            .into()),
        Err(status) => Err(exchange.lost(&status).into()),
    }
}

/// A status in words; that of a broken transport says little itself.
pub(super) fn describe(status: &Status) -> String {
    let code = status.code();
    match std::error::Error::source(status) {
        Some(source) => format!("{code:?}: {}", root(source)),
        None => format!("{code:?}: {}", status.message()),
    }
}

/// The lines that are not answered yet, in order.
struct Exchange<'a> {
    pending: VecDeque<(u64, VecDeque<Entry>)>,
    answered: u64,
    output: &'a mut Output,
}

impl Exchange<'_> {
    fn broken(&self, reason: &str) -> RemoteError {
        RemoteError::Lost {
            answered: self.answered,
            reason: reason.to_owned(),
        }
    }

    fn lost(&self, status: &Status) -> RemoteError {
        self.broken(&describe(status))
    }

    /// Writes what needs no server, as far as the order allows.
    fn write_answered(&mut self) -> Result<(), SolveError> {
        while let Some((_, entries)) = self.pending.front_mut() {
            match entries.front() {
                Some(Entry::Sent) => return Ok(()),
                Some(Entry::Answered(answer)) => {
                    self.output.write(answer)?;
                    self.answered += 1;
                    entries.pop_front();
                }
                None => {
                    self.pending.pop_front();
                    self.output.flush()?;
                }
            }
        }
        Ok(())
    }

    /// Writes the server's answer to the next line that was sent.
    fn write_next(&mut self, id: u64, answer: &Answer) -> Result<(), SolveError> {
        match self.pending.front_mut() {
            Some((front, entries)) if *front == id && !entries.is_empty() => {
                entries.pop_front();
            }
            _ => return Err(self.broken("an answer came out of order").into()),
        }
        self.output.write(answer)?;
        self.answered += 1;
        self.write_answered()
    }

    fn take(&mut self, response: SolveBatchResponse) -> Result<(), SolveError> {
        match response.results {
            Some(solve_batch_response::Results::List(list)) => {
                for result in list.results {
                    self.write_next(response.id, &answer_from_wire(result.result))?;
                }
            }
            Some(solve_batch_response::Results::Error(error)) => {
                let answer = Answer::Error(error.message);
                while self
                    .pending
                    .front()
                    .is_some_and(|(id, _)| *id == response.id)
                {
                    self.write_next(response.id, &answer)?;
                }
            }
            Some(solve_batch_response::Results::Packed(_)) | None => {
                return Err(self
                    .broken("an answer came in a form that was not asked for")
                    .into());
            }
        }
        self.output.flush()?;
        if !response.more
            && self
                .pending
                .front()
                .is_some_and(|(id, _)| *id == response.id)
        {
            return Err(self.broken("an answer came short").into());
        }
        Ok(())
    }
}

fn answer_from_wire(result: Option<board_result::Result>) -> Answer {
    let solution = match result {
        Some(board_result::Result::Solution(solution)) => solution,
        Some(board_result::Result::Error(error)) => return Answer::Error(error.message),
        None => return Answer::Error("the server sent an empty answer".to_owned()),
    };
    let outcome = match solution.outcome() {
        wire::Outcome::Solved => answer::Outcome::Solved,
        wire::Outcome::Unsolvable => answer::Outcome::Unsolvable,
        wire::Outcome::LimitReached => answer::Outcome::LimitReached,
        wire::Outcome::Unspecified | wire::Outcome::Error => {
            return Answer::Error("the server sent an unknown outcome".to_owned());
        }
    };
    let stats = solution.stats.unwrap_or_default();
    Answer::Found(Found {
        outcome,
        moves: solution.moves,
        length: solution.length,
        optimal: solution.optimal,
        expanded: stats.expanded,
        generated: stats.generated,
    })
}
