//! `loyd compare`: the same boards by every method, side by side.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::exit::Exit;
use super::lines::Lines;
#[cfg(feature = "plot")]
use super::plot;
use super::task::{Task, TaskArgs};
use crate::puzzle::{Problem, Shape};
use crate::search::{
    self, Budget, Heuristic, Method, Outcome, SearchOptions, Solution, Weight, Workspace,
};

/// How many boards one method solves before the next takes its turn: bounds
/// what is held of an endless input.
const ROUND: usize = 1_000;

/// Arguments of `loyd compare`.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Args {
    /// Boards, each quoted as one argument
    #[arg(value_name = "BOARD")]
    boards: Vec<String>,

    #[command(flatten)]
    task: TaskArgs,

    /// Read boards from this file, one a line, instead of standard input
    #[arg(long, value_name = "FILE", conflicts_with = "boards")]
    input: Option<PathBuf>,

    /// Draw expanded states against optimal length, as SVG
    #[cfg(feature = "plot")]
    #[arg(long, value_name = "FILE.svg", value_parser = plot::parse_path)]
    plot: Option<PathBuf>,
}

/// A method with all that decides its answers.
struct Contender {
    method: &'static str,
    heuristic: &'static str,
    options: SearchOptions,
}

/// Everything there is to compare; the goal table comes first because it
/// tells the optimal length.
fn contenders() -> Vec<Contender> {
    let plain = |method, name| Contender {
        method: name,
        heuristic: "-",
        options: SearchOptions {
            method,
            ..SearchOptions::default()
        },
    };
    let mut all = vec![
        plain(Method::GoalTable, "goal-table"),
        plain(Method::BidirectionalBfs, "bidirectional-bfs"),
        plain(Method::Bfs, "bfs"),
    ];
    let led = [
        (Method::AStar, "a-star", Some(Weight::ONE)),
        (Method::AStar, "a-star, weight 2", Weight::new(2.0).ok()),
        (
            Method::GreedyBestFirst,
            "greedy-best-first",
            Some(Weight::ONE),
        ),
    ];
    for (method, name, weight) in led {
        for (heuristic, heuristic_name) in [
            (Heuristic::MisplacedTiles, "misplaced-tiles"),
            (Heuristic::Manhattan, "manhattan"),
            (Heuristic::LinearConflict, "linear-conflict"),
        ] {
            all.push(Contender {
                method: name,
                heuristic: heuristic_name,
                options: SearchOptions {
                    method,
                    heuristic,
                    weight: weight.unwrap_or(Weight::ONE),
                    ..SearchOptions::default()
                },
            });
        }
    }
    all
}

/// Sums over the boards that one contender solved.
#[derive(Default)]
struct Sums {
    boards: u32,
    optimal: u32,
    length: u64,
    expanded: u64,
    generated: u64,
    time: Duration,
    /// By optimal length: the boards, and the states expanded for them.
    by_length: BTreeMap<u32, (u32, u64)>,
}

impl Sums {
    fn add(&mut self, optimal_length: u32, found: &Solution) {
        let Outcome::Solved { length, .. } = found.outcome else {
            return;
        };
        self.boards += 1;
        self.optimal += u32::from(length == optimal_length);
        self.length += u64::from(length);
        self.expanded += found.expanded;
        self.generated += found.generated;
        let (boards, expanded) = self.by_length.entry(optimal_length).or_default();
        *boards += 1;
        *expanded += found.expanded;
    }
}

/// Runs the command.
pub(super) fn run(args: Args) -> Exit {
    let task = match args.task.task() {
        Ok(task) => task,
        Err(error) => return Exit::Usage.because(error),
    };
    let mut comparison = Comparison::new();
    let read = match (&args.boards, &args.input) {
        (boards, None) if !boards.is_empty() => {
            for (number, board) in (1..).zip(boards) {
                comparison.line(&task, number, board);
            }
            Ok(())
        }
        (_, Some(path)) => match File::open(path) {
            Ok(file) => comparison.lines(&task, file),
            Err(error) => {
                return Exit::Usage.because(format!("cannot read {}: {error}", path.display()));
            }
        },
        (_, None) => comparison.lines(&task, io::stdin()),
    };
    if let Err(error) = read {
        return Exit::Lost.because(format!("cannot read the boards: {error}"));
    }
    comparison.solve_round();
    match comparison.write(&mut BufWriter::new(io::stdout().lock())) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Exit::Done,
        Err(error) => return Exit::Lost.because(format!("cannot write the table: {error}")),
        Ok(()) => {}
    }
    #[cfg(feature = "plot")]
    if let Some(path) = &args.plot
        && let Err(error) = plot::write(path, &comparison.series())
    {
        return Exit::Lost.because(format!("cannot draw {}: {error}", path.display()));
    }
    if comparison.refused > 0 {
        Exit::LineError
    } else {
        Exit::Done
    }
}

/// The kinds of problems that have tables of their own, and had a search that
/// was not timed: the first one builds them.
#[derive(Default)]
struct Warmed(HashSet<(Shape, usize)>);

impl Warmed {
    /// The first problem of each kind that there was none of so far.
    fn first_of_each(&mut self, problems: &[Problem]) -> Vec<Problem> {
        let kind = |problem: &Problem| (problem.goal().shape(), problem.goal().blank());
        let firsts = problems
            .iter()
            .filter(|problem| self.0.insert(kind(problem)));
        firsts.copied().collect()
    }
}

struct Comparison {
    workspace: Workspace,
    warmed: Warmed,
    /// Read, and not solved yet: at most a round.
    waiting: Vec<Problem>,
    contenders: Vec<(Contender, Sums)>,
    unsolvable: u32,
    refused: u32,
}

impl Comparison {
    fn new() -> Comparison {
        let contenders = contenders()
            .into_iter()
            .map(|contender| (contender, Sums::default()));
        Comparison {
            workspace: Workspace::new(),
            warmed: Warmed::default(),
            waiting: Vec::new(),
            contenders: contenders.collect(),
            unsolvable: 0,
            refused: 0,
        }
    }

    fn lines(&mut self, task: &Task, input: impl Read) -> io::Result<()> {
        let mut lines = Lines::new(input);
        let mut number = 0;
        while let Some(line) = lines.next()? {
            number += 1;
            match line {
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) => self.line(task, number, line),
                Err(error) => self.refuse(number, &error),
            }
        }
        Ok(())
    }

    fn line(&mut self, task: &Task, number: u64, line: &str) {
        match task.parse(line) {
            Ok(problem) => self.solve(problem),
            Err(error) => self.refuse(number, &error),
        }
    }

    /// Tells what is wrong with a line, counted from 1.
    fn refuse(&mut self, number: u64, error: &impl std::fmt::Display) {
        self.refused += 1;
        // Standard error may be closed; the exit code still tells.
        let _ = writeln!(io::stderr(), "error: line {number}: {error}");
    }

    fn solve(&mut self, problem: Problem) {
        if !problem.is_solvable() {
            self.unsolvable += 1;
            return;
        }
        self.waiting.push(problem);
        if self.waiting.len() == ROUND {
            self.solve_round();
        }
    }

    /// Solves what waits by every method, one method after the other: each
    /// runs on caches that are its own, and is timed by two clock reads.
    fn solve_round(&mut self) {
        let problems = std::mem::take(&mut self.waiting);
        if problems.is_empty() {
            return;
        }
        let untimed = self.warmed.first_of_each(&problems);
        let mut optimal_lengths = Vec::new();
        for (contender, sums) in &mut self.contenders {
            let mut moves = String::new();
            let mut solve = |problem: &Problem| {
                moves.clear();
                let budget = Budget::UNLIMITED;
                search::solve(
                    &mut self.workspace,
                    problem,
                    &contender.options,
                    &budget,
                    &mut moves,
                )
            };
            for problem in &untimed {
                let _ = solve(problem);
            }
            let started = Instant::now();
            // Nothing interrupts a search with an unlimited budget.
            let found: Vec<Solution> = problems.iter().filter_map(|p| solve(p).ok()).collect();
            sums.time += started.elapsed();
            if optimal_lengths.is_empty() {
                optimal_lengths = found.iter().filter_map(length).collect();
            }
            for (found, optimal_length) in found.iter().zip(&optimal_lengths) {
                sums.add(*optimal_length, found);
            }
        }
    }

    /// One row a contender; of several boards, the means.
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let boards = self.contenders.first().map_or(0, |(_, sums)| sums.boards);
        if boards == 1 {
            writeln!(out, "1 board")?;
        } else {
            writeln!(out, "{boards} boards, means over them")?;
        }
        if self.unsolvable > 0 {
            writeln!(out, "{} unsolvable, left out", self.unsolvable)?;
        }
        if boards == 0 {
            return out.flush();
        }
        writeln!(
            out,
            "{:<18} {:<16} {:>8} {:>8} {:>12} {:>12} {:>12}",
            "method", "heuristic", "length", "optimal", "expanded", "generated", "time"
        )?;
        for (contender, sums) in &self.contenders {
            let mean = |sum: u64| format_mean(sum, sums.boards);
            let optimal = match (sums.boards, sums.optimal) {
                (all, optimal) if all == optimal => "yes".to_owned(),
                (1, _) => "no".to_owned(),
                (all, optimal) => {
                    format!("{:.1}%", f64::from(optimal) * 100.0 / f64::from(all.max(1)))
                }
            };
            writeln!(
                out,
                "{:<18} {:<16} {:>8} {:>8} {:>12} {:>12} {:>12}",
                contender.method,
                contender.heuristic,
                mean(sums.length),
                optimal,
                mean(sums.expanded),
                mean(sums.generated),
                format!(
                    "{:.2} us",
                    sums.time.as_secs_f64() * 1e6 / f64::from(sums.boards.max(1))
                ),
            )?;
        }
        out.flush()
    }

    /// For each method that expands states: its name, and the mean of them by
    /// optimal length.
    #[cfg(feature = "plot")]
    fn series(&self) -> Vec<plot::Series> {
        self.contenders
            .iter()
            .filter(|(_, sums)| sums.expanded > 0)
            .map(|(contender, sums)| plot::Series {
                name: match contender.heuristic {
                    "-" => contender.method.to_owned(),
                    heuristic => format!("{}, {heuristic}", contender.method),
                },
                points: sums
                    .by_length
                    .iter()
                    .filter(|(_, (_, expanded))| *expanded > 0)
                    .map(|(length, (boards, expanded))| (*length, mean(*expanded, *boards)))
                    .collect(),
            })
            .collect()
    }
}

fn length(found: &Solution) -> Option<u32> {
    match found.outcome {
        Outcome::Solved { length, .. } => Some(length),
        Outcome::Unsolvable | Outcome::LimitReached => None,
    }
}

fn mean(sum: u64, count: u32) -> f64 {
    // Sums of states stay far below the 2^53 that a double holds exactly.
    #[expect(clippy::cast_precision_loss, reason = "see above")]
    let sum = sum as f64;
    sum / f64::from(count.max(1))
}

/// A whole number where there is one board, else a mean.
fn format_mean(sum: u64, count: u32) -> String {
    if count == 1 {
        sum.to_string()
    } else {
        format!("{:.2}", mean(sum, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::puzzle::Board;

    #[test]
    fn tables_are_built_before_the_clock_runs() {
        let of = |rows, columns, count| {
            let goal = Board::standard_goal(Shape::new(rows, columns).unwrap());
            vec![Problem::to_standard_goal(goal); count]
        };
        let mut warmed = Warmed::default();
        let mixed = [of(3, 3, 2), of(2, 3, 1), of(3, 3, 1), of(2, 3, 2)].concat();
        let firsts = [of(3, 3, 1), of(2, 3, 1)].concat();
        assert_eq!(warmed.first_of_each(&mixed), firsts);
        assert_eq!(warmed.first_of_each(&mixed), []);
        assert_eq!(warmed.first_of_each(&of(2, 2, 3)), of(2, 2, 1));
    }
}
