//! Commands with `--connect` where no server of ours is, or none as asked for,
//! and commands whose output can't be written.

use crate::certificates::{Authority, Files};
use crate::command_line::loyd;
use crate::server_life::Process;

/// What each command that connects says, with its exit code.
fn each_command(options: &[&str]) -> Vec<(&'static str, Option<i32>, String)> {
    let commands: [(&str, &[&str]); 5] = [
        ("solve", &["solve", "1 2 3 x 4 6 7 5 8"]),
        ("health", &["health"]),
        (
            "bench of unary calls",
            &["bench", "--form=unary", "--count=10"],
        ),
        ("bench of packed boards", &["bench", "--count=10"]),
        ("bench of lists", &["bench", "--form=list", "--count=10"]),
    ];
    commands
        .into_iter()
        .map(|(name, command)| {
            let output = loyd(&[command, options].concat(), b"");
            assert!(output.stdout.is_empty(), "{name}: {output:?}");
            let said = String::from_utf8(output.stderr).unwrap();
            (name, output.status.code(), said)
        })
        .collect()
}

#[test]
fn tls_where_there_is_none_and_none_where_there_is_are_exit_code_69() {
    let authority = Authority::new();
    let files = Files::new(&authority.server());
    files.write("ca.pem", &authority.pem);
    let ca = files.text("ca.pem");
    let (cert, key) = (files.text("cert.pem"), files.text("key.pem"));
    let plain = Process::start(&[]);
    let secured = Process::start(&["--tls-cert", &cert, "--tls-key", &key]);
    // A client without a certificate hears of that only after the handshake.
    let mutual = Process::start(&[
        "--tls-cert",
        &cert,
        "--tls-key",
        &key,
        "--tls-client-ca",
        &ca,
    ]);
    let https = plain.uri.replace("http://", "https://");
    let http = secured.uri.replace("https://", "http://");
    for (options, hint) in [
        (&["--connect", &http][..], "at https://HOST:PORT"),
        (&["--connect", &https, "--tls-ca", &ca], ""),
        (&["--connect", &mutual.uri, "--tls-ca", &ca], ""),
    ] {
        for (name, code, said) in each_command(options) {
            assert_eq!(code, Some(69), "{name} {options:?}: {said}");
            assert!(said.contains(options[1]), "{name} {options:?}: {said}");
            assert!(said.contains(hint), "{name} {options:?}: {said}");
        }
    }
}

#[test]
fn files_that_hold_nothing_are_told_before_anything_is_asked() {
    let authority = Authority::new();
    let files = Files::new(&authority.server());
    files.write("ca.pem", &authority.pem);
    files.write("empty.pem", "");
    let (ca, empty) = (files.text("ca.pem"), files.text("empty.pem"));
    let (cert, key) = (files.text("cert.pem"), files.text("key.pem"));
    for (options, message) in [
        (&["--tls-ca", &empty][..], "holds no certificate"),
        (&["--tls-ca", &key], "holds no certificate"),
        (
            &["--tls-ca", &ca, "--tls-cert", &empty, "--tls-key", &key],
            "holds no certificate",
        ),
        (
            &["--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &empty],
            "holds no private key",
        ),
    ] {
        // Nobody listens there, which would be exit code 69.
        let options = [&["--connect", "https://127.0.0.1:1"], options].concat();
        for (name, code, said) in each_command(&options) {
            assert_eq!(code, Some(2), "{name} {options:?}: {said}");
            assert!(said.contains(message), "{name} {options:?}: {said}");
        }
    }
}

#[test]
fn an_address_with_a_path_is_refused() {
    let server = Process::start(&[]);
    for more in ["/api", "/?a=b", "//", "/v1/"] {
        let uri = format!("{}{more}", server.uri);
        for (name, code, said) in each_command(&["--connect", &uri]) {
            assert_eq!(code, Some(2), "{name} {uri}: {said}");
            assert!(
                said.contains(&uri) && said.contains("without a path"),
                "{said}"
            );
        }
    }
    let bare = format!("{}/", server.uri);
    let output = loyd(&["health", "--connect", &bare], b"");
    assert_eq!(output.status.code(), Some(0));
}

// Linux has a file that is always full.
#[cfg(target_os = "linux")]
#[test]
fn output_that_cant_be_written_is_exit_code_70() {
    use std::fs::File;
    use std::process::{Command, Stdio};

    let server = Process::start(&[]);
    let connect = ["--connect", &server.uri];
    let commands: [(&[&str], &str); 5] = [
        (&["serve", "--print-config"], "cannot write the options"),
        (&["health"], "cannot write the health"),
        (&["solve", "1 2 3 x 4 6 7 5 8"], "cannot write the answers"),
        (&["compare", "1 2 3 x 4 6 7 5 8"], "cannot write the table"),
        (&["bench", "--count=10"], "cannot write the result"),
    ];
    for (command, message) in commands {
        let takes_server = matches!(command[0], "health" | "bench");
        let output = Command::new(env!("CARGO_BIN_EXE_loyd"))
            .args(command)
            .args(if takes_server { &connect[..] } else { &[] })
            .stdin(Stdio::null())
            .stdout(File::options().write(true).open("/dev/full").unwrap())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(70), "{command:?}: {said}");
        assert!(said.contains(message), "{command:?}: {said}");
    }
}
