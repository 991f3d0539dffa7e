//! What the service costs beside what it serves, next to an echo server in the
//! same run.
//!
//! ```text
//! cargo bench --bench service                    every row
//! cargo bench --bench service -- --seconds 1     shorter runs
//! cargo bench --bench service -- --only unary    rows whose name contains this
//! ```
//!
//! The real server is a process of its own and `loyd bench` another. The echo
//! server is this program again: the same two calls over the same accept loop,
//! with requests read and answers of the same size written, and nothing solved.
//! CPU comes from `/proc`; *engine* is the search alone over the same kind of
//! boards, in this process. The result is `server / (echo + engine)`: what Loyd
//! adds to what any service on this stack would cost.
//!
//! All three take turns, each of them short beside what else the machine does,
//! and a ratio is of three that followed each other; a repeat's is the median
//! of its turns', a row's the median of three repeats'. The other columns are
//! medians of the same kind, each by itself, so their quotient is not quite the
//! ratio.
//!
//! Then what a caller notices of others: the p99 of unary calls and of health
//! checks, 200 a second, beside streams that keep the server busy.
//!
//! Then how much faster one stream of the default method is on two cores than
//! on one (`taskset`, of util-linux), and what the echo server costs on one
//! runtime of several threads and on one of a single thread
//! (`docs/decisions/0010-one-runtime.md`).

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};
use std::{env, fs};

use loyd::puzzle::{Board, Problem, Shape, cantor};
use loyd::search::{Budget, Method, SearchOptions, Workspace, solve};
use loyd::server::{Bound, Config, Services};
use loyd::service::{DESCRIPTOR_SETS, NAME};
use loyd::wire::v1 as wire;
use loyd::wire::v1::solver_service_client::SolverServiceClient;
use plain::solver_service_server::{SolverService, SolverServiceServer};
use plain::{
    Algorithm, BoardResult, Outcome, PackedResults, ResultList, SearchStats, Solution,
    SolveBatchRequest, SolveBatchResponse, SolveRequest, SolveResponse, board_result,
    solve_batch_request, solve_batch_response,
};
use tokio_stream::{Stream, StreamExt};
use tonic::service::Routes;
use tonic::transport::Endpoint;
use tonic::{Request, Response, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// What the echo server speaks: the contract as any service on this stack gets
/// it, without a type of ours.
mod plain {
    include!(concat!(env!("OUT_DIR"), "/plain/loyd.v1.rs"));
}

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ECHO: &str = "--echo-server";
/// The echo server has a runtime of a single thread.
const ONE_THREAD: &str = "--one-thread";
const REPEATS: usize = 3;

/// How long each server is measured for a repeat of a row, and how long for one
/// of all else.
const ROW_SECONDS: &str = "6";
const SECONDS: &str = "2";

const LOYD: &str = env!("CARGO_BIN_EXE_loyd");

/// With all that a server in use has on.
const SERVE: &[&str] = &[
    "serve",
    "--listen",
    "127.0.0.1:0",
    "--admin-listen",
    "127.0.0.1:0",
];

struct Row {
    name: &'static str,
    method: Method,
    client: &'static [&'static str],
}

const ROWS: &[Row] = &[
    Row {
        name: "packed x 1024, goal table",
        method: Method::GoalTable,
        client: &[
            "--form",
            "packed",
            "--boards-per-message",
            "1024",
            "--algorithm",
            "goal-table",
        ],
    },
    Row {
        name: "packed x 1, goal table",
        method: Method::GoalTable,
        client: &[
            "--form",
            "packed",
            "--boards-per-message",
            "1",
            "--algorithm",
            "goal-table",
        ],
    },
    Row {
        name: "list x 256, goal table",
        method: Method::GoalTable,
        client: &[
            "--form",
            "list",
            "--boards-per-message",
            "256",
            "--algorithm",
            "goal-table",
        ],
    },
    Row {
        name: "packed x 1024, bidirectional",
        method: Method::BidirectionalBfs,
        client: &[
            "--form",
            "packed",
            "--boards-per-message",
            "1024",
            "--algorithm",
            "bidirectional-bfs",
        ],
    },
    Row {
        name: "unary, goal table",
        method: Method::GoalTable,
        client: &[
            "--form",
            "unary",
            "--streams",
            "4",
            "--algorithm",
            "goal-table",
        ],
    },
    Row {
        name: "unary, bidirectional",
        method: Method::BidirectionalBfs,
        client: &[
            "--form",
            "unary",
            "--streams",
            "4",
            "--algorithm",
            "bidirectional-bfs",
        ],
    },
];

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let is_given = |name: &str| arguments.iter().any(|argument| argument == name);
    if is_given(ECHO) {
        return echo_server(is_given(ONE_THREAD));
    }
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let seconds = |or: &str| value("--seconds").unwrap_or_else(|| or.to_owned());
    let (rows_seconds, seconds) = (seconds(ROW_SECONDS), seconds(SECONDS));
    let only = value("--only").unwrap_or_default();

    let real = Server::start(LOYD, SERVE);
    let this = env::current_exe().unwrap();
    let this = this.to_str().unwrap();
    let echo = Server::start(this, &[ECHO]);
    println!(
        "{:<30} {:>10} {:>10} {:>10} {:>7} {:>14}",
        "row (ns of CPU a board)", "server", "echo", "engine", "ratio", "boards/s wall"
    );
    for row in ROWS.iter().filter(|row| row.name.contains(&only)) {
        // Once without counting: tables are built, connections' memory is there.
        real.load(row.client, "0.3s");
        echo.load(row.client, "0.3s");
        let duration = Duration::from_secs_f64(rows_seconds.parse().unwrap());
        let turns = duration.as_millis().div_ceil(TURN.as_millis());
        let repeats: Vec<Vec<Turn>> = (0..REPEATS)
            .map(|_| (0..turns).map(|_| Turn::of(row, &real, &echo)).collect())
            .collect();
        let middle = |of: fn(&Turn) -> f64| {
            let each = repeats.iter().map(|turns| median(turns.iter().map(of)));
            median(each)
        };
        let ratio = middle(|turn| turn.real.cpu_ns / (turn.echo.cpu_ns + turn.engine.cpu_ns));
        println!(
            "{:<30} {:>10.1} {:>10.1} {:>10.1} {:>7.2} {:>14.0}{}",
            row.name,
            middle(|turn| turn.real.cpu_ns),
            middle(|turn| turn.echo.cpu_ns),
            middle(|turn| turn.engine.cpu_ns),
            ratio,
            middle(|turn| turn.real.boards_per_second),
            if ratio <= MOST { "" } else { "  OVER" },
        );
    }
    if BESIDE.contains(&only) {
        beside_batches(&real, &echo, &seconds);
    }
    if TWO_CORES.contains(&only) {
        two_cores(&real, &seconds);
    }
    if RUNTIMES.contains(&only) {
        runtimes(&echo, &Server::start(this, &[ECHO, ONE_THREAD]), &seconds);
    }
}

const TWO_CORES: &str = "one stream on two cores";

/// How many times as fast one stream is to be.
const TWO_CORES_RATIO: f64 = 1.8;

fn two_cores(two: &Server, seconds: &str) {
    let one = Server::start("taskset", &[&["-c", "0", LOYD], SERVE].concat());
    let client = row("packed x 1024, bidirectional").client;
    let duration = format!("{seconds}s");
    one.load(client, "0.3s");
    let loads = (0..REPEATS).map(|_| (one.load(client, &duration), two.load(client, &duration)));
    let (ones, twos): (Vec<_>, Vec<_>) = loads.unzip();
    let ratios = ones.iter().zip(&twos);
    let ratio = median(ratios.map(|(one, two)| two.boards_per_second / one.boards_per_second));
    let speed = |loads: &[Load]| median(loads.iter().map(|load| load.boards_per_second));
    println!(
        "\n{:<30} {:>10} {:>10} {:>10}\n{TWO_CORES:<30} {:>10.0} {:>10.0} {ratio:>10.2}{}",
        "boards/s",
        "one core",
        "two",
        "ratio",
        speed(&ones),
        speed(&twos),
        if ratio >= TWO_CORES_RATIO {
            ""
        } else {
            "  UNDER"
        },
    );
}

const RUNTIMES: &str = "runtimes";

fn runtimes(several: &Server, single: &Server, seconds: &str) {
    println!(
        "\n{:<30} {:>10} {:>10} {:>10}",
        format!("{RUNTIMES} (ns of CPU)"),
        "several",
        "single",
        "ratio"
    );
    let duration = format!("{seconds}s");
    for name in ["packed x 1, goal table", "unary, goal table"] {
        let client = [row(name).client, &["--connections", "4"]].concat();
        let loads = (0..REPEATS).map(|_| {
            let several = several.load(&client, &duration).cpu_ns;
            (several, single.load(&client, &duration).cpu_ns)
        });
        let (several, single): (Vec<_>, Vec<_>) = loads.unzip();
        let ratios = several.iter().zip(&single);
        println!(
            "{name:<30} {:>10.1} {:>10.1} {:>10.2}",
            median(several.iter().copied()),
            median(single.iter().copied()),
            median(ratios.map(|(several, single)| several / single)),
        );
    }
}

fn row(name: &str) -> &'static Row {
    ROWS.iter().find(|row| row.name == name).unwrap()
}

/// The name of the section, for `--only`.
const BESIDE: &str = "beside batches";

/// The calls that are measured come at this rate.
const INTERVAL: Duration = Duration::from_millis(5);

/// What a p99 may be: so many times the echo server's, or so long.
const BESIDE_RATIO: f64 = 10.0;
const BESIDE_LEAST: Duration = Duration::from_millis(10);

fn beside_batches(real: &Server, echo: &Server, seconds: &str) {
    println!(
        "\n{:<30} {:>10} {:>10} {:>10}",
        format!("{BESIDE} (p99, us)"),
        "server",
        "echo",
        "bound"
    );
    let measure = |server: &Server, health: bool| {
        let p99s = (0..REPEATS).map(|_| server.p99_beside_batches(seconds, health));
        median(p99s)
    };
    for (name, health) in [
        ("unary, 200 a second", false),
        ("health, 200 a second", true),
    ] {
        let (server, echoed) = (measure(real, health), measure(echo, health));
        let bound = (echoed * BESIDE_RATIO).max(BESIDE_LEAST.as_secs_f64() * 1e6);
        let told = if server <= bound { "" } else { "  OVER" };
        println!("{name:<30} {server:>10.0} {echoed:>10.0} {bound:>10.0}{told}");
    }
}

/// The p99 in microseconds of calls at a fixed rate, each counted from when it
/// was due.
async fn p99(duration: Duration, mut call: impl AsyncFnMut()) -> f64 {
    let started = tokio::time::Instant::now();
    let mut taken = Vec::new();
    while started.elapsed() < duration {
        let due = started + INTERVAL * u32::try_from(taken.len()).unwrap();
        tokio::time::sleep_until(due).await;
        call().await;
        taken.push(due.elapsed());
    }
    taken.sort();
    taken[taken.len() * 99 / 100].as_secs_f64() * 1e6
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What is compared, one after the other.
struct Turn {
    real: Load,
    echo: Load,
    engine: Load,
}

/// How long each of the three takes. What else the machine does changes within
/// a second, and is to meet all three; starting a client is to be nothing
/// beside it.
const TURN: Duration = Duration::from_millis(200);

impl Turn {
    fn of(row: &Row, real: &Server, echo: &Server) -> Turn {
        let text = format!("{}ms", TURN.as_millis());
        Turn {
            real: real.load(row.client, &text),
            echo: echo.load(row.client, &text),
            engine: engine_alone(row.method, TURN / 2),
        }
    }
}

/// What the ratio of a row may be.
const MOST: f64 = 1.15;

/// What the engine solves alone: made once, and not in every turn.
static BOARDS: LazyLock<Vec<[u8; 9]>> = LazyLock::new(|| {
    let goal = Board::standard_goal(Shape::EIGHT);
    let all = cantor::factorial(9);
    (0..all)
        .map(|number| {
            let mut tiles = [0; 9];
            let spread = u64::from(number) * 100_003 % u64::from(all);
            cantor::unrank(u32::try_from(spread).unwrap(), &mut tiles);
            tiles
        })
        .filter(|tiles| {
            let board = Board::from_bytes(Shape::EIGHT, tiles).unwrap();
            Problem::new(board, goal).unwrap().is_solvable()
        })
        .take(65_536)
        .collect()
});

/// Nanoseconds of CPU a board, from nine bytes to letters in a buffer, with
/// every core at it: as the rows keep them all busy, too.
fn engine_alone(method: Method, duration: Duration) -> Load {
    let goal = Board::standard_goal(Shape::EIGHT);
    let options = SearchOptions {
        method,
        ..SearchOptions::default()
    };
    let solve_all = |workspace: &mut Workspace, moves: &mut String, boards: &[[u8; 9]]| {
        for tiles in boards {
            let board = Board::from_bytes(Shape::EIGHT, tiles).unwrap();
            let problem = Problem::new(board, goal).unwrap();
            if moves.len() > 32_768 {
                moves.clear();
            }
            solve(workspace, &problem, &options, &Budget::UNLIMITED, moves).unwrap();
        }
    };
    // The first also builds tables.
    solve_all(&mut Workspace::new(), &mut String::new(), &BOARDS[..1]);
    let started = Instant::now();
    let (solved, cpu_ns) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..std::thread::available_parallelism().unwrap().get())
            .map(|_| {
                scope.spawn(|| {
                    let mut workspace = Workspace::new();
                    let mut moves = String::new();
                    let mut solved = 0;
                    let cpu = || cpu_of_thread(Path::new("/proc/thread-self")).unwrap();
                    let before = cpu();
                    for some in BOARDS.chunks(1024).cycle() {
                        if started.elapsed() > duration {
                            break;
                        }
                        solve_all(&mut workspace, &mut moves, some);
                        solved += some.len();
                    }
                    (solved, cpu() - before)
                })
            })
            .collect();
        let threads = threads.into_iter().map(|thread| thread.join().unwrap());
        threads.fold((0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1))
    });
    Load {
        cpu_ns: cpu_ns / solved as f64,
        boards_per_second: solved as f64 / started.elapsed().as_secs_f64(),
    }
}

/// The CPU time of all threads that a process has, in nanoseconds.
fn cpu_of(process: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let threads = threads.map(|thread| thread.unwrap().path());
    // One may end meanwhile.
    threads.filter_map(|thread| cpu_of_thread(&thread)).sum()
}

/// `/proc/PID/stat` has it too, but counted in hundredths of a second.
fn cpu_of_thread(thread: &Path) -> Option<f64> {
    let stat = fs::read_to_string(thread.join("schedstat")).ok()?;
    stat.split_whitespace().next()?.parse().ok()
}

/// A server process.
struct Server {
    child: Child,
    uri: String,
}

/// What came of a load.
struct Load {
    /// A board.
    cpu_ns: f64,
    boards_per_second: f64,
}

impl Server {
    fn start(program: &str, arguments: &[&str]) -> Server {
        let mut child = Command::new(program)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let uri = line
            .strip_prefix("listening on ")
            .unwrap()
            .trim()
            .to_owned();
        Server { child, uri }
    }

    fn cpu(&self) -> f64 {
        cpu_of(self.child.id())
    }

    /// The p99 of unary calls or health checks while four streams are as fast
    /// as they can.
    fn p99_beside_batches(&self, seconds: &str, health: bool) -> f64 {
        let mut batches = Command::new(LOYD)
            .args(["bench", "--connect", &self.uri, "--streams", "4"])
            .args(["--duration", "1h"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let duration = Duration::from_secs_f64(seconds.parse().unwrap());
        let p99 = runtime.block_on(async {
            let endpoint = Endpoint::from_shared(self.uri.clone()).unwrap();
            let channel = endpoint.connect().await.unwrap();
            // Until the streams are at full speed.
            tokio::time::sleep(Duration::from_millis(500)).await;
            if health {
                let mut client = HealthClient::new(channel);
                return p99(duration, async || {
                    client.check(HealthCheckRequest::default()).await.unwrap();
                })
                .await;
            }
            let mut client = SolverServiceClient::new(channel);
            let board = wire::Board {
                tiles: vec![8, 6, 7, 2, 5, 4, 3, 0, 1],
                rows: 0,
                columns: 0,
            };
            let request = wire::SolveRequest {
                board: Some(board),
                ..wire::SolveRequest::default()
            };
            p99(duration, async || {
                client.solve(request.clone()).await.unwrap();
            })
            .await
        });
        batches.kill().unwrap();
        batches.wait().unwrap();
        p99
    }

    fn load(&self, client: &[&str], duration: &str) -> Load {
        let before = self.cpu();
        let output = Command::new(LOYD)
            .args([
                "bench",
                "--json",
                "--connect",
                &self.uri,
                "--duration",
                duration,
            ])
            .args(client)
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        let cpu = self.cpu() - before;
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["errors"], 0, "{report}");
        let boards = report["boards"].as_f64().unwrap();
        Load {
            cpu_ns: cpu / boards,
            boards_per_second: boards / report["seconds"].as_f64().unwrap(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The mean length of an answer.
const LENGTH: usize = 22;

/// Answers of the size that real ones have, made once for each number of boards.
#[derive(Clone, Default)]
struct Echo {
    packed: Arc<Mutex<HashMap<usize, Arc<PackedResults>>>>,
}

fn stats() -> SearchStats {
    SearchStats {
        algorithm: Algorithm::BidirectionalBfs.into(),
        expanded: 1_661,
        generated: 4_544,
        elapsed: None,
    }
}

fn solution() -> Solution {
    Solution {
        outcome: Outcome::Solved.into(),
        moves: "ullddrurdllurrdlurdlur".to_owned(),
        length: LENGTH as u32,
        optimal: true,
        stats: Some(stats()),
    }
}

impl Echo {
    fn packed(&self, boards: usize) -> PackedResults {
        let mut made = self.packed.lock().unwrap();
        let results = made.entry(boards).or_insert_with(|| {
            Arc::new(PackedResults {
                outcomes: vec![Outcome::Solved.into(); boards],
                lengths: vec![LENGTH as u32; boards],
                moves: solution().moves.repeat(boards),
                errors: Vec::new(),
                all_optimal: true,
                totals: Some(stats()),
            })
        });
        PackedResults::clone(results)
    }

    fn answer(&self, request: SolveBatchRequest) -> SolveBatchResponse {
        let results = match request.boards {
            Some(solve_batch_request::Boards::Packed(packed)) => {
                solve_batch_response::Results::Packed(self.packed(packed.tiles.len() / 9))
            }
            Some(solve_batch_request::Boards::List(list)) => {
                let result = || BoardResult {
                    result: Some(board_result::Result::Solution(solution())),
                };
                let results = list.boards.iter().map(|_| result()).collect();
                solve_batch_response::Results::List(ResultList { results })
            }
            None => panic!("the load client sends boards"),
        };
        SolveBatchResponse {
            id: request.id,
            results: Some(results),
            first_board: 0,
            more: false,
        }
    }
}

#[tonic::async_trait]
impl SolverService for Echo {
    async fn solve(&self, _: Request<SolveRequest>) -> Result<Response<SolveResponse>, Status> {
        Ok(Response::new(SolveResponse {
            solution: Some(solution()),
        }))
    }

    type SolveBatchStream =
        std::pin::Pin<Box<dyn Stream<Item = Result<SolveBatchResponse, Status>> + Send>>;

    async fn solve_batch(
        &self,
        request: Request<Streaming<SolveBatchRequest>>,
    ) -> Result<Response<Self::SolveBatchStream>, Status> {
        let echo = self.clone();
        let answers = request
            .into_inner()
            .map(move |request| Ok(echo.answer(request?)));
        Ok(Response::new(Box::pin(answers)))
    }
}

fn echo_server(one_thread: bool) {
    let mut builder = if one_thread {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime = builder.enable_all().build().unwrap();
    runtime.block_on(async {
        let bound = Bound::to(&["127.0.0.1:0".parse().unwrap()], 0o600)
            .await
            .unwrap();
        println!("listening on {}", bound.addresses()[0].uri(false));
        let services = Services {
            routes: Routes::new(SolverServiceServer::new(Echo::default())),
            names: &[NAME],
            descriptors: DESCRIPTOR_SETS,
        };
        let never = std::future::pending::<()>;
        bound
            .serve(Config::default(), services, async {}, never(), never())
            .await
            .unwrap();
    });
}
