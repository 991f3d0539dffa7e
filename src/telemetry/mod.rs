//! What a server tells of itself: logs and metrics. It is used by the other
//! parts, and uses none of them.
//!
//! Logs go to standard error; standard output belongs to answers.

pub mod metrics;
mod process;

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

pub use metrics::Metrics;

/// Starts logging, filtered by `RUST_LOG` (default `info`).
///
/// A second call changes nothing.
pub fn init() {
    let filter = EnvFilter::builder()
        .with_default_directive(tracing::level_filters::LevelFilter::INFO.into())
        .from_env_lossy();
    // Fails only where logging was started before.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // It would report them by a write to standard error that panics where
        // that is closed or full: no log line is worth a server.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal())
        .try_init();
}
