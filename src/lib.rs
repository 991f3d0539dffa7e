//! Loyd solves sliding-tile puzzles, as a gRPC service and as a command line.
//!
//! Imports run one way: `cli -> server -> service -> search -> puzzle`.

pub mod cli;
pub mod puzzle;
pub mod search;
pub mod server;
pub mod service;
pub mod telemetry;
pub mod wire;
