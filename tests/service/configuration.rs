//! Options of `loyd serve`: flags, the environment and a file.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::server_life::Process;

/// A file with this text.
fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn path(file: &tempfile::NamedTempFile) -> &str {
    file.path().to_str().unwrap()
}

/// `loyd serve` with these flags and variables; it has to end by itself.
fn serve(flags: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loyd"))
        .arg("serve")
        .args(flags)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn printed(flags: &[&str], variables: &[(&str, &str)]) -> String {
    let output = serve(&[flags, &["--print-config"]].concat(), variables);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What a server says that refuses to start for its configuration.
fn refused(flags: &[&str], variables: &[(&str, &str)]) -> String {
    let output = serve(flags, variables);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{flags:?} {said}");
    assert!(output.stdout.is_empty());
    said
}

#[test]
fn a_flag_goes_before_a_variable_and_that_before_the_file() {
    let config = file("max-streams = 7\nstream-window = 7_000\nmax-header-bytes = 7000\n");
    let text = printed(
        &["--config", path(&config), "--max-streams", "9"],
        &[("LOYD_MAX_STREAMS", "8"), ("LOYD_STREAM_WINDOW", "8000")],
    );
    for line in [
        "max-streams = 9",
        "stream-window = 8000",
        "max-header-bytes = 7000",
        "max-connections = 1024",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} in {text}");
    }
}

#[test]
fn a_server_runs_by_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("loyd.sock");
    let unix = format!("unix:{}", socket.to_str().unwrap());
    let config = file(&format!(
        "listen = ['127.0.0.1:0', '{unix}']\nreflection = false\nwarm = true\ndrain-timeout = 5\n"
    ));
    let process = Process::spawn(&["--config", path(&config)], 2, Stdio::null());
    assert!(process.uris[0].starts_with("http://127.0.0.1:"));
    assert_eq!(process.uris[1], unix);
}

#[test]
fn the_file_may_be_named_by_a_variable() {
    let config = file("listen = '127.0.0.1:7'\n");
    let text = printed(&[], &[("LOYD_CONFIG", path(&config))]);
    assert!(text.contains("listen = [\"127.0.0.1:7\"]\n"), "{text}");
}

#[test]
fn lists_may_be_given_in_each_way() {
    let expected = "listen = [\"127.0.0.1:1\", \"unix:a\"]\n";
    let config = file("listen = ['127.0.0.1:1', 'unix:a']");
    for text in [
        printed(&["--listen", "127.0.0.1:1", "--listen=unix:a"], &[]),
        printed(&[], &[("LOYD_LISTEN", "127.0.0.1:1,unix:a")]),
        printed(&["--config", path(&config)], &[]),
    ] {
        assert!(text.contains(expected), "{text}");
    }
    // A list replaces the list of the file; it is not added to it.
    let text = printed(&["--config", path(&config), "--listen", "[::1]:2"], &[]);
    assert!(text.contains("listen = [\"[::1]:2\"]\n"), "{text}");
}

#[test]
fn commas_part_a_list_in_a_variable_alone() {
    let lists = [
        ("listen", "unix:a,unix:b", "unix:a", "unix:b"),
        (
            "tls-allow-client",
            "spiffe://a/b,c:d",
            "spiffe://a/b",
            "c:d",
        ),
    ];
    for (name, value, first, second) in lists {
        // What needs each other is not looked at before all is read.
        let needed = ["--tls-cert=c", "--tls-key=k", "--tls-client-ca=a"];
        let tcp = if name == "listen" {
            &[][..]
        } else {
            &needed[..]
        };
        let one = format!("{name} = [\"{value}\"]\n");
        let two = format!("{name} = [\"{first}\", \"{second}\"]\n");
        let variable = format!("LOYD_{}", name.replace('-', "_").to_uppercase());
        let flag = format!("--{name}={value}");
        let by_file = file(&format!("{name} = ['{value}']\n"));
        let flags = [&[flag.as_str()], tcp].concat();
        let from_file = [&["--config", path(&by_file)], tcp].concat();
        for (flags, variables, expected) in [
            (&flags[..], &[][..], &one),
            (&from_file, &[], &one),
            (tcp, &[(variable.as_str(), value)], &two),
            // The flag is not split for standing beside a variable.
            (&flags, &[(variable.as_str(), "unix:c,unix:d")], &one),
            // Nor is the variable for standing beside a file.
            (&from_file, &[(variable.as_str(), value)], &two),
        ] {
            let text = printed(flags, variables);
            assert!(text.contains(expected), "{expected} in {text}");
        }
    }
    // An origin has none: nothing is let in by half of what was meant.
    let origins = "https://a.test,https://b.test";
    let flags = ["--grpc-web", "--grpc-web-origin", origins];
    assert!(refused(&flags, &[]).contains("not an origin"));
    let text = printed(&["--grpc-web"], &[("LOYD_GRPC_WEB_ORIGIN", origins)]);
    assert!(
        text.contains("grpc-web-origin = [\"https://a.test\", \"https://b.test\"]\n"),
        "{text}"
    );
}

#[test]
fn what_is_printed_reads_back_as_the_same() {
    let odd = [
        "--warm",
        "--reflection=off",
        "--listen=unix:/tmp/a \"b\" 'c' \\",
        "--listen=[::1]:0",
        "--tls-cert=c",
        "--tls-key=0660",
        "--tls-client-ca=true",
        "--tls-allow-client=a",
        "--tls-allow-client=spiffe://b/c,d@e",
        "--max-deadline=1m 30s",
        "--idle-timeout=90",
        "--max-connection-age=1h",
        "--compute-threads=3",
    ];
    for flags in [&[][..], &odd] {
        let first = printed(flags, &[]);
        let config = file(&first);
        assert_eq!(printed(&["--config", path(&config)], &[]), first);
    }
}

/// The options that have a line in what is printed.
fn options() -> Vec<String> {
    let names: Vec<String> = printed(&[], &[])
        .lines()
        .filter_map(|line| line.trim_start_matches("# ").split(' ').next())
        .map(str::to_owned)
        .collect();
    assert!(names.len() > 20, "{names:?}");
    names
}

#[test]
fn every_option_can_be_set_in_every_way() {
    for name in options() {
        let variable = format!("LOYD_{}", name.replace('-', "_").to_uppercase());
        // No option takes this, but files, which need others beside them.
        let bad = "no such:thing";
        let config = file(&format!("{name} = '{bad}'\n"));
        for said in [
            refused(&[&format!("--{name}={bad}")], &[]),
            refused(&[], &[(&variable, bad)]),
            refused(&["--config", path(&config)], &[]),
        ] {
            assert!(said.contains(&format!("--{name}")), "{name}: {said}");
        }
    }
}

#[test]
fn bad_values_are_told_with_their_option_and_range() {
    for (name, value, range) in [
        ("max-frame-bytes", "16383", "16384..=16777215"),
        ("max-frame-bytes", "16777216", "16384..=16777215"),
        ("stream-window", "0", "1024..=2147483647"),
        ("max-header-bytes", "x", "invalid digit"),
        ("max-streams", "0", "1..=4294967295"),
        ("max-connections", "0", "1 to 1000000"),
        ("compute-threads", "1025", "1 to 1024"),
        ("max-list-boards", "-1", "1 to 4194304"),
        ("hello-timeout", "0", "1ms to a year"),
        ("keepalive-interval", "2y", "longer than a year"),
        ("drain-timeout", "soon", "not a time such as"),
        ("socket-mode", "0888", "0 to 0777"),
        // What `0o660` in a file comes to.
        ("socket-mode", "432", "with a leading 0"),
        ("listen", "localhost:1", "not an IP address and a port"),
        ("warm", "maybe", "on, off"),
        ("default-algorithm", "magic", "goal-table"),
        ("tls-allow-client", "a b", "not a name of a certificate"),
        ("tls-allow-client", "a.test,b.test", "write one host name"),
    ] {
        let said = refused(&[&format!("--{name}={value}")], &[]);
        for part in [&format!("--{name}"), value, range] {
            assert!(said.contains(part), "{part} in {said}");
        }
    }
}

#[test]
fn the_place_of_a_bad_value_is_told() {
    let config = file("max-frame-bytes = 5\n");
    // Even where a flag goes before it.
    let flags = ["--config", path(&config), "--max-frame-bytes", "16384"];
    let said = refused(&flags, &[]);
    assert!(said.contains(&format!("in {}: ", path(&config))), "{said}");
    let said = refused(&[], &[("LOYD_MAX_FRAME_BYTES", "5")]);
    assert!(said.contains("in LOYD_MAX_FRAME_BYTES: "), "{said}");
}

#[test]
fn a_file_that_is_no_configuration_is_refused() {
    for (text, message) in [
        ("max-stream = 1", "unknown key `max-stream`"),
        (
            "max_streams = 1",
            "unknown key `max_streams`: write `max-streams`",
        ),
        ("config = 'x'", "unknown key `config`"),
        ("print-config = true", "unknown key `print-config`"),
        ("help = true", "unknown key `help`"),
        ("max-streams = [1, 2]", "`max-streams` takes one value"),
        ("listen = []", "`listen` is an empty list"),
        ("[tls]\ncert = 'x'", "`tls` is a table"),
        ("max-streams = ", "line 1"),
    ] {
        let config = file(text);
        let said = refused(&["--config", path(&config)], &[]);
        assert!(said.contains(message), "{text}: {said}");
        assert!(said.contains(path(&config)), "{text}: {said}");
    }
    assert!(refused(&["--config", "/nowhere"], &[]).contains("in /nowhere: cannot read it"));
}

#[test]
fn options_that_need_each_other_say_so() {
    for (flags, message) in [
        (&["--tls-cert=a"][..], "--tls-cert needs --tls-key"),
        (&["--tls-key=a"], "--tls-key needs --tls-cert"),
        (&["--tls-client-ca=a"], "--tls-client-ca needs --tls-cert"),
        (
            &["--tls-cert=a", "--tls-key=b", "--listen=unix:c"],
            "--tls-cert is for TCP addresses",
        ),
        (
            &["--tls-cert=a", "--tls-key=b", "--tls-allow-client=c"],
            "--tls-allow-client needs --tls-client-ca",
        ),
        (
            &["--grpc-web-origin=*"],
            "--grpc-web-origin says nothing without --grpc-web",
        ),
    ] {
        for more in [&[][..], &["--print-config"]] {
            let said = refused(&[flags, more].concat(), &[]);
            assert!(said.contains(message), "{flags:?}: {said}");
        }
    }
}

/// Who asks for traces is told where there are none, however that is asked.
#[cfg(not(feature = "otlp"))]
#[test]
fn a_build_without_traces_says_so() {
    let url = "http://127.0.0.1:4317";
    let config = file(&format!("otlp-endpoint = '{url}'"));
    for said in [
        refused(&["--otlp-endpoint", url], &[]),
        refused(&[], &[("LOYD_OTLP_ENDPOINT", url)]),
        refused(&["--config", path(&config)], &[]),
    ] {
        assert!(said.contains("this build sends no traces"), "{said}");
    }
    assert!(!printed(&[], &[]).contains("otlp"));
    let help = serve(&["--help"], &[]).stdout;
    assert!(!String::from_utf8(help).unwrap().contains("otlp"));
}

#[test]
fn variables_that_name_no_option_are_none_of_ours() {
    // As Kubernetes sets them for a service called `loyd`.
    let text = printed(&[], &[("LOYD_PORT", "tcp://10.0.0.1:50051")]);
    assert_eq!(text, printed(&[], &[]));
}
