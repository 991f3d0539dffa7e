//! `loyd solve`: a line out for each line in, here and on a server.

use std::io::Write;
use std::process::{Child, Command, Output, Stdio};

use loyd::puzzle::{Board, Shape};

use crate::server_life::Process;
use crate::support::{replay, spread};

fn spawn(args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_loyd"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

pub fn loyd(args: &[&str], input: &[u8]) -> Output {
    let mut child = spawn(args);
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // Beside the reading, as in a pipe; fails where nobody reads it.
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join().unwrap();
    output
}

fn stdout(output: &Output) -> &str {
    str::from_utf8(&output.stdout).unwrap()
}

fn lines(output: &Output) -> Vec<&str> {
    stdout(output).lines().collect()
}

/// Runs the test here and on a server: both must do the same.
fn here_and_there(test: impl Fn(&[&str])) {
    test(&[]);
    let server = Process::start(&[]);
    test(&["--connect", &server.uri]);
}

fn with<'a>(first: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [first, more].concat()
}

#[test]
fn the_sample_is_solved_in_19_letters() {
    here_and_there(|more| {
        let output = loyd(&with(&["solve", "2 3 4 1 5 x 7 6 8"], more), b"");
        assert_eq!(output.status.code(), Some(0));
        let lines = lines(&output);
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].len(), 19);
        let start = Board::from_bytes(Shape::EIGHT, &[2, 3, 4, 1, 5, 0, 7, 6, 8]).unwrap();
        assert_eq!(replay(&start, lines[0]), Board::standard_goal(Shape::EIGHT));
    });
}

#[test]
fn a_line_out_for_each_line_in() {
    let input = b"1 2 3 x 4 6 7 5 8\n2 1 3 4 5 6 7 8 x\nnonsense\n\n12345678x\n";
    here_and_there(|more| {
        let output = loyd(&with(&["solve"], more), input);
        assert_eq!(output.status.code(), Some(1));
        let lines = lines(&output);
        assert_eq!(lines.len(), 4);
        assert_eq!((lines[0], lines[1], lines[3]), ("rdr", "unsolvable", ""));
        assert!(lines[2].starts_with("error: "), "{}", lines[2]);
    });
}

#[test]
fn every_way_to_write_a_board() {
    let input = "1 2 3 4 5 6 7 x 8\r\n1,2,3,4,5,6,7,0,8\n1234567X8\n\t1 2 3 / 4 5 6 / 7 _ 8  \n\
                 123/456/7.8\n 1, 2, 3,\t4, 5, 6, 7, x, 8\n\u{feff}x\n";
    let input = format!("\u{feff}{input}");
    here_and_there(|more| {
        let output = loyd(&with(&["solve"], more), input.as_bytes());
        let lines = lines(&output);
        assert_eq!(lines.len(), 7);
        assert_eq!(lines[..6], ["r"; 6]);
        assert!(lines[6].starts_with("error: "), "{}", lines[6]);
    });
}

#[test]
fn goal_columns_and_count() {
    here_and_there(|more| {
        let goal = [
            "solve",
            "--goal",
            "1 2 3 / 8 0 4 / 7 6 5",
            "--count",
            "2 8 3 / 1 6 4 / 7 0 5",
        ];
        let output = loyd(&with(&goal, more), b"");
        assert_eq!(
            stdout(&output),
            "5 uuldr\n".replace("uuldr", &lines(&output)[0][2..])
        );
        assert_eq!(lines(&output)[0].len(), 7);
        let columns = [
            "solve",
            "--columns",
            "3",
            "--count",
            "1 2 x 4 5 3",
            "1 2 3 4 5 x",
        ];
        let output = loyd(&with(&columns, more), b"");
        assert_eq!(stdout(&output), "1 d\n0\n");
    });
}

#[test]
fn json_has_an_object_a_line() {
    here_and_there(|more| {
        let args = with(&["solve", "--format", "json"], more);
        let output = loyd(&args, b"1 2 3 4 5 6 7 x 8\n2 1 3 4 5 6 7 8 x\nnonsense\n");
        let objects: Vec<serde_json::Value> = lines(&output)
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(objects.len(), 3);
        assert_eq!(objects[0]["moves"], "r");
        assert_eq!(objects[0]["length"], 1);
        assert_eq!(objects[0]["optimal"], true);
        assert!(objects[0]["expanded"].is_u64() && objects[0]["generated"].is_u64());
        assert_eq!(objects[1]["outcome"], "unsolvable");
        assert!(objects[2]["error"].is_string());
        assert_eq!(output.status.code(), Some(1));
    });
}

#[test]
fn many_lines_keep_their_order() {
    let boards = spread(5_000);
    let mut input = String::new();
    for (number, board) in boards.iter().enumerate() {
        input.push_str(&format!("{board}\n"));
        if number % 100 == 0 {
            input.push_str("\nnonsense\n");
        }
    }
    let here = loyd(&["solve"], input.as_bytes());
    assert_eq!(lines(&here).len(), 5_050);
    let server = Process::start(&[]);
    let there = loyd(&["solve", "--connect", &server.uri], input.as_bytes());
    assert!(
        stdout(&here) == stdout(&there),
        "the same answers in the same order"
    );
    let table = loyd(
        &["solve", "--algorithm", "goal-table", "--count"],
        input.as_bytes(),
    );
    for (mine, tables) in lines(&here).iter().zip(lines(&table)) {
        match tables.split_once(' ') {
            Some((count, _)) if count.parse::<usize>().is_ok() => {
                assert_eq!(count, mine.len().to_string());
            }
            _ => assert!(tables == *mine || (tables == "0" && mine.is_empty())),
        }
    }
}

#[test]
fn an_answer_does_not_wait_for_the_next_line() {
    use std::io::{BufRead, BufReader};
    here_and_there(|more| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_loyd"))
            .args(with(&["solve"], more))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        for _ in 0..3 {
            stdin.write_all(b"1234567x8\n").unwrap();
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            assert_eq!(line, "r\n");
        }
        drop(stdin);
        assert!(child.wait().unwrap().success());
    });
}

#[test]
fn a_board_over_several_lines_is_told_how_to_write_it() {
    here_and_there(|more| {
        let output = loyd(&with(&["solve"], more), b"2 3 4\n1 5 x\n7 6 8\n");
        let lines = lines(&output);
        assert_eq!(lines.len(), 3);
        for line in lines {
            assert!(
                line.starts_with("error: ") && line.contains("on one line"),
                "{line}"
            );
        }
    });
}

#[test]
fn a_line_that_is_too_long_costs_itself_alone() {
    let mut input = vec![b'1'; 100_000];
    input.extend(b"\n\xff\xfe\n1234567x8\n");
    here_and_there(|more| {
        let output = loyd(&with(&["solve"], more), &input);
        let lines = lines(&output);
        assert_eq!(lines.len(), 3);
        assert!(lines[0].contains("65536 bytes"), "{}", lines[0]);
        assert!(lines[1].contains("UTF-8"), "{}", lines[1]);
        assert_eq!(lines[2], "r");
    });
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    here_and_there(|more| {
        let mut child = spawn(&with(&["solve", "--algorithm", "goal-table"], more));
        let mut stdin = child.stdin.take().unwrap();
        drop(child.stdout.take());
        // More than any buffer between holds; ends as soon as it is not read.
        while stdin.write_all(&b"867254301\n".repeat(1_000)).is_ok() {}
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        assert_eq!(output.status.code(), Some(0));
    });
}

#[test]
fn exit_codes_tell_what_went_wrong() {
    let code = |args: &[&str]| loyd(args, b"").status.code();
    assert_eq!(code(&["solve", "--nonsense"]), Some(2));
    assert_eq!(code(&[]), Some(2));
    assert_eq!(code(&["solve", "--goal", "1 1 1 1"]), Some(2));
    assert_eq!(code(&["solve", "--weight", "0.5"]), Some(2));
    for uri in [
        "ftp://x",
        "http://",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:x",
        "",
        "a b",
    ] {
        assert_eq!(code(&["solve", "--connect", uri, "123x"]), Some(2), "{uri}");
    }
    let huge = "18446744073709551615";
    for flag in [
        "--compute-threads",
        "--keepalive-interval",
        "--drain-timeout",
        "--max-connections",
    ] {
        assert_eq!(
            code(&["serve", "--listen", "127.0.0.1:0", flag, huge]),
            Some(2),
            "{flag}"
        );
    }
    let no_time = [
        "bench",
        "--connect",
        "http://127.0.0.1:1",
        "--duration",
        "0s",
    ];
    assert_eq!(code(&no_time), Some(2));
    assert_eq!(code(&["--help"]), Some(0));
    assert_eq!(code(&["--version"]), Some(0));
    // Nothing listens on the port of a socket that was just closed.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    assert_eq!(
        code(&["solve", "--connect", &format!("http://{free}"), "123x"]),
        Some(69)
    );
}

#[test]
fn a_lost_stream_is_exit_code_70() {
    let mut server = Process::start(&[]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_loyd"))
        .args(["solve", "--connect", &server.uri])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"1234567x8\n").unwrap();
    let mut answer = [0; 2];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut answer).unwrap();
    server.child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(70));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("boards answered: 1"), "{said}");
    drop(stdin);
}

#[test]
fn limits_stats_and_methods() {
    here_and_there(|more| {
        let hard = "8 6 7 2 5 4 3 0 1";
        let args = [
            "solve",
            "--algorithm",
            "a-star",
            "--heuristic",
            "linear-conflict",
            "--stats",
            hard,
        ];
        let output = loyd(&with(&args, more), b"");
        let text = stdout(&output);
        assert!(text.contains("length=31 optimal=true expanded="), "{text}");
        let limited = ["solve", "--max-expanded", "10", "--stats", hard];
        let output = loyd(&with(&limited, more), b"");
        assert!(
            stdout(&output).starts_with("limit reached\t"),
            "{}",
            stdout(&output)
        );
        assert!(
            stdout(&output).contains("expanded=10 "),
            "{}",
            stdout(&output)
        );
        let greedy = ["solve", "--algorithm", "greedy-best-first", hard];
        let output = loyd(&with(&greedy, more), b"");
        let start = Board::from_bytes(Shape::EIGHT, &[8, 6, 7, 2, 5, 4, 3, 0, 1]).unwrap();
        assert_eq!(
            replay(&start, lines(&output)[0]),
            Board::standard_goal(Shape::EIGHT)
        );
    });
}

#[test]
fn compare_has_a_row_for_every_method() {
    let output = loyd(&["compare", "8 6 7 2 5 4 3 0 1"], b"");
    assert_eq!(output.status.code(), Some(0));
    let rows = lines(&output);
    for method in [
        "goal-table",
        "bidirectional-bfs",
        "bfs",
        "a-star",
        "a-star, weight 2",
        "greedy-best-first",
    ] {
        let row = rows
            .iter()
            .find(|row| row.starts_with(&format!("{method} ")));
        let row = row.unwrap_or_else(|| panic!("{method} in {rows:#?}"));
        let optimal = !method.contains("weight") && method != "greedy-best-first";
        assert!(
            !optimal || row.contains(" 31 ") && row.contains(" yes "),
            "{row}"
        );
    }
    // Two lines before, then three methods without a heuristic and three with.
    assert_eq!(rows.len(), 2 + 3 + 3 * 3);
}

#[test]
fn compare_of_many_boards_has_means_and_a_picture() {
    let directory = std::env::temp_dir().join(format!("loyd-compare-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (boards, picture) = (directory.join("boards.txt"), directory.join("picture.svg"));
    let text: String = spread(40)
        .iter()
        .map(|board| format!("{board}\n"))
        .collect();
    std::fs::write(&boards, format!("{text}nonsense\n")).unwrap();
    let arguments = ["compare", "--input", boards.to_str().unwrap(), "--plot"];
    let output = loyd(&with(&arguments, &[picture.to_str().unwrap()]), b"");
    assert_eq!(output.status.code(), Some(1), "one line was an error");
    assert!(String::from_utf8_lossy(&output.stderr).contains("error: line 41: `n`"));
    let solvable = spread(40)
        .iter()
        .filter(|b| loyd::puzzle::Problem::to_standard_goal(**b).is_solvable())
        .count();
    assert_eq!(
        lines(&output)[0],
        format!("{solvable} boards, means over them")
    );
    assert_eq!(
        lines(&output)[1],
        format!("{} unsolvable, left out", 40 - solvable)
    );
    let drawn = std::fs::read_to_string(&picture).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("bidirectional-bfs"));
    let refused = loyd(&with(&arguments, &["picture.png"]), b"");
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        said.contains("the picture is SVG: name it picture.svg"),
        "{said}"
    );
    // The same boards from standard input give the same rows, times apart.
    let piped = loyd(&["compare"], text.as_bytes());
    let without_time = |output: &Output| -> Vec<String> {
        let rows = lines(output).into_iter().skip(3);
        rows.map(|row| row.split_whitespace().rev().skip(2).collect())
            .collect()
    };
    assert_eq!(without_time(&piped), without_time(&output));
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn bench_counts_every_board() {
    let server = Process::start(&[]);
    for form in ["packed", "list", "unary"] {
        let arguments = ["bench", "--connect", &server.uri, "--form", form, "--json"];
        let more = [
            "--count",
            "5000",
            "--boards-per-message",
            "300",
            "--streams",
            "2",
        ];
        let output = loyd(&with(&arguments, &more), b"");
        assert_eq!(output.status.code(), Some(0), "{form}");
        let report: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
        assert_eq!(report["boards"], 5_000, "{form}");
        assert_eq!(report["errors"], 0, "{form}");
        assert!(report["seconds"].as_f64().unwrap() > 0.0);
        for quantile in ["p50", "p90", "p99", "p999", "max"] {
            assert!(
                report["latency_us"][quantile].as_u64().unwrap() > 0,
                "{form} {quantile}"
            );
        }
    }
    let timed = ["bench", "--connect", &server.uri, "--duration", "200ms"];
    let output = loyd(&timed, b"");
    assert!(stdout(&output).contains("boards/s"), "{}", stdout(&output));
}

/// What is refused comes back at once: counted as boards, it would make an
/// overloaded server look fast.
#[test]
fn bench_counts_what_is_refused_apart() {
    let server = Process::start(&["--queued-work", "1ms", "--compute-threads", "1"]);
    let output = loyd(
        &[
            "bench",
            "--connect",
            &server.uri,
            "--form=unary",
            "--streams=50",
            "--algorithm=bfs",
            "--count=2000",
            "--json",
        ],
        b"",
    );
    let report: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
    let [boards, errors] = ["boards", "errors"].map(|key| report[key].as_u64().unwrap());
    // Fifty callers, and room for six.
    assert!(boards > 0 && errors > 0, "{report}");
    assert_eq!(boards + errors, 2000, "{report}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_reader_that_pauses_does_not_lose_the_stream() {
    use std::io::Read;
    let server = Process::start(&[
        "--keepalive-interval",
        "500ms",
        "--keepalive-timeout",
        "500ms",
    ]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_loyd"))
        .args([
            "solve",
            "--algorithm",
            "goal-table",
            "--connect",
            &server.uri,
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let lines = 30_000;
    let writer = std::thread::spawn(move || stdin.write_all(&b"867254301\n".repeat(lines)));
    // Far longer than a ping may take, with more to write than a pipe holds.
    std::thread::sleep(std::time::Duration::from_secs(3));
    let mut answers = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut answers)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(answers.lines().count(), lines);
    writer.join().unwrap().unwrap();
}
