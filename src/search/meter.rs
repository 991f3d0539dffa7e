//! What a search has spent, against what it may.

use super::{Budget, Interrupted, Outcome, SearchOptions, Solution};

/// Why a search may not go on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    /// [`SearchOptions::max_expanded`] states are expanded.
    Limit,
    /// The budget is used up.
    Interrupted(Interrupted),
}

/// Counts what a search does, and polls its budget in time.
pub(super) struct Meter<'a> {
    budget: &'a Budget<'a>,
    max_expanded: u64,
    expanded: u64,
    generated: u64,
    next_poll: u64,
}

impl<'a> Meter<'a> {
    /// A meter at zero. The first poll is due after [`Budget::POLL_EVERY`]
    /// states: most searches are over before.
    pub(super) fn new(options: &SearchOptions, budget: &'a Budget<'a>) -> Meter<'a> {
        Meter {
            budget,
            max_expanded: options.max_expanded,
            expanded: 0,
            generated: 0,
            next_poll: Budget::POLL_EVERY,
        }
    }

    /// How many of `wanted` states, at least one, may be expanded before the
    /// next call.
    ///
    /// # Errors
    /// [`Stop`] where it is none.
    #[inline]
    pub(super) fn grant(&mut self, wanted: usize) -> Result<usize, Stop> {
        if self.expanded >= self.next_poll {
            self.budget.poll().map_err(Stop::Interrupted)?;
            self.next_poll = self.expanded + Budget::POLL_EVERY;
        }
        let granted = (self.next_poll - self.expanded).min(self.max_expanded - self.expanded);
        if granted == 0 {
            return Err(Stop::Limit);
        }
        Ok(usize::try_from(granted).map_or(wanted, |granted| granted.min(wanted)))
    }

    /// Records states that were expanded, no more than granted.
    #[inline]
    pub(super) fn spend(&mut self, expanded: usize, generated: u64) {
        self.expanded += expanded as u64;
        self.generated += generated;
    }

    /// The answer, with what it cost.
    #[inline]
    pub(super) fn solution(&self, outcome: Outcome) -> Solution {
        Solution {
            outcome,
            expanded: self.expanded,
            generated: self.generated,
        }
    }

    /// The answer of a search that may not go on.
    ///
    /// # Errors
    /// [`Interrupted`] where it has none.
    pub(super) fn stopped(&self, stop: Stop) -> Result<Solution, Interrupted> {
        match stop {
            Stop::Limit => Ok(self.solution(Outcome::LimitReached)),
            Stop::Interrupted(interrupted) => Err(interrupted),
        }
    }
}
