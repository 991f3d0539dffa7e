//! What a message of a batch asks for.

use bytes::Bytes;

use super::super::error::Fault;
use super::super::{Settings, convert};
use crate::puzzle::{Board, Problem, Shape};
use crate::search::SearchOptions;
use crate::wire::v1::{
    self as wire, BoardList, SolveBatchRequest, SolveBatchResponse, solve_batch_request,
    solve_batch_response,
};

/// What a message holds, once its faults are ruled out.
pub(super) struct Batch {
    pub(super) id: u64,
    pub(super) boards: Boards,
    /// How many there are.
    pub(super) len: usize,
    /// What the boards take.
    pub(super) bytes: usize,
    pub(super) options: SearchOptions,
}

pub(super) enum Boards {
    List {
        list: BoardList,
        goal: Option<Board>,
    },
    Packed {
        tiles: Bytes,
        shape: Shape,
        goal: Board,
    },
}

impl Batch {
    fn parse(
        id: u64,
        boards: solve_batch_request::Boards,
        goal: Option<&wire::Board>,
        options: Option<&wire::SolveOptions>,
        settings: &Settings,
    ) -> Result<Batch, Fault> {
        let goal = convert::goal(goal);
        let options = convert::options(options, settings);
        let too_many = |found, limit| {
            if found > limit {
                Err(Fault::TooManyBoards { found, limit })
            } else {
                Ok(found)
            }
        };
        let (boards, count) = match boards {
            solve_batch_request::Boards::List(list) => {
                let count = too_many(list.len(), settings.max_list_boards);
                let boards = match &goal {
                    Ok(goal) => Ok(Boards::List { list, goal: *goal }),
                    Err(fault) => Err(fault.clone()),
                };
                (boards, count)
            }
            solve_batch_request::Boards::Packed(packed) => {
                let (boards, found) = parse_packed(packed, &goal);
                (boards, too_many(found, settings.max_packed_boards))
            }
        };
        match (boards, options, count) {
            (Ok(boards), Ok(options), Ok(len)) => Ok(Batch {
                id,
                len,
                bytes: boards.bytes(),
                boards,
                options,
            }),
            (boards, options, count) => {
                let faults = [boards.err(), options.err(), count.err()];
                Err(Fault::first(faults))
            }
        }
    }
}

impl Boards {
    /// What they take while they wait.
    fn bytes(&self) -> usize {
        match self {
            Boards::List { list, .. } => list.bytes(),
            Boards::Packed { tiles, .. } => tiles.len(),
        }
    }
}

/// Whether so many bytes are boards of this shape, be it a supported one or
/// not. A shape without cells is told as a bad shape.
fn whole_boards(bytes: usize, rows: u32, columns: u32) -> Result<(), Fault> {
    let cells = u64::from(rows) * u64::from(columns);
    match (bytes as u64).checked_rem(cells) {
        Some(0) | None => Ok(()),
        Some(_) => Err(Fault::PackedLength {
            bytes,
            rows,
            columns,
            cells,
        }),
    }
}

/// Reads a packed message; also tells how many boards its bytes make.
fn parse_packed(
    packed: wire::PackedBoards,
    goal: &Result<Option<Board>, Fault>,
) -> (Result<Boards, Fault>, usize) {
    let wire::PackedBoards {
        rows,
        columns,
        tiles,
    } = packed;
    let shape = match (rows, columns) {
        (0, 0) => Ok(Shape::EIGHT),
        (rows, columns) => Shape::new(rows, columns),
    };
    let shape = match shape {
        Ok(shape) => shape,
        Err(error) => {
            let length = whole_boards(tiles.len(), rows, columns).err();
            let faults = [length, Some(Fault::PackedShape(error)), goal.clone().err()];
            let fault = Fault::first(faults);
            return (Err(fault), 0);
        }
    };
    let found = tiles.len() / shape.cells();
    let length = if found * shape.cells() == tiles.len() {
        Ok(())
    } else {
        let (rows, columns) = shape.sides();
        whole_boards(tiles.len(), rows, columns)
    };
    let goal = goal.clone().and_then(|goal| {
        let goal = goal.unwrap_or_else(|| Board::standard_goal(shape));
        // A goal of another shape would be every board's fault.
        Ok(*Problem::new(Board::standard_goal(shape), goal)?.goal())
    });
    let boards = match (length, goal) {
        (Ok(()), Ok(goal)) => Ok(Boards::Packed { tiles, shape, goal }),
        (length, goal) => {
            let faults = [length.err(), goal.err()];
            Err(Fault::first(faults))
        }
    };
    (boards, found)
}

/// Reads a message: boards to solve, or what there is to say without.
pub(super) fn read(
    message: SolveBatchRequest,
    settings: &Settings,
) -> Result<Batch, SolveBatchResponse> {
    let SolveBatchRequest {
        id,
        boards,
        goal,
        options,
    } = message;
    let respond = |results| SolveBatchResponse {
        id,
        results,
        first_board: 0,
        more: false,
    };
    let boards = boards.unwrap_or(solve_batch_request::Boards::List(BoardList::default()));
    match Batch::parse(id, boards, goal.as_ref(), options.as_ref(), settings) {
        Ok(batch) if batch.len == 0 => Err(respond(None)),
        Ok(batch) => Ok(batch),
        Err(fault) => Err(respond(Some(solve_batch_response::Results::Error(
            fault.to_board_error(),
        )))),
    }
}
