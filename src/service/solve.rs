//! `Solve`: one board.

use std::time::Instant;

use tonic::Request;

use super::call::Call;
use super::compute::{expected_cost, solve_board};
use super::error::Fault;
use super::{Solver, convert};
use crate::wire::v1::{SolveRequest, SolveResponse};

/// Answers one request. Dropping the future cancels the search.
pub(super) async fn solve(
    solver: &Solver,
    request: Request<SolveRequest>,
) -> Result<SolveResponse, Fault> {
    let (call, _cancel_on_drop) = Call::begin(request.extensions());
    let (problem, options) = convert::request(request.get_ref(), &solver.settings)?;
    let cost = expected_cost(&options, 1);
    let searched = solver.compute.run_now(cost, move |workspace| {
        let started = Instant::now();
        let mut moves = String::new();
        solve_board(workspace, &problem, &options, &call.budget(), &mut moves)
            .map(|found| convert::solution(options.method, &found, moves, Some(started.elapsed())))
    });
    let solution = searched.await??;
    Ok(SolveResponse {
        solution: Some(solution),
    })
}
