//! Best-first search.
use super::route::Route;
use super::workspace::Workspace;
use super::{Budget, Interrupted, SearchOptions, Solution};

pub(super) fn a_star(
    workspace: &mut Workspace,
    route: &Route,
    options: &SearchOptions,
    budget: &Budget<'_>,
    moves: &mut String,
) -> Result<Solution, Interrupted> {
    super::bidirectional::solve(workspace, route, options, budget, moves)
}

pub(super) fn greedy(
    workspace: &mut Workspace,
    route: &Route,
    options: &SearchOptions,
    budget: &Budget<'_>,
    moves: &mut String,
) -> Result<Solution, Interrupted> {
    super::bidirectional::solve(workspace, route, options, budget, moves)
}
