//! `Solve`: one board.

use std::time::Instant;

use tonic::Request;

use super::call::Call;
use super::compute::{expected_cost, solve_board};
use super::error::Fault;
use super::{Solver, convert, tally};
use crate::telemetry::metrics::Run;
use crate::wire::v1::{SolveRequest, SolveResponse};

/// Answers one request. Dropping the future cancels the search.
pub(super) async fn solve(
    solver: &Solver,
    request: Request<SolveRequest>,
) -> Result<SolveResponse, Fault> {
    let (call, _cancel_on_drop) = Call::begin(request.extensions());
    let (problem, options) = convert::request(request.get_ref(), &solver.settings)?;
    let cost = expected_cost(&options, 1);
    let searching = call.clone();
    let searched = solver.compute.run_now(cost, move |workspace| {
        let started = Instant::now();
        let mut moves = String::new();
        let budget = searching.budget();
        let solved = solve_board(workspace, &problem, &options, &budget, &mut moves);
        let elapsed = started.elapsed();
        solved.map(|found| {
            let solution = convert::solution(options.method, &found, moves, Some(elapsed));
            let mut run = Run {
                expanded: found.expanded,
                elapsed,
                ..Run::default()
            };
            tally::count(&mut run, solution.outcome(), 1);
            (solution, run)
        })
    });
    let (solution, run) = searched.await??;
    solver.tallies.ran(options.method, &run);
    call.answered(1);
    Ok(SolveResponse {
        solution: Some(solution),
    })
}
