//! `cargo xtask soak`: random models and shapes for a long time, then compile workers that are killed a thousand times in
//! each way, watched for growth.
//!
//! With `--serve` instead a server under mixed traffic, and the kernel service. These are tests; short forms of them are part of
//! the daily ones.

use std::process::Command;

use anyhow::Result;

use crate::{setup, step, workspace};

/// The number of workers killed by each fault.
const LOST_WORKERS: u32 = 1000;

/// Runs it for `minutes` minutes.
pub(crate) fn run(minutes: u32) -> Result<()> {
    setup::run()?;
    let mut command = Command::new(workspace::cargo());
    command
        .current_dir(workspace::root())
        .args(["test", "--package", "kiln", "--test", "soak", "--"])
        .args(["a_long_soak", "--ignored", "--nocapture"])
        .env("KILN_SOAK_MINUTES", minutes.to_string());
    step::run("random models and shapes", &mut command)?;
    let mut command = Command::new(workspace::cargo());
    command
        .current_dir(workspace::root())
        .args([
            "test",
            "--package",
            "kiln-compile-worker",
            "--test",
            "worker",
            "--",
        ])
        .args(["--test-threads", "1", "faults::"])
        .env("KILN_WORKER_ROUNDS", LOST_WORKERS.to_string());
    step::run("compile workers that are lost", &mut command)
}

/// The server and the kernel service, for `minutes` minutes each.
pub(crate) fn serve(minutes: u32) -> Result<()> {
    setup::run()?;
    for (what, program, test) in [
        (
            "a server under mixed traffic",
            "cli",
            "a_long_soak_of_a_server",
        ),
        (
            "the kernel service",
            "service_soak",
            "a_long_soak_of_the_service",
        ),
    ] {
        let mut command = Command::new(workspace::cargo());
        command
            .current_dir(workspace::root())
            .args(["test", "--workspace", "--test", program, "--"])
            .args([test, "--ignored", "--nocapture"])
            .env("KILN_SOAK_MINUTES", minutes.to_string());
        step::run(what, &mut command)?;
    }
    Ok(())
}
