//! Breadth-first search from the start alone (E. F. Moore, 1959): the textbook
//! baseline.
//!
//! The goal test is made when a state is generated, not when it is expanded:
//! the first way found is as short either way, and most of the goal's own
//! level need not be expanded.

use super::meter::Meter;
use super::route::Route;
use super::visited::Side;
use super::workspace::{BreadthFirst, Workspace};
use super::{Budget, Detail, Interrupted, Outcome, SearchOptions, Solution};

/// Solves a problem whose start is not its goal.
pub(super) fn solve(
    workspace: &mut Workspace,
    route: &Route,
    options: &SearchOptions,
    budget: &Budget<'_>,
    moves: &mut String,
) -> Result<Solution, Interrupted> {
    let transitions = route.transitions;
    let BreadthFirst {
        visited,
        from_start: frontier,
        path,
        ..
    } = workspace.breadth_first();
    frontier.begin(route.start);
    visited.of(Side::Start).root(route.start);
    // The goal is all there ever is of its side: to meet it is to be there.
    visited.of(Side::Goal).root(route.goal);
    let mut meter = Meter::new(options, budget);
    let meeting = loop {
        // Parity says that the ends are connected, so this is not reached.
        if frontier.length() == 0 {
            return Ok(meter.solution(Outcome::Unsolvable));
        }
        match frontier.expand(transitions, visited, Side::Start, &mut meter) {
            Ok(None) => {}
            Ok(Some(meeting)) => break meeting,
            Err(stop) => return meter.stopped(stop),
        }
    };
    let depth = frontier.depth();
    if options.detail == Detail::Moves {
        path.clear();
        path.push(meeting.direction);
        frontier.walk_back(transitions, meeting.from, |direction| {
            path.push(direction);
        });
        moves.extend(path.iter().rev().map(|direction| direction.letter()));
    }
    Ok(meter.solution(Outcome::Solved {
        length: depth + 1,
        optimal: true,
    }))
}
