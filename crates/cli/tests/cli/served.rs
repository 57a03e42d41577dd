//! `kiln serve` as a process, with the workshop's model and a free port.

use super::support::Workshop;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;

/// A server whose model, `scaled`, is loaded.
pub(crate) struct Served {
    process: Child,
    /// The address of its HTTP front end.
    pub(crate) http: String,
}

impl Served {
    /// Starts a server with these additional options.
    pub(crate) fn start(workshop: &Workshop, options: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_kiln"))
            .current_dir(workshop.folder.path())
            .args(["serve", "model.kiln", "--name", "scaled", "--cache", "off"])
            .args(["--http", "127.0.0.1:0"])
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let http = lines.next().unwrap().unwrap();
        let mut notes = BufReader::new(process.stderr.take().unwrap()).lines();
        // It prints a line when the model is loaded.
        assert!(notes.any(|line| line.unwrap() == "ready: scaled/1"));
        // Later output is drained, so that the server never blocks on a full pipe.
        thread::spawn(move || notes.for_each(drop));
        thread::spawn(move || lines.for_each(drop));
        Self {
            process,
            http: http.strip_prefix("http ").unwrap().to_owned(),
        }
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Asks the server to exit, and waits until it has.
    pub(crate) fn end(mut self) {
        let id = self.id().to_string();
        let mut kill = Command::new("kill");
        assert!(kill.args(["-TERM", &id]).status().unwrap().success());
        assert!(self.process.wait().unwrap().success());
    }
}
