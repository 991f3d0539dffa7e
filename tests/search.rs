//! What the engine promises, a module a promise.
//!
//! `cargo test --test search` runs what fits in a minute or so on two cores.
//! `cargo test --test search -- --include-ignored --skip write_golden_files`
//! also runs A* from every state to three goals.

#![expect(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "what fails here has to fail loudly"
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
#[path = "search/problem.rs"]
mod problem;
#[path = "search/properties.rs"]
mod properties;
