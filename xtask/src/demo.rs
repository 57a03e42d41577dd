//! `cargo xtask demo`: from a fresh clone to text read from pictures, in one command.

use std::process::Command;

use anyhow::Result;

use crate::{models, setup, step, workspace};

/// Sets up, fetches the models, then builds and runs the facade's example.
pub(crate) fn run() -> Result<()> {
    setup::run()?;
    models::run()?;
    let root = workspace::root();
    let mut command = Command::new(workspace::cargo());
    command
        .current_dir(&root)
        .args([
            "run",
            "--release",
            "--package",
            "kiln",
            "--example",
            "read_text",
            "--",
        ])
        .arg(models::folder(&root));
    step::run("read text from pictures of several widths", &mut command)
}
