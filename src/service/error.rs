//! Everything that can be wrong with a request, and its one way to a status.

use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::puzzle::{BoardError, GoalMismatch, ShapeError};
use crate::search::{BadWeight, Interrupted};
use crate::wire::v1::{self as wire, ErrorReason};

/// The domain of every `ErrorInfo`.
pub(super) const DOMAIN: &str = "loyd.v1";

/// How long a client should wait before it asks an overloaded server again.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// What is wrong with a board or a request.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum Fault {
    /// The board is not one.
    #[error(transparent)]
    Board(#[from] BoardError),
    /// The goal is not a board.
    #[error("in the goal, {0}")]
    Goal(BoardError),
    /// The bytes of a packed message do not divide into boards.
    #[error("{bytes} bytes are not a whole number of {rows}x{columns} boards: each takes {cells}")]
    PackedLength {
        /// The bytes of all boards.
        bytes: usize,
        /// The rows of each.
        rows: u32,
        /// The columns of each.
        columns: u32,
        /// The bytes of each.
        cells: u64,
    },
    /// The shape of a packed message is not one that is solved.
    #[error(transparent)]
    PackedShape(#[from] ShapeError),
    /// The goal has another shape than the board.
    #[error(transparent)]
    GoalMismatch(#[from] GoalMismatch),
    /// An enum field holds a number that means nothing here.
    #[error("{field} {value} is unknown: the values are 0 to {largest}")]
    UnknownEnumValue {
        /// The field in `options`.
        field: &'static str,
        /// What it holds.
        value: i32,
        /// The largest value that is known.
        largest: i32,
    },
    /// The weight is out of range.
    #[error("{0}, or 0 for 1")]
    BadWeight(BadWeight),
    /// The algorithm is known, but not offered.
    #[error("{0} is not available on this server: it is for boards of more than nine cells")]
    MethodNotAvailable(&'static str),
    /// A message holds too many boards.
    #[error("{found} boards are too many for one message: the limit is {limit}")]
    TooManyBoards {
        /// The boards of the message.
        found: usize,
        /// The most that are taken.
        limit: usize,
    },
    /// Too much to do.
    #[error("the server has too much to do: try again later")]
    Overloaded,
    /// Broken off.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// Our own fault. What it was is in the log, not in the answer.
    #[error("an internal error; the server's log says more")]
    Internal,
}

impl Fault {
    /// The contract's name for it.
    pub(super) fn reason(&self) -> ErrorReason {
        match self {
            Fault::Board(error) | Fault::Goal(error) => match error {
                BoardError::NotSquare { .. } | BoardError::WrongTileCount { .. } => {
                    ErrorReason::WrongTileCount
                }
                BoardError::TileOutOfRange { .. } => ErrorReason::TileOutOfRange,
                BoardError::DuplicateTile { .. } => ErrorReason::DuplicateTile,
                BoardError::Shape(error) => shape_reason(error),
            },
            Fault::PackedLength { .. } => ErrorReason::WrongTileCount,
            Fault::PackedShape(error) => shape_reason(error),
            Fault::GoalMismatch(_) => ErrorReason::GoalMismatch,
            Fault::UnknownEnumValue { .. } => ErrorReason::UnknownEnumValue,
            Fault::BadWeight(_) => ErrorReason::BadWeight,
            Fault::MethodNotAvailable(_) => ErrorReason::MethodNotAvailable,
            Fault::TooManyBoards { .. } => ErrorReason::TooManyBoards,
            Fault::Overloaded => ErrorReason::Overloaded,
            Fault::Interrupted(_) => ErrorReason::Deadline,
            Fault::Internal => ErrorReason::Internal,
        }
    }

    /// The one to report of those that hold: the first in the order of
    /// `ErrorReason`, and among equals the one found first. Callers have at
    /// least one.
    pub(super) fn first<const CHECKS: usize>(faults: [Option<Fault>; CHECKS]) -> Fault {
        faults
            .into_iter()
            .flatten()
            .min_by_key(|fault| fault.reason() as i32)
            .unwrap_or(Fault::Internal)
    }

    /// The bound that was broken; 0 where there is none.
    fn limit(&self) -> u64 {
        match self {
            Fault::Board(BoardError::TileOutOfRange { cells, .. })
            | Fault::Goal(BoardError::TileOutOfRange { cells, .. }) => *cells as u64 - 1,
            Fault::TooManyBoards { limit, .. } => *limit as u64,
            _ => 0,
        }
    }

    /// The field of `SolveRequest` that is at fault, in the notation of
    /// `google.rpc.BadRequest`.
    fn field(&self) -> String {
        match self {
            Fault::Board(error) => board_field("board", error),
            Fault::Goal(error) => board_field("goal", error),
            Fault::GoalMismatch(_) => "goal".to_owned(),
            Fault::UnknownEnumValue { field, .. } => format!("options.{field}"),
            Fault::BadWeight(_) => "options.weight".to_owned(),
            Fault::MethodNotAvailable(_) => "options.algorithm".to_owned(),
            Fault::PackedLength { .. } => "packed.tiles".to_owned(),
            Fault::PackedShape(_) => "packed.rows".to_owned(),
            Fault::TooManyBoards { .. } => "boards".to_owned(),
            Fault::Overloaded | Fault::Interrupted(_) | Fault::Internal => String::new(),
        }
    }

    fn code(&self) -> Code {
        match self {
            Fault::Overloaded => Code::Unavailable,
            Fault::Interrupted(Interrupted::DeadlineExceeded) => Code::DeadlineExceeded,
            Fault::Interrupted(Interrupted::Cancelled) => Code::Cancelled,
            Fault::Internal => Code::Internal,
            _ => Code::InvalidArgument,
        }
    }

    /// The fault as the error of one board, or of one message of a batch.
    pub(super) fn to_board_error(&self) -> wire::BoardError {
        wire::BoardError {
            message: self.to_string(),
            ..self.to_bare_board_error()
        }
    }

    /// The fault without its text.
    pub(super) fn to_bare_board_error(&self) -> wire::BoardError {
        wire::BoardError {
            reason: self.reason().into(),
            message: String::new(),
            limit: self.limit(),
        }
    }
}

/// The one place where a fault becomes a gRPC status, with `ErrorInfo` and
/// what else the code asks for (AIP-193).
impl From<Fault> for Status {
    fn from(fault: Fault) -> Status {
        let message = fault.to_string();
        let mut details = ErrorDetails::new();
        let name = fault.reason().as_str_name();
        let reason = name.strip_prefix("ERROR_REASON_").unwrap_or(name);
        details.set_error_info(reason, DOMAIN, std::collections::HashMap::new());
        match fault.code() {
            Code::InvalidArgument => {
                details.add_bad_request_violation(fault.field(), &message);
            }
            Code::Unavailable => {
                details.set_retry_info(Some(RETRY_AFTER));
            }
            _ => {}
        }
        Status::with_error_details(fault.code(), message, details)
    }
}

fn shape_reason(error: &ShapeError) -> ErrorReason {
    match error {
        ShapeError::Bad { .. } => ErrorReason::BadShape,
        ShapeError::Unsupported { .. } => ErrorReason::UnsupportedSize,
    }
}

fn board_field(board: &str, error: &BoardError) -> String {
    match error {
        BoardError::NotSquare { .. } | BoardError::WrongTileCount { .. } => {
            format!("{board}.tiles")
        }
        BoardError::TileOutOfRange { position, .. } => format!("{board}.tiles[{position}]"),
        BoardError::DuplicateTile { second, .. } => format!("{board}.tiles[{second}]"),
        BoardError::Shape(ShapeError::Bad { rows: 0, .. }) => format!("{board}.rows"),
        BoardError::Shape(ShapeError::Bad { .. }) => format!("{board}.columns"),
        BoardError::Shape(ShapeError::Unsupported { .. }) => format!("{board}.rows"),
    }
}
