//! The system refuses to accept a connection, mostly since too many files are
//! open.

use std::io;
use std::time::Duration;

use crate::telemetry::Limit;
use crate::telemetry::metrics::Life;

/// How long to wait before accepting again: long enough not to spin, short
/// enough not to be noticed once the system recovers.
const BACKOFF: Duration = Duration::from_millis(100);

/// How often the log is told: what causes it lasts.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// What a listener does then.
pub(super) struct Refusals {
    life: Life,
    lines: Limit,
    /// What could not be accepted.
    what: &'static str,
}

impl Refusals {
    pub(super) fn new(life: &Life, what: &'static str) -> Refusals {
        Refusals {
            life: life.clone(),
            lines: Limit::new(1, LINE_INTERVAL),
            what,
        }
    }

    /// Counts and tells of a refusal, and waits until it is worth while to try
    /// again.
    pub(super) async fn wait(&self, error: &io::Error) {
        self.life.accept_errors.inc();
        if self.lines.take() {
            let left_out = self.lines.left_out();
            tracing::warn!(%error, left_out, "cannot accept {}", self.what);
        }
        tokio::time::sleep(BACKOFF).await;
    }
}
