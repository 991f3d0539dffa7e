//! The options that say how to solve, in words of the command line.

use std::num::NonZeroUsize;
use std::time::Duration;

use clap::ValueEnum;

use crate::search::{Detail, Heuristic, Method, SearchOptions, Weight};

/// `--algorithm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Algorithm {
    /// Breadth-first from both ends, each board anew; optimal
    BidirectionalBfs,
    /// A search from the goal, kept as a table; optimal and fastest
    GoalTable,
    /// A*; optimal, or bounded by a weight above 1
    AStar,
    /// Greedy best-first; quick, not optimal
    GreedyBestFirst,
    /// Breadth-first from the start; optimal
    Bfs,
}

impl From<Algorithm> for Method {
    fn from(algorithm: Algorithm) -> Method {
        match algorithm {
            Algorithm::BidirectionalBfs => Method::BidirectionalBfs,
            Algorithm::GoalTable => Method::GoalTable,
            Algorithm::AStar => Method::AStar,
            Algorithm::GreedyBestFirst => Method::GreedyBestFirst,
            Algorithm::Bfs => Method::Bfs,
        }
    }
}

/// `--heuristic`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum HeuristicName {
    /// Rows plus columns from each tile to its goal cell
    Manhattan,
    /// The number of tiles off their goal cell
    MisplacedTiles,
    /// Manhattan, plus two for each tile that must let another pass
    LinearConflict,
}

impl From<HeuristicName> for Heuristic {
    fn from(name: HeuristicName) -> Heuristic {
        match name {
            HeuristicName::Manhattan => Heuristic::Manhattan,
            HeuristicName::MisplacedTiles => Heuristic::MisplacedTiles,
            HeuristicName::LinearConflict => Heuristic::LinearConflict,
        }
    }
}

/// How to solve.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct SearchArgs {
    /// How to search; a server's own default applies with --connect
    #[arg(long, value_enum, value_name = "METHOD")]
    pub(super) algorithm: Option<Algorithm>,

    /// What a-star and greedy-best-first are led by
    #[arg(long, value_enum, value_name = "NAME", default_value = "manhattan")]
    pub(super) heuristic: HeuristicName,

    /// Weight of the heuristic in a-star: above 1, shorter searches and
    /// solutions of at most weight times the least length
    #[arg(long, value_name = "W", default_value = "1", value_parser = parse_weight)]
    pub(super) weight: Weight,

    /// Give a board up after expanding this many states (0: no limit here, the
    /// server's with --connect)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) max_expanded: u64,
}

impl SearchArgs {
    /// The options for a search in this process.
    pub(super) fn search_options(&self, detail: Detail) -> SearchOptions {
        SearchOptions {
            method: self
                .algorithm
                .map_or(Method::BidirectionalBfs, Method::from),
            heuristic: self.heuristic.into(),
            weight: self.weight,
            max_expanded: if self.max_expanded == 0 {
                u64::MAX
            } else {
                self.max_expanded
            },
            detail,
        }
    }
}

fn parse_weight(value: &str) -> Result<Weight, String> {
    let number: f64 = value
        .parse()
        .map_err(|_| format!("`{value}` is not a number"))?;
    Weight::new(number).map_err(|error| error.to_string())
}

/// The longest time an option may name: beyond it, clocks overflow.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// The shortest time in which anything can happen.
const SHORTEST: Duration = Duration::from_millis(1);

/// Reads `500ms`, `5s` or `1m 30s`; a number alone means seconds.
pub(super) fn parse_duration(value: &str) -> Result<Duration, String> {
    let duration = match value.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => humantime::parse_duration(value).map_err(|error| {
            format!("`{value}` is not a time such as 500ms, 5s, 2m or 5 (seconds): {error}")
        })?,
    };
    if duration > LONGEST {
        return Err(format!("`{value}` is longer than a year"));
    }
    Ok(duration)
}

/// Reads a time within which something has to happen, or after which it does.
pub(super) fn parse_positive_duration(value: &str) -> Result<Duration, String> {
    let duration = parse_duration(value)?;
    if duration < SHORTEST {
        return Err(format!("`{value}` is not a time from 1ms to a year"));
    }
    Ok(duration)
}

/// Reads the number of something that costs memory for each: 1 to `most`.
pub(super) fn parse_count(value: &str, most: usize) -> Result<NonZeroUsize, String> {
    value
        .parse()
        .ok()
        .filter(|count: &NonZeroUsize| count.get() <= most)
        .ok_or_else(|| format!("`{value}` is not a number from 1 to {most}"))
}
