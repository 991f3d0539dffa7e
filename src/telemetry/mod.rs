//! What a server tells of itself: logs, metrics and traces. It is used by the
//! other parts, and uses none of them.
//!
//! Logs go to standard error; standard output belongs to answers.

pub mod call;
mod limit;
mod log;
pub mod metrics;
#[cfg(feature = "otlp")]
pub mod otlp;
mod process;
mod trace_parent;

use std::env::{self, VarError};
use std::io::{self, IsTerminal};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::Directive;

pub use limit::Limit;
pub use log::Log;
pub use metrics::Metrics;
pub use process::max_files;

/// The variable that says what is logged.
const FILTER: &str = "RUST_LOG";

/// OpenTelemetry's own crates would tell twice of each batch that no collector
/// takes: see [`otlp`] for what is told instead.
const OTHERS_TARGET: &str = "opentelemetry";

/// Whom the log is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// People: a line of text.
    #[default]
    Text,
    /// Machines: an object of JSON on a line.
    Json,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// What is to be logged can't be read.
    #[error("{FILTER}: `{value}` is no filter such as `info,loyd::call=off`: {reason}")]
    Filter {
        /// What the variable holds.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nor can this, in any way.
    #[error("{FILTER}: it is not UTF-8")]
    NotUtf8,
    /// The system refuses a thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}

/// Starts logging, filtered by `RUST_LOG` (default `info`).
///
/// A second call changes nothing.
///
/// # Errors
/// Where `RUST_LOG` is no filter, and where the system refuses a thread.
pub fn init(format: LogFormat) -> Result<Log, LogError> {
    let filter = filter(env::var(FILTER))?;
    let log = Log::start(io::stderr()).map_err(LogError::Thread)?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(log.queue())
        // It would report them by a write to standard error that waits where
        // that is full, and panics where it is closed.
        .log_internal_errors(false);
    // Fails only where logging was started before.
    let _ = match format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    Ok(log)
}

fn filter(value: Result<String, VarError>) -> Result<EnvFilter, LogError> {
    let value = match value {
        Ok(value) => value,
        Err(VarError::NotPresent) => String::new(),
        Err(VarError::NotUnicode(_)) => return Err(LogError::NotUtf8),
    };
    let refused = |reason| LogError::Filter {
        value: value.clone(),
        reason,
    };
    let mut words = value.split(',');
    if let Some(word) = words.find(|word| !is_directive(word)) {
        return Err(refused(format!(
            "`{word}` is no level (off, error, warn, info, debug, trace), and no target \
             that logs; any target may be named with its level"
        )));
    }
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .parse(&value)
        .map_err(|error| refused(error.to_string()))?;
    let silence = format!("{OTHERS_TARGET}=off").parse::<Directive>();
    Ok(match silence {
        // Who names them wants to hear them.
        Ok(silence) if !value.contains(OTHERS_TARGET) => filter.add_directive(silence),
        _ => filter,
    })
}

/// How the targets begin that log in this process, or may. A word that is no
/// level is a target to `EnvFilter`, and one that nothing has would leave no
/// line of the log.
const LOGGING: &[&str] = &[
    "axum",
    "h2",
    "hyper",
    "loyd",
    "opentelemetry",
    "rustls",
    "tokio",
    "tonic",
    "tower",
];

fn is_directive(word: &str) -> bool {
    word.is_empty()
        || word.contains(['=', '['])
        || word.parse::<LevelFilter>().is_ok()
        || LOGGING.iter().any(|name| word.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_filter_is_refused() {
        for good in [
            "",
            "warn",
            "WARN",
            "off",
            "3",
            "info,loyd::call=off",
            "debug,h2=warn",
            "loyd",
            "warn,loyd::call",
            "tokio_rustls",
            "another=debug",
        ] {
            assert!(filter(Ok(good.to_owned())).is_ok(), "{good}");
        }
        for bad in [
            "bad=[",
            "loyd=loud",
            "info,loyd::call=x=y",
            // They would be targets that nothing has, and silence all.
            "warning",
            "inf",
            "info;debug",
            "info debug",
            "warn,verbose",
        ] {
            let error = filter(Ok(bad.to_owned())).unwrap_err().to_string();
            assert!(error.starts_with(&format!("RUST_LOG: `{bad}`")), "{error}");
        }
    }

    #[test]
    fn other_crates_are_heard_by_their_names_alone() {
        let of = |value: &str| filter(Ok(value.to_owned())).unwrap().to_string();
        assert!(of("debug").contains("opentelemetry=off"));
        assert!(of("").contains("opentelemetry=off") && of("").contains("info"));
        assert!(!of("info,opentelemetry_sdk=warn").contains("=off"));
    }
}
