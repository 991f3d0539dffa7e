//! What the engine promises, a module a promise.
//!
//! `cargo test --test search` runs what fits in a minute or so on two cores;
//! `cargo test --test search -- --include-ignored` runs every method on every
//! state as well.

#[path = "search/common.rs"]
mod common;
#[path = "search/exhaustive.rs"]
mod exhaustive;
