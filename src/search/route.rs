//! A problem in the terms that the methods search in.

use super::index::{Labels, Place};
use super::transitions::Transitions;
use crate::puzzle::Problem;

/// Two ends that moves connect, and the tables of these moves.
pub(super) struct Route {
    pub(super) transitions: &'static Transitions,
    pub(super) start: Place,
    pub(super) goal: Place,
}

impl Route {
    /// The route from a problem's start to its goal, if there is one.
    #[inline]
    pub(super) fn of(problem: &Problem) -> Option<Route> {
        let goal = problem.goal();
        let start = Labels::new(goal).place(problem.start())?;
        Some(Route {
            transitions: Transitions::of(problem.shape(), goal.blank()),
            start,
            goal: Place::of_goal(goal.blank()),
        })
    }
}
