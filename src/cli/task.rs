//! How lines become problems: what commands that read boards share.

use crate::puzzle::{Board, GoalMismatch, Problem, text};

/// The options that say how boards are to be read.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct TaskArgs {
    /// Where to end [default: 1 2 3 ... and the blank last]
    #[arg(long, value_name = "BOARD")]
    goal: Option<String>,

    /// Columns of the boards that have no `/`; without it they are square
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    columns: Option<u8>,
}

/// What a line is read by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    columns: Option<usize>,
    goal: Option<Board>,
}

/// Why a line is no problem to solve.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TaskError {
    #[error(transparent)]
    Text(#[from] text::TextError),
    #[error(transparent)]
    Goal(#[from] GoalMismatch),
}

impl TaskArgs {
    /// Reads the goal.
    pub(super) fn task(&self) -> Result<Task, String> {
        let columns = self.columns.map(usize::from);
        let parse = |goal: &String| {
            // Columns are for boards without `/`; a goal may have its own.
            let columns = if goal.contains('/') { None } else { columns };
            text::parse(goal, columns).map_err(|error| format!("in --goal, {error}"))
        };
        Ok(Task {
            columns,
            goal: self.goal.as_ref().map(parse).transpose()?,
        })
    }
}

impl Task {
    /// Reads a line.
    pub(super) fn parse(&self, line: &str) -> Result<Problem, TaskError> {
        let start = text::parse(line, self.columns)?;
        match self.goal {
            Some(goal) => Ok(Problem::new(start, goal)?),
            None => Ok(Problem::to_standard_goal(start)),
        }
    }

    /// Where every board is to end, if not at its standard goal.
    pub(super) fn goal(&self) -> Option<&Board> {
        self.goal.as_ref()
    }
}
