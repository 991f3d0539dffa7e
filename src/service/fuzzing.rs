//! Ways in for the fuzz targets, which can't be private. Not in ordinary builds.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "what panics here is a finding"
)]

use std::num::NonZeroU64;

use prost::Message;

use super::{Settings, batch, convert};
use crate::search::Workspace;
use crate::wire;
use crate::wire::v1::{
    PackedBoards, SolveBatchRequest, SolveRequest, solve_batch_request, solve_batch_response,
};

/// Few boards and short searches: a fuzzer wants many inputs, not long ones.
fn settings() -> Settings {
    Settings {
        max_expanded: NonZeroU64::MIN.saturating_add(99),
        max_packed_boards: 256,
        max_list_boards: 256,
        ..Settings::default()
    }
}

/// Bytes as a `SolveRequest`: refused, or a problem whose boards say the same
/// as the message.
pub fn solve_request(bytes: &[u8]) {
    let Ok(request) = SolveRequest::decode(bytes) else {
        return;
    };
    match convert::request(&request, &settings()) {
        Ok((problem, options)) => {
            let told: Vec<u32> = problem
                .start()
                .tiles()
                .iter()
                .map(|&tile| tile.into())
                .collect();
            assert_eq!(Some(told), request.board.map(|board| board.tiles));
            assert_eq!(problem.start().shape(), problem.goal().shape());
            assert!(options.max_expanded <= 100);
        }
        Err(fault) => {
            let status = tonic::Status::from(fault);
            assert!(!status.message().is_empty() && status.details().len() < 4096);
        }
    }
}

/// Bytes as a `SolveBatchRequest`: every board answered once, in order, in
/// responses of at most 1 MiB.
pub fn batch_request(bytes: &[u8], workspace: &mut Workspace) {
    wire::check(bytes);
    let Ok(request) = SolveBatchRequest::decode(bytes) else {
        return;
    };
    check_answers(request, workspace);
}

/// Bytes as the tiles of a packed message of this shape, which may be none.
pub fn packed(rows: u32, columns: u32, tiles: &[u8], workspace: &mut Workspace) {
    let boards = PackedBoards {
        rows,
        columns,
        tiles: tiles.to_vec().into(),
    };
    let boards = Some(solve_batch_request::Boards::Packed(boards));
    check_answers(
        SolveBatchRequest {
            id: 7,
            boards,
            goal: None,
            options: None,
        },
        workspace,
    );
}

fn check_answers(request: SolveBatchRequest, workspace: &mut Workspace) {
    let id = request.id;
    let asked = match &request.boards {
        Some(solve_batch_request::Boards::List(list)) => list.len(),
        Some(solve_batch_request::Boards::Packed(packed)) => {
            let cells = match (packed.rows, packed.columns) {
                (0, 0) => 9,
                (rows, columns) => (rows as usize).saturating_mul(columns as usize).max(1),
            };
            packed.tiles.len() / cells
        }
        None => 0,
    };
    let responses = batch::answer_one(request, &settings(), workspace);
    let (last, others) = responses.split_last().unwrap();
    assert!(!last.more && others.iter().all(|response| response.more));
    let mut answered = 0;
    for response in &responses {
        assert_eq!(response.id, id);
        assert!(response.encoded_len() <= 1 << 20);
        assert_eq!(response.first_board as usize, answered);
        answered += match &response.results {
            Some(solve_batch_response::Results::List(list)) => list.results.len(),
            Some(solve_batch_response::Results::Packed(packed)) => {
                assert_eq!(packed.outcomes.len(), packed.lengths.len());
                let moves: u32 = packed.lengths().sum();
                assert!(packed.moves.is_empty() || packed.moves.len() == moves as usize);
                packed.outcomes.len()
            }
            Some(solve_batch_response::Results::Error(error)) => {
                assert!(!error.message.is_empty());
                return;
            }
            None => 0,
        };
    }
    assert_eq!(answered, asked);
}
