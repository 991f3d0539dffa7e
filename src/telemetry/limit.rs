//! How many lines the log takes of what may happen very often.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Lets so many through in a period, and counts the others. Threads that meet
/// at the turn of a period may let a few more through: nothing depends on it.
#[derive(Debug)]
pub struct Limit {
    most: u32,
    /// In milliseconds.
    period: u128,
    began: Instant,
    /// The period that is counted.
    current: AtomicU64,
    taken: AtomicU32,
    left_out: AtomicU64,
}

impl Limit {
    /// So many in a period, which is at least a millisecond.
    #[must_use]
    pub fn new(most: u32, period: Duration) -> Limit {
        Limit {
            most,
            period: period.as_millis().max(1),
            began: Instant::now(),
            current: AtomicU64::new(0),
            taken: AtomicU32::new(0),
            left_out: AtomicU64::new(0),
        }
    }

    /// Whether one more may pass.
    pub fn take(&self) -> bool {
        let periods = self.began.elapsed().as_millis() / self.period;
        self.take_in(u64::try_from(periods).unwrap_or(u64::MAX))
    }

    fn take_in(&self, period: u64) -> bool {
        if self.current.swap(period, Ordering::Relaxed) != period {
            self.taken.store(0, Ordering::Relaxed);
        }
        // Looked at first, so that it can't wrap in a period however long.
        let passes = self.taken.load(Ordering::Relaxed) < self.most
            && self.taken.fetch_add(1, Ordering::Relaxed) < self.most;
        if !passes {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        passes
    }

    /// How many did not pass, and were not told of. They are now.
    pub fn left_out(&self) -> u64 {
        self.left_out.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_pass_in_a_period_and_the_others_are_counted() {
        let limit = Limit::new(3, Duration::from_secs(1));
        let passed = |period| (0..10).filter(|_| limit.take_in(period)).count();
        assert_eq!(passed(0), 3);
        assert_eq!(limit.left_out(), 7);
        assert_eq!(passed(1), 3);
        assert_eq!(passed(2), 3);
        assert_eq!(limit.left_out(), 14);
        assert_eq!(limit.left_out(), 0);
        assert!(!Limit::new(0, Duration::from_secs(1)).take());
    }
}
