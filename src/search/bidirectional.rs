//! Breadth-first search from both ends (I. Pohl, "Bi-directional Search", 1971).
//!
//! Level by level, always the smaller frontier and the start's side where both
//! are equal, until the first meeting. That this is a shortest way: all states
//! up to a depth `s` of the start and `g` of the goal are known and none is
//! shared, so every way is longer than `s + g`; the first meeting is one of
//! `s + 1 + g`, as a state of the other side that is nearer to its end would
//! make a shorter one.

use super::frontier::Meeting;
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
        from_start,
        from_goal,
        path,
    } = workspace.breadth_first();
    for (frontier, root, side) in [
        (&mut *from_start, route.start, Side::Start),
        (&mut *from_goal, route.goal, Side::Goal),
    ] {
        frontier.begin(root);
        visited.of(side).root(root);
    }
    let mut meter = Meter::new(options, budget);
    let (side, meeting) = loop {
        let (side, frontier) = if from_start.length() <= from_goal.length() {
            (Side::Start, &mut *from_start)
        } else {
            (Side::Goal, &mut *from_goal)
        };
        // Parity says that the ends are connected, so this is not reached.
        if frontier.length() == 0 {
            return Ok(meter.solution(Outcome::Unsolvable));
        }
        match frontier.expand(transitions, visited, side, &mut meter) {
            Ok(None) => {}
            Ok(Some(meeting)) => break (side, meeting),
            Err(stop) => return meter.stopped(stop),
        }
    };
    if options.detail == Detail::Moves {
        let Meeting {
            from,
            direction,
            to,
        } = meeting;
        let (start_end, direction, goal_end) = match side {
            Side::Start => (from, direction, from_goal.latest(to)),
            Side::Goal => (from_start.latest(to), direction.opposite(), from),
        };
        path.clear();
        from_start.walk_back(transitions, start_end, |move_to| path.push(move_to));
        moves.extend(path.iter().rev().map(|direction| direction.letter()));
        moves.push(direction.letter());
        from_goal.walk_back(transitions, goal_end, |move_to| {
            moves.push(move_to.opposite().letter());
        });
    }
    Ok(meter.solution(Outcome::Solved {
        length: from_start.depth() + 1 + from_goal.depth(),
        optimal: true,
    }))
}
