//! What searches are counted by.

use super::convert;
use crate::search::Method;
use crate::telemetry::Metrics;
use crate::telemetry::metrics::{LocalSearches, Run, Searches};
use crate::wire::v1 as wire;

/// The counters of each method, looked up once.
pub(super) struct Tallies {
    bidirectional_bfs: Searches,
    goal_table: Searches,
    a_star: Searches,
    greedy_best_first: Searches,
    bfs: Searches,
}

impl Tallies {
    pub(super) fn new(metrics: &Metrics) -> Tallies {
        let of = |method| metrics.searches(&name(method));
        Tallies {
            bidirectional_bfs: of(Method::BidirectionalBfs),
            goal_table: of(Method::GoalTable),
            a_star: of(Method::AStar),
            greedy_best_first: of(Method::GreedyBestFirst),
            bfs: of(Method::Bfs),
        }
    }

    /// Counts a run.
    pub(super) fn ran(&self, method: Method, run: &Run) {
        self.of(method).ran(run);
    }

    fn of(&self, method: Method) -> &Searches {
        match method {
            Method::BidirectionalBfs => &self.bidirectional_bfs,
            Method::GoalTable => &self.goal_table,
            Method::AStar => &self.a_star,
            Method::GreedyBestFirst => &self.greedy_best_first,
            Method::Bfs => &self.bfs,
        }
    }
}

/// The most runs that are counted before all are told.
const UNTOLD_RUNS: u32 = 256;

/// What a stream has counted and not told yet: on a stream of small messages
/// the shared counters would cost more than some answers do.
#[derive(Default)]
pub(super) struct LocalTally {
    /// Of the method that ran last.
    searches: Option<(Method, LocalSearches)>,
    runs: u32,
}

impl LocalTally {
    /// Counts a run.
    pub(super) fn ran(&mut self, tallies: &Tallies, method: Method, run: &Run) {
        let searches = match &mut self.searches {
            Some((of, searches)) if *of == method => searches,
            // What another method has counted is told when it is dropped.
            other => &mut other.insert((method, tallies.of(method).local())).1,
        };
        searches.ran(run);
        self.runs += 1;
        if self.runs >= UNTOLD_RUNS {
            self.tell();
        }
    }

    /// Adds what was counted to the shared counters.
    pub(super) fn tell(&mut self) {
        if self.runs > 0
            && let Some((_, searches)) = &mut self.searches
        {
            searches.tell();
        }
        self.runs = 0;
    }
}

/// A method as metrics call it: the contract's name without its prefix, in
/// small letters.
fn name(method: Method) -> String {
    let name = convert::algorithm(method).as_str_name();
    name.trim_start_matches("ALGORITHM_").to_ascii_lowercase()
}

/// Counts boards in [`Run::outcomes`].
#[inline]
pub(super) fn count(run: &mut Run, outcome: wire::Outcome, boards: u64) {
    let [solved, unsolvable, limit_reached, error] = &mut run.outcomes;
    let counter = match outcome {
        wire::Outcome::Solved => solved,
        wire::Outcome::Unsolvable => unsolvable,
        wire::Outcome::LimitReached => limit_reached,
        wire::Outcome::Error => error,
        // No answer has it.
        wire::Outcome::Unspecified => return,
    };
    *counter += boards;
}
