//! What the engine promises, a module a promise.
//!
//! `cargo test --test search` runs what fits in a minute or so on two cores.
//! `cargo test --test search -- --include-ignored --skip write_golden_files`
//! also runs A* from every state to three goals.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]

#[path = "search/cantor.rs"]
mod cantor;
#[path = "search/common.rs"]
mod common;
#[path = "search/determinism.rs"]
mod determinism;
#[path = "search/exhaustive.rs"]
mod exhaustive;
#[path = "search/heuristics.rs"]
mod heuristics;
#[path = "search/limits.rs"]
mod limits;
#[path = "search/parity.rs"]
mod parity;
#[path = "search/problem.rs"]
mod problem;
#[path = "search/random_problems.rs"]
mod random_problems;
