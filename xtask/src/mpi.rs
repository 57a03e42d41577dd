//! `cargo xtask mpi`: data-parallel training of ranks that are processes, on this machine.

use std::process::Command;

use anyhow::Result;

use crate::{setup, step, workspace};

/// Installs an implementation of MPI and runs the tests that need one.
pub(crate) fn run() -> Result<()> {
    setup::run()?;
    setup::mpi()?;
    let mut command = Command::new(workspace::cargo());
    command.current_dir(workspace::root()).args([
        "test",
        "--package",
        "kiln-train",
        "--features",
        "mpi",
        "--test",
        "mpi",
    ]);
    step::run("two ranks", &mut command)
}
