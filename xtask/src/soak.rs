//! `cargo xtask soak`: random models and shapes for a long time, watched for growth.
//!
//! What runs is a test of the facade; a short form of it is among the tests of every day.

use std::process::Command;

use anyhow::Result;

use crate::{setup, step, workspace};

/// Runs it for so many minutes.
pub(crate) fn run(minutes: u32) -> Result<()> {
    setup::run()?;
    let mut command = Command::new(workspace::cargo());
    command
        .current_dir(workspace::root())
        .args(["test", "--package", "kiln", "--test", "soak", "--"])
        .args(["a_long_soak", "--ignored", "--nocapture"])
        .env("KILN_SOAK_MINUTES", minutes.to_string());
    step::run("random models and shapes", &mut command)
}
