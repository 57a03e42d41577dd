//! `cargo xtask stores`: stores in buckets of real servers (moto for S3, Azurite for Azure), with faults between them
//! and the fleet.
//!
//! The tests are those of the daily suite, where they run against their own server; here the variables of [`EMULATORS`]
//! name real ones. No emulator of Google's protocol is known that evaluates the write conditions that claims need.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::python::{self, Needs};
use crate::workspace::{self, Metadata};
use crate::{setup, step};

/// A third-party server that emulates a cloud's store.
pub(crate) struct Emulator {
    /// Its folder under `crates/remote-store`, with the script that starts it.
    folder: &'static str,
    /// The variable with its address, for tests.
    variable: &'static str,
    /// The Python packages of that script.
    pub(crate) needs: Needs<'static>,
}

/// The emulators.
pub(crate) const EMULATORS: [Emulator; 2] = [
    Emulator {
        folder: "s3",
        variable: "KILN_S3",
        needs: Needs {
            task: "stores",
            what: "server with S3's protocol",
            list: "crates/remote-store/s3/packages.txt",
        },
    },
    Emulator {
        folder: "azure",
        variable: "KILN_AZURE",
        needs: Needs {
            task: "stores",
            what: "server with Azure's protocol",
            list: "crates/remote-store/azure/packages.txt",
        },
    },
];

/// Tests with a bucket: a description, the test program, and a filter for its tests.
const TESTS: [(&str, &str, &str); 2] = [
    ("entries, claims and faults", "buckets", ""),
    ("fleets of the kiln command", "cli", "store::"),
];

/// Starts the servers and runs the tests.
pub(crate) fn run() -> Result<()> {
    setup::run()?;
    let root = workspace::root();
    let target = Metadata::load(&root)?.target_directory;
    let servers: Vec<(&str, Server)> = EMULATORS
        .iter()
        .map(|emulator| Ok((emulator.variable, emulator.start(&root, &target)?)))
        .collect::<Result<_>>()?;
    for (what, program, tests) in TESTS {
        let mut test = Command::new(workspace::cargo());
        test.current_dir(&root)
            // With the features of the daily suite, so that what that built is used.
            .args(["test", "--workspace", "--test", program])
            .args(["--", tests, "--nocapture"])
            .envs(
                servers
                    .iter()
                    .map(|(variable, server)| (variable, &server.address)),
            );
        step::run(what, &mut test)?;
    }
    Ok(())
}

impl Emulator {
    fn start(&self, root: &Path, target: &Path) -> Result<Server> {
        let environment = target.join("python").join(self.folder);
        let python = python::python(root, environment.clone(), &self.needs)?;
        let log = environment.join("server.log");
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut serve = Command::new(python);
        serve
            .arg(
                root.join("crates/remote-store")
                    .join(self.folder)
                    .join("serve.py"),
            )
            .stderr(file);
        Server::start(&mut serve)
            .with_context(|| format!("what the {} said is in {}", self.needs.what, log.display()))
    }
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
