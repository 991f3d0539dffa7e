//! The command line.

mod answer;
mod arguments;
mod bench;
mod compare;
mod config;
mod connect;
mod exit;
mod health;
mod lines;
mod options;
#[cfg(feature = "plot")]
mod plot;
mod remote;
mod serve;
mod signals;
mod solve;
mod task;
mod tls;

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::telemetry::{LogError, LogFormat};
use exit::Exit;

const LONG_ABOUT: &str = "\
Solves sliding-tile puzzles: the 8-puzzle and its smaller kin.

A board is written row by row: `2 3 4 / 1 5 x / 7 6 8`, or `2 3 4 1 5 x 7 6 8`, \
or `23415x768`; the blank is one of x X 0 _ . and `/` ends a row. \
An answer is a string of moves, each named by where the blank goes: \
u (up), l (left), r (right), d (down).";

const AFTER_HELP: &str = "\
Exit codes: 0 done; 1 at least one line was an error, or a server asked for its health does not serve; \
2 usage or configuration; 69 cannot bind or connect; 70 the stream to the server was \
lost, or something else failed under way.

Examples:
  loyd solve '2 3 4 1 5 x 7 6 8'
  loyd solve --goal '1 2 3 / 8 0 4 / 7 6 5' < boards.txt
  loyd serve --listen 127.0.0.1:50051
  loyd solve --connect http://127.0.0.1:50051 < boards.txt
  loyd compare '8 6 7 2 5 4 3 0 1'";

const TIMES: &str = "\
A TIME is written 500ms, 5s, 2h or 1m 30s; a number alone means seconds.";

#[derive(Parser)]
#[command(
    name = "loyd",
    version,
    about = "Solves sliding-tile puzzles, as a command and as a gRPC service",
    long_about = LONG_ABOUT,
    after_help = AFTER_HELP,
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve loyd.v1.SolverService over gRPC
    #[command(after_help = TIMES)]
    Serve(Box<serve::Args>),
    /// Solve boards from the arguments or, with none, one a line from standard input
    Solve(solve::Args),
    /// Solve boards by every method and compare what each took
    Compare(compare::Args),
    /// Load a server and tell how it kept up
    #[command(after_help = TIMES)]
    Bench(bench::Args),
    /// Ask a server whether it serves: exit code 0 if it does, 1 if not, 69 without an answer
    #[command(after_help = TIMES)]
    Health(health::Args),
}

/// Parses the command line and runs the command.
pub fn run() -> ExitCode {
    let (cli, matches) = match arguments::parse::<Cli>(std::env::args_os().collect()) {
        Ok(parsed) => parsed,
        Err(error) => return error.exit().into(),
    };
    let log_format = match &cli.command {
        Command::Serve(args) => args.log_format(),
        _ => LogFormat::Text,
    };
    // What waits to be written is written when this is dropped.
    let log = match crate::telemetry::init(log_format) {
        Ok(log) => log,
        Err(error @ LogError::Thread(_)) => return Exit::Lost.because(error).into(),
        Err(error) => return Exit::Usage.because(error).into(),
    };
    let exit = match cli.command {
        Command::Serve(args) if args.print_config => {
            serve::print_config(*args, arguments::effective::<Cli>(&matches))
        }
        Command::Serve(args) => {
            log.tell_panics();
            serve::run(*args)
        }
        Command::Solve(args) => solve::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Health(args) => health::run(args),
    };
    exit.into()
}

/// Writes on standard output what a command was asked for.
///
/// # Errors
/// Where that fails; but not where whoever reads it has seen enough (`| head -1`).
fn print(text: fmt::Arguments<'_>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Ways in for the fuzz targets. Not in ordinary builds.
#[cfg(fuzzing)]
pub mod fuzzing {
    /// Text as a configuration file: refused, or read back as it is written.
    pub fn config(text: &str) {
        super::config::fuzz(text);
    }
}
