//! A server process: it prints its addresses, responds to requests, and exits when asked to.

use super::support::Workshop;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

/// The raw response to a request.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_server_answers_until_it_is_asked_to_end() {
    let workshop = Workshop::new();
    let mut server = Command::new(env!("CARGO_BIN_EXE_kiln"))
        .current_dir(workshop.folder.path())
        .args(["serve", "model.kiln", "--name", "scaled", "--cache", "off"])
        .args([
            "--device",
            "interpreter",
            "--http",
            "127.0.0.1:0",
            "--grpc",
            "127.0.0.1:0",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let http = lines.next().unwrap().unwrap();
    let http = http.strip_prefix("http ").unwrap();
    assert!(
        lines
            .next()
            .unwrap()
            .unwrap()
            .starts_with("grpc 127.0.0.1:")
    );
    // It prints a line when the model is loaded.
    let mut notes = BufReader::new(server.stderr.take().unwrap()).lines();
    let ready = notes.find(|line| line.as_ref().unwrap().starts_with("ready: "));
    assert_eq!(ready.unwrap().unwrap(), "ready: scaled/1");
    assert!(get(http, "/v2/models/scaled").contains(r#""shape":[-1,3]"#));
    let id = server.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &id])
            .status()
            .unwrap()
            .success()
    );
    assert!(server.wait().unwrap().success());
    assert!(TcpStream::connect(http).is_err());
}

#[test]
fn what_cannot_be_served_is_an_error_with_its_code() {
    let workshop = Workshop::new();
    for (arguments, part) in [
        (
            &["serve", "nothing", "--http", "off", "--grpc", "off"][..],
            "error[E1530]: ",
        ),
        (&["serve", "model.kiln", "--name", "a b"], "error[E1530]: "),
        (&["serve", ".", "--name", "a"], "folder of models"),
        (&["serve", "model.kiln", "--trust-bundle"], "--bundle-key"),
        (
            &["serve", "model.kiln", "--token", "nothing"],
            "error[E1532]: ",
        ),
        (&["serve", "model.kiln", "--http", "8000"], "ADDRESS:PORT"),
    ] {
        let output = workshop.kiln(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        let notes = String::from_utf8_lossy(&output.stderr);
        assert!(notes.contains(part), "{arguments:?}: {notes}");
    }
}
