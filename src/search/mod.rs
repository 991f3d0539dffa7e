//! The engine: every method that solves a [`Problem`].
//!
//! A method takes a problem, [`SearchOptions`], a [`Budget`] and a leased
//! [`Workspace`]; it allocates nothing per state and does not know who asked.

mod arrays;
mod best_first;
mod bfs;
mod bidirectional;
mod budget;
mod eight;
mod frontier;
pub mod goal_table;
mod heuristic;
mod index;
mod meter;
mod plain_a_star;
mod route;
mod transitions;
mod visited;
mod workspace;

pub use budget::{Budget, Interrupted};
pub use heuristic::estimate;
pub use workspace::{Workspace, WorkspaceLease, WorkspacePool};

use crate::puzzle::Problem;
use route::Route;

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// From both ends, level by level: `search::bidirectional`.
    BidirectionalBfs,
    /// A kept search from the goal: `search::goal_table`.
    GoalTable,
    /// A* and, with a weight above 1, weighted A*: `search::best_first`.
    AStar,
    /// Greedy best-first: `search::best_first`.
    GreedyBestFirst,
    /// From the start alone: `search::bfs`.
    Bfs,
}

/// A lower bound on the moves that are left; each is consistent, and the blank
/// is never counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Heuristic {
    /// Rows plus columns from each tile to its goal cell.
    #[default]
    Manhattan,
    /// The number of tiles off their goal cell.
    MisplacedTiles,
    /// Manhattan distance plus two for each tile that must step out of its
    /// line for another to pass.
    LinearConflict,
}

/// The factor before the heuristic in A*: finite and at least 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Weight(f64);

/// The weight is not finite or below 1.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the weight is {0}: it must be a finite number of at least 1")]
pub struct BadWeight(pub f64);

impl Weight {
    /// Plain A*.
    pub const ONE: Weight = Weight(1.0);

    /// A weight.
    ///
    /// # Errors
    /// [`BadWeight`] where it is below 1, infinite or not a number.
    pub fn new(weight: f64) -> Result<Weight, BadWeight> {
        if weight.is_finite() && weight >= 1.0 {
            Ok(Weight(weight))
        } else {
            Err(BadWeight(weight))
        }
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// How much of the answer is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Detail {
    /// The moves and their number.
    #[default]
    Moves,
    /// The number alone.
    LengthOnly,
}

/// Everything that decides an answer beside the problem.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchOptions {
    /// The method.
    pub method: Method,
    /// For the methods that have one.
    pub heuristic: Heuristic,
    /// For A*.
    pub weight: Weight,
    /// The most states to expand before giving up.
    pub max_expanded: u64,
    /// Whether to write the moves down.
    pub detail: Detail,
}

impl Default for SearchOptions {
    fn default() -> Self {
        SearchOptions {
            method: Method::BidirectionalBfs,
            heuristic: Heuristic::default(),
            weight: Weight::ONE,
            max_expanded: u64::MAX,
            detail: Detail::default(),
        }
    }
}

/// What came of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The goal was reached in `length` moves.
    Solved {
        /// The number of moves.
        length: u32,
        /// The method proves that no shorter solution exists.
        optimal: bool,
    },
    /// No moves lead to the goal.
    Unsolvable,
    /// [`SearchOptions::max_expanded`] states were expanded without an answer.
    LimitReached,
}

/// The answer of a search and what it cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solution {
    /// What came of it.
    pub outcome: Outcome,
    /// States whose successors were made.
    pub expanded: u64,
    /// Successors made, the way back to the parent and duplicates included.
    pub generated: u64,
}

/// Solves a problem, and appends the letters of its moves (`u` `l` `r` `d`:
/// where the blank goes) to `moves`: nothing where it is not solved or under
/// [`Detail::LengthOnly`].
///
/// # Errors
/// [`Interrupted`] where the budget was used up first; `moves` is as before.
/// The goal table never is: an answer takes less time than a look at the
/// clock, so callers with many boards look between them.
#[inline]
pub fn solve(
    workspace: &mut Workspace,
    problem: &Problem,
    options: &SearchOptions,
    budget: &Budget<'_>,
    moves: &mut String,
) -> Result<Solution, Interrupted> {
    if options.method == Method::GoalTable {
        return Ok(goal_table::solve(problem, options.detail, moves));
    }
    search(workspace, problem, options, budget, moves)
}

fn search(
    workspace: &mut Workspace,
    problem: &Problem,
    options: &SearchOptions,
    budget: &Budget<'_>,
    moves: &mut String,
) -> Result<Solution, Interrupted> {
    let Some(route) = Route::of(problem) else {
        return Ok(Solution::free(Outcome::Unsolvable));
    };
    if route.start == route.goal {
        return Ok(Solution::free(Outcome::Solved {
            length: 0,
            optimal: true,
        }));
    }
    match options.method {
        Method::BidirectionalBfs => bidirectional::solve(workspace, &route, options, budget, moves),
        Method::GoalTable => Ok(goal_table::solve(problem, options.detail, moves)),
        Method::AStar => best_first::a_star(workspace, &route, options, budget, moves),
        Method::GreedyBestFirst => best_first::greedy(workspace, &route, options, budget, moves),
        Method::Bfs => bfs::solve(workspace, &route, options, budget, moves),
    }
}

impl Solution {
    /// An answer for which no state had to be expanded.
    #[inline]
    fn free(outcome: Outcome) -> Solution {
        Solution {
            outcome,
            expanded: 0,
            generated: 0,
        }
    }
}
