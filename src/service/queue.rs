//! The queue before the compute threads.
//!
//! It takes from its lanes in turn, one job from each: a stream that has
//! thousands of boards to solve and one that has a single one wait equally
//! long for their next.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// One caller's place in the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lane(u64);

impl Lane {
    /// A lane that nobody else has.
    pub(super) fn new() -> Lane {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Lane(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Jobs in lanes. How many there may be is decided before they come here.
pub(super) struct FairQueue<Job> {
    state: Mutex<State<Job>>,
    changed: Condvar,
}

struct State<Job> {
    /// The lanes that have jobs, each with at least one.
    lanes: HashMap<Lane, VecDeque<Job>>,
    /// The same lanes, in the order of their turn.
    turn: VecDeque<Lane>,
    closed: bool,
}

impl<Job> FairQueue<Job> {
    pub(super) fn new() -> FairQueue<Job> {
        let state = State {
            lanes: HashMap::new(),
            turn: VecDeque::new(),
            closed: false,
        };
        FairQueue {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Adds a job behind the others of its lane.
    pub(super) fn push(&self, lane: Lane, job: Job) {
        let mut state = self.state();
        let jobs = state.lanes.entry(lane).or_default();
        jobs.push_back(job);
        if jobs.len() == 1 {
            state.turn.push_back(lane);
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Waits for the next job in turn; `None` once the queue is closed.
    pub(super) fn pop(&self) -> Option<Job> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            if let Some(job) = state.next() {
                return Some(job);
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets every [`pop`](FairQueue::pop) return `None`. What is left is dropped.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.lanes.clear();
        state.turn.clear();
        drop(state);
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State<Job>> {
        // Nothing under the lock leaves the state half changed by a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Job> State<Job> {
    fn next(&mut self) -> Option<Job> {
        let lane = self.turn.pop_front()?;
        let jobs = self.lanes.get_mut(&lane)?;
        let job = jobs.pop_front();
        if jobs.is_empty() {
            self.lanes.remove(&lane);
        } else {
            self.turn.push_back(lane);
        }
        job
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_take_turns_and_keep_their_order() {
        let queue = FairQueue::new();
        let (long, short) = (Lane::new(), Lane::new());
        for job in ["a1", "a2", "a3", "a4"] {
            queue.push(long, job);
        }
        assert_eq!(queue.pop(), Some("a1"));
        queue.push(short, "b1");
        queue.push(short, "b2");
        let rest: Vec<_> = (0..5).map_while(|_| queue.pop()).collect();
        assert_eq!(rest, ["a2", "b1", "a3", "b2", "a4"]);
    }

    #[test]
    fn a_lane_that_comes_back_takes_its_turn_anew() {
        let queue = FairQueue::new();
        let lane = Lane::new();
        for round in 0..3 {
            queue.push(lane, round);
            assert_eq!(queue.pop(), Some(round));
        }
    }

    #[test]
    fn closing_ends_those_that_wait() {
        let queue = std::sync::Arc::new(FairQueue::<()>::new());
        let waiting = std::sync::Arc::clone(&queue);
        let thread = std::thread::spawn(move || waiting.pop());
        queue.close();
        assert_eq!(thread.join().unwrap(), None);
    }
}
