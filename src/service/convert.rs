//! Between the wire and the domain. Wire types end here.

use std::time::Duration;

use super::Settings;
use super::error::Fault;
use crate::puzzle::{Board, BoardError, Problem};
use crate::search::{Detail, Heuristic, Method, Outcome, SearchOptions, Solution, Weight};
use crate::wire::v1::{self as wire, BoardRef};

/// Reads a board.
#[inline]
pub(super) fn board(board: BoardRef<'_>) -> Result<Board, BoardError> {
    Board::new(board.tiles, board.rows, board.columns)
}

/// Reads a goal; absent means the standard goal of each board's shape.
pub(super) fn goal(goal: Option<&wire::Board>) -> Result<Option<Board>, Fault> {
    goal.map(|goal| board(goal.into()).map_err(Fault::Goal))
        .transpose()
}

/// Puts a board and a goal together.
#[inline]
pub(super) fn problem(start: Board, goal: Option<Board>) -> Result<Problem, Fault> {
    match goal {
        Some(goal) => Ok(Problem::new(start, goal)?),
        None => Ok(Problem::to_standard_goal(start)),
    }
}

/// Reads the whole of a unary request.
pub(super) fn request(
    request: &wire::SolveRequest,
    settings: &Settings,
) -> Result<(Problem, SearchOptions), Fault> {
    // An absent board is one without tiles.
    let absent = wire::Board::default();
    let start = board(request.board.as_ref().unwrap_or(&absent).into()).map_err(Fault::Board);
    let goal = goal(request.goal.as_ref());
    let options = options(request.options.as_ref(), settings);
    match (start, goal) {
        (Ok(start), Ok(goal)) => Ok((problem(start, goal)?, options?)),
        (start, goal) => {
            let faults = [start.err(), goal.err(), options.err()];
            Err(Fault::first(faults))
        }
    }
}

/// Reads the options.
pub(super) fn options(
    options: Option<&wire::SolveOptions>,
    settings: &Settings,
) -> Result<SearchOptions, Fault> {
    let absent = wire::SolveOptions::default();
    let options = options.unwrap_or(&absent);
    let algorithm = known::<wire::Algorithm>(
        "algorithm",
        options.algorithm,
        wire::Algorithm::IdaStar as i32,
    )?;
    let heuristic = known::<wire::Heuristic>(
        "heuristic",
        options.heuristic,
        wire::Heuristic::LinearConflict as i32,
    )?;
    let detail = known::<wire::Detail>("detail", options.detail, wire::Detail::LengthOnly as i32)?;
    let weight = if options.weight == 0.0 {
        Weight::ONE
    } else {
        Weight::new(options.weight).map_err(Fault::BadWeight)?
    };
    let method = method(algorithm, settings.default_method)?;
    let limit = settings.max_expanded.get();
    Ok(SearchOptions {
        method,
        heuristic: match heuristic {
            wire::Heuristic::Unspecified | wire::Heuristic::Manhattan => Heuristic::Manhattan,
            wire::Heuristic::MisplacedTiles => Heuristic::MisplacedTiles,
            wire::Heuristic::LinearConflict => Heuristic::LinearConflict,
        },
        weight,
        max_expanded: match options.max_expanded {
            0 => limit,
            asked => asked.min(limit),
        },
        detail: match detail {
            wire::Detail::Unspecified | wire::Detail::Moves => Detail::Moves,
            wire::Detail::LengthOnly => Detail::LengthOnly,
        },
    })
}

fn known<E: TryFrom<i32>>(field: &'static str, value: i32, largest: i32) -> Result<E, Fault> {
    E::try_from(value).map_err(|_| Fault::UnknownEnumValue {
        field,
        value,
        largest,
    })
}

fn method(algorithm: wire::Algorithm, default: Method) -> Result<Method, Fault> {
    match algorithm {
        wire::Algorithm::Unspecified => Ok(default),
        wire::Algorithm::BidirectionalBfs => Ok(Method::BidirectionalBfs),
        wire::Algorithm::GoalTable => Ok(Method::GoalTable),
        wire::Algorithm::AStar => Ok(Method::AStar),
        wire::Algorithm::GreedyBestFirst => Ok(Method::GreedyBestFirst),
        wire::Algorithm::Bfs => Ok(Method::Bfs),
        wire::Algorithm::IdaStar => Err(Fault::MethodNotAvailable("IDA_STAR")),
    }
}

/// The contract's name of a method.
pub(super) fn algorithm(method: Method) -> wire::Algorithm {
    match method {
        Method::BidirectionalBfs => wire::Algorithm::BidirectionalBfs,
        Method::GoalTable => wire::Algorithm::GoalTable,
        Method::AStar => wire::Algorithm::AStar,
        Method::GreedyBestFirst => wire::Algorithm::GreedyBestFirst,
        Method::Bfs => wire::Algorithm::Bfs,
    }
}

/// The contract's outcome, the length (0 where there is none), and whether it
/// is proved.
#[inline]
pub(super) fn outcome(outcome: Outcome) -> (wire::Outcome, u32, bool) {
    match outcome {
        Outcome::Solved { length, optimal } => (wire::Outcome::Solved, length, optimal),
        Outcome::Unsolvable => (wire::Outcome::Unsolvable, 0, false),
        Outcome::LimitReached => (wire::Outcome::LimitReached, 0, false),
    }
}

/// Writes what a search did.
pub(super) fn stats(
    method: Method,
    expanded: u64,
    generated: u64,
    elapsed: Option<Duration>,
) -> wire::SearchStats {
    wire::SearchStats {
        algorithm: algorithm(method).into(),
        expanded,
        generated,
        elapsed: elapsed.and_then(|elapsed| prost_types::Duration::try_from(elapsed).ok()),
    }
}

/// Writes an answer.
pub(super) fn solution(
    method: Method,
    found: &Solution,
    moves: String,
    elapsed: Option<Duration>,
) -> wire::Solution {
    let (outcome, length, optimal) = outcome(found.outcome);
    wire::Solution {
        outcome: outcome.into(),
        moves,
        length,
        optimal,
        stats: Some(stats(method, found.expanded, found.generated, elapsed)),
    }
}
