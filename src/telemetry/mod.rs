//! What a server tells of itself: logs, metrics and traces. It is used by the
//! other parts, and uses none of them.
//!
//! Logs go to standard error; standard output belongs to answers.

pub mod call;
mod limit;
pub mod metrics;
#[cfg(feature = "otlp")]
pub mod otlp;
mod process;
mod trace_parent;

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

pub use metrics::Metrics;

/// Whom the log is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// People: a line of text.
    #[default]
    Text,
    /// Machines: an object of JSON on a line.
    Json,
}

/// Starts logging, filtered by `RUST_LOG` (default `info`).
///
/// A second call changes nothing.
pub fn init(format: LogFormat) {
    let filter = EnvFilter::builder()
        .with_default_directive(tracing::level_filters::LevelFilter::INFO.into())
        .from_env_lossy();
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // It would report them by a write to standard error that panics where
        // that is closed or full: no log line is worth a server.
        .log_internal_errors(false);
    // Fails only where logging was started before.
    let _ = match format {
        LogFormat::Text => log.with_ansi(io::stderr().is_terminal()).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
}
