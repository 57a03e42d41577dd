//! `cargo xtask ray`: a batch job on Ray whose workers share compiled code, in an environment of its own.

use std::process::Command;

use anyhow::Result;

use crate::python::{self, Needs};
use crate::workspace::{self, Metadata};
use crate::{setup, step};

/// The engine.
pub(crate) const ENGINE: Needs<'_> = Needs {
    task: "ray",
    what: "engine",
    list: "crates/cli/ray/packages.txt",
};

/// Builds the command and runs the job twice, on one machine with two workers.
pub(crate) fn run() -> Result<()> {
    setup::run()?;
    let root = workspace::root();
    let target = Metadata::load(&root)?.target_directory;
    let python = python::python(&root, target.join("python/ray"), &ENGINE)?;
    let mut build = Command::new(workspace::cargo());
    build
        .current_dir(&root)
        .args(["build", "--package", "kiln-cli"]);
    step::run("the command", &mut build)?;
    let mut batch = Command::new(python);
    batch
        .arg(root.join("crates/cli/ray/batch.py"))
        .arg(target.join("debug/kiln"))
        .arg(target.join("python/ray-job"));
    step::run("a batch job on two workers", &mut batch)
}
