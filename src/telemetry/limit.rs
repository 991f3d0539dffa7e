//! How many lines a second the log takes of what clients cause.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

/// Lets so many through in a second, and counts the others. Threads that meet
/// at the turn of a second may let a few more through: nothing depends on it.
#[derive(Debug)]
pub(super) struct Limit {
    per_second: u32,
    began: Instant,
    /// The second that is counted.
    second: AtomicU64,
    taken: AtomicU32,
    left_out: AtomicU64,
}

impl Limit {
    pub(super) fn new(per_second: u32) -> Limit {
        Limit {
            per_second,
            began: Instant::now(),
            second: AtomicU64::new(0),
            taken: AtomicU32::new(0),
            left_out: AtomicU64::new(0),
        }
    }

    /// Whether one more may pass; then also how many did not since the last.
    pub(super) fn take(&self) -> Option<u64> {
        self.take_at(self.began.elapsed().as_secs())
    }

    fn take_at(&self, second: u64) -> Option<u64> {
        if self.second.swap(second, Ordering::Relaxed) != second {
            self.taken.store(0, Ordering::Relaxed);
        }
        // Looked at first, so that it can't wrap in a second however long.
        if self.taken.load(Ordering::Relaxed) >= self.per_second
            || self.taken.fetch_add(1, Ordering::Relaxed) >= self.per_second
        {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.left_out())
    }

    /// How many did not pass, and were not told of. They are now.
    pub(super) fn left_out(&self) -> u64 {
        if self.left_out.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        self.left_out.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_pass_in_a_second_and_the_others_are_counted() {
        let limit = Limit::new(3);
        let passed = |second| (0..10).filter_map(|_| limit.take_at(second)).collect();
        let first: Vec<u64> = passed(0);
        assert_eq!(first, [0, 0, 0]);
        let second: Vec<u64> = passed(1);
        assert_eq!(second, [7, 0, 0]);
        assert_eq!(limit.left_out(), 7);
        assert_eq!(limit.left_out(), 0);
        assert_eq!(Limit::new(0).take_at(0), None);
    }
}
