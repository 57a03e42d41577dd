//! `cargo xtask serve-clients`: `kiln serve`, called with tritonclient over HTTP and gRPC, in an environment of its own.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::python::{self, Needs};
use crate::workspace::{self, Metadata};
use crate::{setup, step, suite_build};

/// The clients, and the packages that test them.
pub(crate) const CLIENTS: Needs<'_> = Needs {
    task: "serve-clients",
    what: "clients of servers",
    list: "crates/serve/clients/packages.txt",
};

/// Builds the command and calls it.
pub(crate) fn run() -> Result<()> {
    setup::run()?;
    let root = workspace::root();
    let target = Metadata::load(&root)?.target_directory;
    let python = python::python(&root, target.join("python/serve-clients"), &CLIENTS)?;
    in_place(&root, &target, &python)
}

/// Calls the command of the development build.
pub(crate) fn in_place(root: &Path, target: &Path, python: &Path) -> Result<()> {
    suite_build::build(root, "the command", &["--bin", "kiln"])?;
    let mut tests = Command::new(python);
    tests
        .args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"])
        .arg(root.join("crates/serve/clients"))
        .env("KILN", target.join("debug/kiln"));
    step::run("a server and clients of others", &mut tests)
}
