//! What a search may spend.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// A deadline and a cancellation flag, polled by every search at least once in
/// [`Budget::POLL_EVERY`] expanded states.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget<'a> {
    deadline: Option<Instant>,
    cancelled: Option<&'a AtomicBool>,
}

/// Why a search was broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Interrupted {
    /// The deadline passed.
    #[error("the deadline passed before the board was solved")]
    DeadlineExceeded,
    /// Nobody waits for the answer any more.
    #[error("the request was cancelled before the board was solved")]
    Cancelled,
}

impl<'a> Budget<'a> {
    /// The most states a search expands between two polls: a clock read costs
    /// about as much as ten of them.
    pub const POLL_EVERY: u64 = 1024;

    /// No deadline and no cancellation.
    pub const UNLIMITED: Budget<'static> = Budget {
        deadline: None,
        cancelled: None,
    };

    /// A budget that ends at `deadline`, where there is one, or as soon as
    /// `cancelled` is set.
    pub fn new(deadline: Option<Instant>, cancelled: &'a AtomicBool) -> Budget<'a> {
        Budget {
            deadline,
            cancelled: Some(cancelled),
        }
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// [`Interrupted`] where not.
    pub fn poll(&self) -> Result<(), Interrupted> {
        if self
            .cancelled
            .is_some_and(|cancelled| cancelled.load(Ordering::Relaxed))
        {
            return Err(Interrupted::Cancelled);
        }
        if self
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
        {
            return Err(Interrupted::DeadlineExceeded);
        }
        Ok(())
    }
}
