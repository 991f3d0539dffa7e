//! The domain: boards, moves and problems. It does no I/O and knows no search.

mod board;
pub mod cantor;
mod direction;
mod problem;
mod shape;
pub mod text;

pub use board::{Board, BoardError};
pub use direction::Direction;
pub use problem::{GoalMismatch, Problem};
pub use shape::{MAX_CELLS, Shape, ShapeError};
