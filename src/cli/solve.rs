//! `loyd solve`: boards in, answers out, a line each and in order.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use super::answer::{self, Answer, Format, Found, Style};
use super::exit::Exit;
use super::lines::Lines;
use super::options::SearchArgs;
use super::remote;
use super::task::{Task, TaskArgs};
use super::tls::ClientTlsArgs;
use crate::puzzle::Problem;
use crate::search::goal_table::LastSolutions;
use crate::search::{self, Budget, Detail, Method, Outcome, SearchOptions, Solution, Workspace};

/// Arguments of `loyd solve`.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Args {
    /// Boards, each quoted as one argument: '2 3 4 1 5 x 7 6 8'
    #[arg(value_name = "BOARD")]
    boards: Vec<String>,

    #[command(flatten)]
    task: TaskArgs,

    /// Solve on this server, by SolveBatch [example: http://127.0.0.1:50051]
    #[arg(long, value_name = "URI")]
    connect: Option<String>,

    #[command(flatten)]
    tls: ClientTlsArgs,

    #[command(flatten)]
    search: SearchArgs,

    /// Put the number of moves before the moves
    #[arg(long)]
    count: bool,

    /// Put what the search did after the moves: length, optimal, expanded, generated
    #[arg(long)]
    stats: bool,

    /// How to write answers down
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Where answers go.
pub(super) struct Output {
    out: BufWriter<StdoutLock<'static>>,
    style: Style,
    any_error: bool,
}

impl Output {
    pub(super) fn write(&mut self, answer: &Answer) -> io::Result<()> {
        self.any_error |= matches!(answer, Answer::Error(_));
        answer.write(self.style, &mut self.out)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn exit(mut self) -> io::Result<Exit> {
        self.out.flush()?;
        Ok(if self.any_error {
            Exit::LineError
        } else {
            Exit::Done
        })
    }
}

/// What went wrong under way.
#[derive(Debug, thiserror::Error)]
pub(super) enum SolveError {
    #[error("cannot read standard input: {0}")]
    Input(#[source] io::Error),
    #[error("cannot write the answers: {0}")]
    Output(#[from] io::Error),
    #[error(transparent)]
    Remote(#[from] remote::RemoteError),
}

/// Runs the command.
pub(super) fn run(args: Args) -> Exit {
    let task = match args.task.task() {
        Ok(task) => task,
        Err(error) => return Exit::Usage.because(error),
    };
    let mut output = Output {
        out: BufWriter::with_capacity(64 << 10, io::stdout().lock()),
        style: Style {
            format: args.format,
            count: args.count,
            stats: args.stats,
        },
        any_error: false,
    };
    if args.boards.len() >= 4 && args.boards.iter().all(|board| board.trim().len() <= 2) {
        return Exit::Usage
            .because("a board is one argument: quote it, as in loyd solve '2 3 4 1 5 x 7 6 8'");
    }
    if args.connect.is_none() && args.tls.is_given() {
        return Exit::Usage.because("the TLS options need --connect, the server to speak it with");
    }
    if args.boards.is_empty() && io::stdin().is_terminal() {
        let _ = writeln!(
            io::stderr(),
            "reading boards from standard input, one a line"
        );
    }
    let solved = match args.connect {
        Some(uri) => remote::solve(
            &uri,
            &args.tls,
            task,
            &args.search,
            args.boards,
            &mut output,
        ),
        None => solve_here(&task, &args.search, &args.boards, &mut output),
    };
    match solved.and_then(|()| Ok(output.exit()?)) {
        Ok(exit) => exit,
        // Whoever read the answers has seen enough (`| head -1`).
        Err(SolveError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        Err(SolveError::Remote(error)) => error.exit().because(error),
        Err(error) => Exit::Lost.because(error),
    }
}

fn solve_here(
    task: &Task,
    search: &SearchArgs,
    boards: &[String],
    output: &mut Output,
) -> Result<(), SolveError> {
    let mut solver = Solver {
        workspace: Workspace::new(),
        options: search.search_options(Detail::Moves),
        solutions: LastSolutions::default(),
        answer: Answer::Found(Found::default()),
    };
    for board in boards {
        output.write(solver.answer(task, board))?;
    }
    if !boards.is_empty() {
        return Ok(());
    }
    let mut lines = Lines::new(io::stdin().lock());
    loop {
        if lines.would_wait() {
            output.flush()?;
        }
        match lines.next().map_err(SolveError::Input)? {
            None => return Ok(()),
            Some(Ok(line)) if line.trim().is_empty() => {}
            Some(Ok(line)) => output.write(solver.answer(task, line))?,
            Some(Err(error)) => output.write(&Answer::refused(&error))?,
        }
    }
}

/// Solves in this process, one board after the other.
struct Solver {
    workspace: Workspace,
    options: SearchOptions,
    /// Of the goal table, to the goal of the last board: most often the next
    /// one's too.
    solutions: LastSolutions,
    /// Kept from board to board for the memory of its moves.
    answer: Answer,
}

impl Solver {
    fn answer(&mut self, task: &Task, line: &str) -> &Answer {
        let mut moves = match &mut self.answer {
            Answer::Found(found) => std::mem::take(&mut found.moves),
            Answer::Error(_) => String::new(),
        };
        moves.clear();
        self.answer = match task.parse(line) {
            Ok(problem) => self.solve(&problem, moves),
            Err(error) => Answer::refused(&error),
        };
        &self.answer
    }

    fn look_up(&mut self, problem: &Problem, moves: &mut String) -> Solution {
        let solutions = self.solutions.to(problem.goal());
        let found = solutions.find(problem.start());
        solutions.answer(solutions.fetch(found), self.options.detail, moves)
    }

    fn solve(&mut self, problem: &Problem, mut moves: String) -> Answer {
        let solved = match self.options.method {
            Method::GoalTable => Ok(self.look_up(problem, &mut moves)),
            _ => search::solve(
                &mut self.workspace,
                problem,
                &self.options,
                &Budget::UNLIMITED,
                &mut moves,
            ),
        };
        let found = match solved {
            Ok(found) => found,
            Err(interrupted) => return Answer::refused(&interrupted),
        };
        let (outcome, length, optimal) = match found.outcome {
            Outcome::Solved { length, optimal } => (answer::Outcome::Solved, length, optimal),
            Outcome::Unsolvable => (answer::Outcome::Unsolvable, 0, false),
            Outcome::LimitReached => (answer::Outcome::LimitReached, 0, false),
        };
        Answer::Found(Found {
            outcome,
            moves,
            length,
            optimal,
            expanded: found.expanded,
            generated: found.generated,
        })
    }
}
