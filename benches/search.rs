//! How fast the methods are, next to the `pathfinding` crate in the same run.
//!
//! ```text
//! cargo bench --bench search                   every ratio, memory, table builds, lines
//! cargo bench --bench search -- --quick        one round
//! cargo bench --bench search -- --only NAME    rows whose name contains NAME
//! cargo bench --bench search -- --count NAME   one pass of one method, untimed
//! ```
//!
//! All solve the same 10,000 random solvable boards to the standard goal, from
//! nine raw bytes to the letters of the moves in a buffer. Absolute times differ
//! from machine to machine and from hour to hour: the ratios are the result.
//! They are taken within a round, in which the methods take turns on slices of
//! the boards; the median round is printed, then the least and the greatest.
//! Pin the process to one core (`taskset -c 1`).
//!
//! Instruction counts repeat to the digit:
//!
//! ```text
//! cargo bench --bench search --no-run
//! valgrind --tool=callgrind --toggle-collect='*one_count*' \
//!     target/release/deps/search-... --count bidirectional
//! ```

#![expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "what fails here has to fail loudly"
)]

use std::env;
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use loyd::puzzle::{Board, Problem, Shape};
use loyd::search::{
    Budget, Heuristic, Method, Outcome, SearchOptions, Weight, Workspace, WorkspacePool,
    goal_table, solve,
};
use pathfinding::directed::{astar::astar, bfs::bfs_bidirectional};

type Tiles = [u8; 9];

const BOARDS: usize = 10_000;
const SLICE: usize = 1_000;
const ROUNDS: usize = 5;
const GOAL: Tiles = [1, 2, 3, 4, 5, 6, 7, 8, 0];

/// The same boards on every machine (G. Marsaglia's xorshift, 2003).
fn boards() -> Vec<Tiles> {
    let goal = Board::standard_goal(Shape::EIGHT);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % below).unwrap()
    };
    let mut boards = Vec::new();
    while boards.len() < BOARDS {
        let mut tiles = GOAL;
        for place in (1..tiles.len()).rev() {
            tiles.swap(place, next(place as u64 + 1));
        }
        let board = Board::from_bytes(Shape::EIGHT, &tiles).unwrap();
        if Problem::new(board, goal).unwrap().is_solvable() {
            boards.push(tiles);
        }
    }
    boards
}

fn successors(state: &Tiles) -> ArrayVec<Tiles, 4> {
    const NEIGHBOURS: [&[usize]; 9] = [
        &[1, 3],
        &[0, 2, 4],
        &[1, 5],
        &[0, 4, 6],
        &[1, 3, 5, 7],
        &[2, 4, 8],
        &[3, 7],
        &[4, 6, 8],
        &[5, 7],
    ];
    let blank = blank_of(state);
    NEIGHBOURS[blank]
        .iter()
        .map(|&cell| {
            let mut next = *state;
            next.swap(blank, cell);
            next
        })
        .collect()
}

fn blank_of(state: &Tiles) -> usize {
    state.iter().position(|&tile| tile == 0).unwrap()
}

fn manhattan(state: &Tiles) -> u32 {
    let mut sum = 0;
    for (cell, &tile) in state.iter().enumerate() {
        if tile != 0 {
            let target = usize::from(tile) - 1;
            sum += (cell / 3).abs_diff(target / 3) + (cell % 3).abs_diff(target % 3);
        }
    }
    sum as u32
}

fn push_letters(path: &[Tiles], moves: &mut String) {
    for pair in path.windows(2) {
        let (from, to) = (blank_of(&pair[0]), blank_of(&pair[1]));
        moves.push(match to.wrapping_sub(from) {
            1 => 'r',
            3 => 'd',
            usize::MAX => 'l',
            _ => 'u',
        });
    }
}

/// Solves boards and returns the sum of the lengths.
type Run = Box<dyn FnMut(&[Tiles], &mut String) -> u64>;

struct Contestant {
    name: &'static str,
    /// Passes over a slice in a round: the quick ones need some to be timed.
    passes: u32,
    /// The row that it is compared with.
    reference: Option<&'static str>,
    run: Run,
}

fn ours(options: SearchOptions) -> Run {
    let goal = Board::standard_goal(Shape::EIGHT);
    let mut workspace = Workspace::new();
    Box::new(move |boards, moves| one_pass(&mut workspace, &goal, &options, boards, moves))
}

/// What is timed.
#[inline(never)]
fn one_pass(
    workspace: &mut Workspace,
    goal: &Board,
    options: &SearchOptions,
    boards: &[Tiles],
    moves: &mut String,
) -> u64 {
    let mut sum = 0;
    for tiles in boards {
        let board = Board::from_bytes(Shape::EIGHT, tiles).unwrap();
        let problem = Problem::new(board, *goal).unwrap();
        let solution = solve(workspace, &problem, options, &Budget::UNLIMITED, moves).unwrap();
        if let Outcome::Solved { length, .. } = solution.outcome {
            sum += u64::from(length);
        }
    }
    sum
}

fn options(method: Method, heuristic: Heuristic, weight: f64) -> SearchOptions {
    SearchOptions {
        method,
        heuristic,
        weight: Weight::new(weight).unwrap(),
        ..SearchOptions::default()
    }
}

const BFS_BIDIRECTIONAL: &str = "pathfinding::bfs_bidirectional";
const ASTAR: &str = "pathfinding::astar, Manhattan";

fn contestants() -> Vec<Contestant> {
    use Heuristic::{LinearConflict, Manhattan, MisplacedTiles};
    use Method::{AStar, Bfs, BidirectionalBfs, GoalTable, GreedyBestFirst};
    let mut all = vec![
        Contestant {
            name: BFS_BIDIRECTIONAL,
            passes: 1,
            reference: None,
            run: Box::new(|boards, moves| {
                let mut sum = 0;
                for start in boards {
                    let path = bfs_bidirectional(start, &GOAL, successors, successors).unwrap();
                    push_letters(&path, moves);
                    sum += path.len() as u64 - 1;
                }
                sum
            }),
        },
        Contestant {
            name: ASTAR,
            passes: 1,
            reference: None,
            run: Box::new(|boards, moves| {
                let mut sum = 0;
                for start in boards {
                    let next = |state: &Tiles| {
                        let next = successors(state).into_iter();
                        next.map(|state| (state, 1)).collect::<ArrayVec<_, 4>>()
                    };
                    let done = |state: &Tiles| *state == GOAL;
                    let (path, length) = astar(start, next, manhattan, done).unwrap();
                    push_letters(&path, moves);
                    sum += u64::from(length);
                }
                sum
            }),
        },
    ];
    let mut add = |name, passes, reference, method, heuristic, weight| {
        all.push(Contestant {
            name,
            passes,
            reference: Some(reference),
            run: ours(options(method, heuristic, weight)),
        });
    };
    let (bfs, astar) = (BFS_BIDIRECTIONAL, ASTAR);
    add("bidirectional", 5, bfs, BidirectionalBfs, Manhattan, 1.0);
    add("goal table", 100, bfs, GoalTable, Manhattan, 1.0);
    add("A*, Manhattan", 3, astar, AStar, Manhattan, 1.0);
    add("A*, misplaced", 1, astar, AStar, MisplacedTiles, 1.0);
    add("A*, linear conflict", 5, astar, AStar, LinearConflict, 1.0);
    add("A*, Manhattan x 1.5", 5, astar, AStar, Manhattan, 1.5);
    add("A*, Manhattan x 1.37", 5, astar, AStar, Manhattan, 1.37);
    add("A*, Manhattan x 5", 5, astar, AStar, Manhattan, 5.0);
    add(
        "greedy, Manhattan",
        10,
        astar,
        GreedyBestFirst,
        Manhattan,
        1.0,
    );
    add("one-direction bfs", 1, bfs, Bfs, Manhattan, 1.0);
    all
}

/// The median of some values, the least and the greatest.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (
        values[values.len() / 2],
        values[0],
        values[values.len() - 1],
    )
}

fn time(run: &mut Run, boards: &[Tiles], passes: u32, moves: &mut String) -> (Duration, u64) {
    let mut sum = 0;
    let begin = Instant::now();
    for _ in 0..passes {
        moves.clear();
        sum = black_box(run(black_box(boards), moves));
    }
    (begin.elapsed() / passes, sum)
}

fn compare(only: Option<&str>, rounds: usize) {
    let boards = boards();
    let mut contestants = contestants();
    if let Some(only) = only {
        contestants.retain(|contestant| contestant.name.contains(only));
    }
    let mut moves = String::with_capacity(1 << 20);
    // Tables are built and memory is touched before the first round.
    for contestant in &mut contestants {
        time(&mut contestant.run, &boards[..100], 1, &mut moves);
    }
    let mut nanos = vec![vec![0.0; rounds]; contestants.len()];
    let mut lengths = vec![0; contestants.len()];
    let mut round = 0;
    while round < rounds {
        lengths.fill(0);
        for slice in boards.chunks(SLICE) {
            for (row, contestant) in contestants.iter_mut().enumerate() {
                let passes = contestant.passes;
                let (elapsed, sum) = time(&mut contestant.run, slice, passes, &mut moves);
                nanos[row][round] += elapsed.as_nanos() as f64 / BOARDS as f64;
                lengths[row] += sum;
            }
        }
        round += 1;
    }
    println!(
        "{:32} {:>10} {:>10} {:>7} {:>9}  {:17}  compared with",
        "method", "ns a board", "(least)", "moves", "ratio", "least to greatest"
    );
    for (row, contestant) in contestants.iter().enumerate() {
        let (nanos_a_board, least, _) = spread(nanos[row].clone());
        let mean_length = lengths[row] as f64 / BOARDS as f64;
        print!(
            "{:32} {nanos_a_board:>10.1} {least:>10.1} {mean_length:>7.3}",
            contestant.name
        );
        let reference = contestant
            .reference
            .and_then(|name| contestants.iter().position(|other| other.name == name));
        if let Some(reference) = reference {
            let ratios = nanos[reference].iter().zip(&nanos[row]);
            let (median, least, greatest) = spread(ratios.map(|(a, b)| a / b).collect());
            let range = format!("{least:.1} to {greatest:.1}");
            print!(
                " {median:>9.1}  {range:17}  {}",
                contestants[reference].name
            );
        }
        println!();
    }
}

/// What a table costs to build, in solves of the default method: in a process
/// that has built none.
fn builds() {
    let boards = boards();
    let mut moves = String::new();
    let mut run = ours(SearchOptions::default());
    time(&mut run, &boards[..100], 1, &mut moves);
    let mut builds = Vec::new();
    for goal_blank in 0..9 {
        let begin = Instant::now();
        goal_table::warm(Shape::EIGHT, goal_blank);
        builds.push(begin.elapsed().as_nanos() as f64);
    }
    let (build, least, greatest) = spread(builds);
    let (elapsed, _) = time(&mut run, &boards, 1, &mut moves);
    let one = elapsed.as_nanos() as f64 / BOARDS as f64;
    println!(
        "a goal table: {:.2} ms ({:.2} to {:.2}), as much as {:.0} default solves",
        build / 1e6,
        least / 1e6,
        greatest / 1e6,
        build / one
    );
}

/// What the process holds with all nine tables and sixteen workspaces that
/// every method has used.
fn memory() {
    let before = resident();
    let boards = boards();
    let after_boards = resident();
    let goal = Board::standard_goal(Shape::EIGHT);
    for blank in 0..9 {
        goal_table::warm(Shape::EIGHT, blank);
    }
    let after_tables = resident();
    let pool = WorkspacePool::new();
    let mut leases: Vec<_> = (0..16).map(|_| pool.lease()).collect();
    let mut moves = String::new();
    for (contestant, passes) in [
        (
            options(Method::BidirectionalBfs, Heuristic::Manhattan, 1.0),
            1,
        ),
        (options(Method::AStar, Heuristic::MisplacedTiles, 1.0), 1),
        (options(Method::AStar, Heuristic::LinearConflict, 1.37), 1),
        (options(Method::AStar, Heuristic::Manhattan, 1.5), 1),
        (
            options(Method::GreedyBestFirst, Heuristic::Manhattan, 1.0),
            1,
        ),
        (options(Method::Bfs, Heuristic::Manhattan, 1.0), 1),
    ] {
        for workspace in &mut leases {
            for _ in 0..passes {
                moves.clear();
                one_pass(workspace, &goal, &contestant, &boards[..200], &mut moves);
            }
        }
    }
    let all = resident();
    println!(
        "memory: {:.1} MiB for nine tables, {:.1} MiB for sixteen workspaces that every method \
         has used, {:.1} MiB resident in all",
        after_tables - after_boards,
        all - after_tables,
        all - before
    );
}

/// What the command line adds to the goal table: the processor time of
/// `loyd solve` on a file of lines, next to the engine's own on these boards.
fn lines() {
    const COPIES: usize = 300;
    const PASSES: u32 = 1000;
    let boards = boards();
    let text: String = boards
        .iter()
        .map(|tiles| tiles.map(|tile| tile.to_string()).join(" ") + "\n")
        .collect();
    let path = env::temp_dir().join(format!("loyd-bench-{}.txt", std::process::id()));
    std::fs::write(&path, text.repeat(COPIES)).unwrap();
    let mut moves = String::new();
    let mut engine = ours(options(Method::GoalTable, Heuristic::Manhattan, 1.0));
    time(&mut engine, &boards, 1, &mut moves);
    let mut ratios = Vec::new();
    let mut nanos = Vec::new();
    for _ in 0..ROUNDS {
        let before = cpu_seconds(Of::Children);
        let mut command = Command::new(env!("CARGO_BIN_EXE_loyd"));
        command.args(["solve", "--algorithm", "goal-table"]);
        let input = std::fs::File::open(&path).unwrap();
        let status = command.stdin(input).stdout(Stdio::null()).status().unwrap();
        assert!(status.success());
        let seconds = cpu_seconds(Of::Children) - before;
        let a_line = seconds * 1e9 / (BOARDS * COPIES) as f64;
        let before = cpu_seconds(Of::Itself);
        time(&mut engine, &boards, PASSES, &mut moves);
        let seconds = cpu_seconds(Of::Itself) - before;
        ratios.push(a_line / (seconds * 1e9 / (BOARDS as f64 * f64::from(PASSES))));
        nanos.push(a_line);
    }
    std::fs::remove_file(&path).unwrap();
    let (ratio, least, greatest) = spread(ratios);
    let (a_line, ..) = spread(nanos);
    println!(
        "loyd solve --algorithm goal-table: {a_line:.0} ns of processor time a line, {ratio:.2} \
         ({least:.2} to {greatest:.2}) times the engine's own"
    );
}

/// Whose processor time: this process's, or that of those it has waited for.
#[derive(Clone, Copy)]
enum Of {
    Itself = 11,
    Children = 13,
}

/// Processor time, where the system tells (Linux), in its hundredths.
fn cpu_seconds(of: Of) -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field, in parentheses, may have blanks in it.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    // The system's time for it comes after its own.
    let fields = after_name.split_whitespace().skip(of as usize).take(2);
    let ticks = fields.map(|ticks| ticks.parse::<f64>().ok());
    ticks.sum::<Option<f64>>().unwrap_or(f64::NAN) / 100.0
}

/// MiB of memory that this process holds, where the system tells (Linux).
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(f64::NAN) / 1024.0
}

/// What callgrind collects.
#[inline(never)]
fn one_count(run: &mut Run, boards: &[Tiles], moves: &mut String) -> u64 {
    run(boards, moves)
}

fn count(name: &str) {
    let boards = boards();
    let mut moves = String::with_capacity(1 << 20);
    for mut contestant in contestants() {
        if contestant.name == name {
            // The first run builds tables and is not collected.
            (contestant.run)(&boards[..1], &mut moves);
            moves.clear();
            let sum = one_count(&mut contestant.run, &boards[..SLICE], &mut moves);
            println!("{name}: {SLICE} boards, {sum} moves");
        }
    }
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|one| one != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--count", name] => count(name),
        ["--builds"] => builds(),
        ["--memory"] => memory(),
        ["--lines"] => lines(),
        ["--only", name] => compare(Some(name), ROUNDS),
        ["--quick"] => compare(None, 1),
        _ => {
            compare(None, ROUNDS);
            // Each in a process of its own, as tables are built once in one.
            for mode in ["--builds", "--memory", "--lines"] {
                let program = env::current_exe().unwrap();
                Command::new(program).arg(mode).status().unwrap();
            }
        }
    }
}
