//! The answer to one line, as text or JSON.

use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;

/// What came of one board.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    /// An answer of the solver.
    Found(Found),
    /// The line was no board, or the board could not be tried.
    Error(String),
}

/// What a solver found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Found {
    pub(super) outcome: Outcome,
    pub(super) moves: String,
    pub(super) length: u32,
    pub(super) optimal: bool,
    pub(super) expanded: u64,
    pub(super) generated: u64,
}

/// How it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Solved,
    #[default]
    Unsolvable,
    LimitReached,
}

/// `--format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// The moves, `unsolvable`, `limit reached` or `error: ...`
    #[default]
    Text,
    /// An object a line
    Json,
}

/// How to write answers down.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Style {
    pub(super) format: Format,
    /// The number of moves comes before them.
    pub(super) count: bool,
    /// What the search did comes after them.
    pub(super) stats: bool,
}

/// The JSON form. Its keys are part of the command line's contract.
#[derive(Serialize)]
#[serde(untagged)]
enum Json<'a> {
    Solved {
        outcome: Outcome,
        moves: &'a str,
        length: u32,
        optimal: bool,
        expanded: u64,
        generated: u64,
    },
    NotSolved {
        outcome: Outcome,
        expanded: u64,
        generated: u64,
    },
    Error {
        error: &'a str,
    },
}

impl Answer {
    /// The answer to a line that can't be tried.
    pub(super) fn refused(error: &impl ToString) -> Answer {
        Answer::Error(error.to_string())
    }

    /// Writes one line.
    pub(super) fn write(&self, style: Style, out: &mut impl Write) -> io::Result<()> {
        match style.format {
            Format::Text => self.write_text(style, out),
            Format::Json => self.write_json(out),
        }
    }

    fn write_text(&self, style: Style, out: &mut impl Write) -> io::Result<()> {
        let found = match self {
            Answer::Found(found) => found,
            Answer::Error(error) => return writeln!(out, "error: {error}"),
        };
        match found.outcome {
            Outcome::Solved => {
                if style.count {
                    write!(out, "{}", found.length)?;
                    if !found.moves.is_empty() {
                        out.write_all(b" ")?;
                    }
                }
                out.write_all(found.moves.as_bytes())?;
            }
            Outcome::Unsolvable => out.write_all(b"unsolvable")?,
            Outcome::LimitReached => out.write_all(b"limit reached")?,
        }
        if style.stats {
            out.write_all(b"\t")?;
            if found.outcome == Outcome::Solved {
                write!(out, "length={} optimal={} ", found.length, found.optimal)?;
            }
            write!(
                out,
                "expanded={} generated={}",
                found.expanded, found.generated
            )?;
        }
        out.write_all(b"\n")
    }

    fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        let json = match self {
            Answer::Error(error) => Json::Error { error },
            Answer::Found(Found {
                outcome,
                moves,
                length,
                optimal,
                expanded,
                generated,
            }) => match outcome {
                Outcome::Solved => Json::Solved {
                    outcome: *outcome,
                    moves,
                    length: *length,
                    optimal: *optimal,
                    expanded: *expanded,
                    generated: *generated,
                },
                Outcome::Unsolvable | Outcome::LimitReached => Json::NotSolved {
                    outcome: *outcome,
                    expanded: *expanded,
                    generated: *generated,
                },
            },
        };
        serde_json::to_writer(&mut *out, &json)?;
        out.write_all(b"\n")
    }
}
