//! What the engine promises, a module a promise.
//!
//! `cargo test --test search` runs what fits in a minute or so on two cores;
//! `cargo test --test search -- --include-ignored` runs every method on every
//! state as well.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]

#[path = "search/cantor_ranks.rs"]
mod cantor_ranks;
#[path = "search/common.rs"]
mod common;
#[path = "search/determinism.rs"]
mod determinism;
#[path = "search/exhaustive.rs"]
mod exhaustive;
#[path = "search/limits_and_interruption.rs"]
mod limits_and_interruption;
#[path = "search/problems.rs"]
mod problems;
#[path = "search/random_problems.rs"]
mod random_problems;
