//! `cargo xtask s3`: stores in a bucket of a real server (moto), with faults between it and the fleet.
//!
//! The tests are those of the daily suite, which run there against a server of their own; here `KILN_S3` names the real one.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::python::{self, Needs};
use crate::workspace::{self, Metadata};
use crate::{setup, step};

/// The server.
pub(crate) const SERVER: Needs<'_> = Needs {
    task: "s3",
    what: "server with S3's protocol",
    list: "crates/remote-store/s3/packages.txt",
};

/// The variable with the server's address, for tests.
const VARIABLE: &str = "KILN_S3";

/// Tests with a bucket: a description, the test program, and a filter for its tests.
const TESTS: [(&str, &str, &str); 2] = [
    ("entries, claims and faults", "s3", ""),
    ("fleets of the kiln command", "cli", "store::"),
];

/// Starts the server and runs the tests.
pub(crate) fn run() -> Result<()> {
    setup::run()?;
    let root = workspace::root();
    let target = Metadata::load(&root)?.target_directory;
    let python = python::python(&root, target.join("python/s3"), &SERVER)?;
    let mut serve = Command::new(python);
    let log = target.join("python/s3/server.log");
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    serve
        .arg(root.join("crates/remote-store/s3/serve.py"))
        .stderr(file);
    let server = Server::start(&mut serve)
        .with_context(|| format!("what the server said is in {}", log.display()))?;
    for (what, program, tests) in TESTS {
        let mut test = Command::new(workspace::cargo());
        test.current_dir(&root)
            // With the features of the daily suite, so that its build is reused.
            .args(["test", "--workspace", "--test", program])
            .args(["--", tests, "--nocapture"])
            .env(VARIABLE, &server.address);
        step::run(what, &mut test)?;
    }
    Ok(())
}

/// A server that ends with its standard input.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(command: &mut Command) -> Result<Self> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the server")?;
        let mut address = String::new();
        if let Some(printed) = process.stdout.take() {
            BufReader::new(printed).read_line(&mut address)?;
        }
        let address = address.trim().to_owned();
        let server = Self { process, address };
        anyhow::ensure!(!server.address.is_empty(), "the server did not start");
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
