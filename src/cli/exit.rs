//! Exit codes: part of the command line's contract.

use std::process::ExitCode;

/// How a command ended. The larger numbers are those of `sysexits.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// Everything was done.
    Done,
    /// At least one line was an error.
    LineError,
    /// A server that was asked for its health does not serve.
    NotServing,
    /// The command line, or the configuration, was wrong.
    Usage,
    /// An address could not be bound, or a server not be reached
    /// (`EX_UNAVAILABLE`).
    Unavailable,
    /// The stream to a server was lost, or something failed under way
    /// (`EX_SOFTWARE`).
    Lost,
}

impl Exit {
    /// Clap's errors include `--help` and `--version`.
    pub(super) fn from_clap(error: &clap::Error) -> Exit {
        if error.use_stderr() {
            Exit::Usage
        } else {
            Exit::Done
        }
    }

    /// Says on standard error what went wrong.
    pub(super) fn because(self, what: impl std::fmt::Display) -> Exit {
        use std::io::Write;
        // Standard error may be closed; the exit code still tells.
        let _ = writeln!(std::io::stderr(), "error: {what}");
        self
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::LineError | Exit::NotServing => 1,
            Exit::Usage => 2,
            Exit::Unavailable => 69,
            Exit::Lost => 70,
        })
    }
}
