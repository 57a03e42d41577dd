//! The outside crate: a program that uses Kiln as a stranger would, by path alone, outside the workspace.
//!
//! It builds with its own profile and features, so what only works inside the workspace fails here.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::step;
use crate::workspace::{self, Metadata};

/// Builds and runs the outside crate.
pub(crate) fn run(root: &Path) -> Result<()> {
    let folder = root.join("xtask/outside");
    // The same versions as everywhere else: cargo drops what the outside crate does not use.
    std::fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))
        .context("cannot lend out Cargo.lock")?;
    let target = Metadata::load(root)?.target_directory.join("outside");
    let mut command = Command::new(workspace::cargo());
    command
        .current_dir(&folder)
        .args(["run", "--quiet"])
        .env("CARGO_TARGET_DIR", target);
    step::run("a crate outside the workspace", &mut command)
}
