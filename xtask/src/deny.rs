//! `cargo xtask deny`: dependencies against `deny.toml`, by cargo-deny: licences, bans, sources, and known advisories.
//!
//! Advisories are in a database that is fetched; if that is impossible they are skipped with a warning, and everything else
//! is checked.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::Metadata;
use crate::{step, workspace};

/// The version of cargo-deny that is installed if there is none.
const CARGO_DENY: &str = "0.20.2";

/// The checks without the database of advisories.
const OFFLINE: [&str; 4] = ["check", "licenses", "bans", "sources"];

/// Workspaces separate from the project's.
const WORKSPACES: [&str; 2] = ["Cargo.toml", "fuzz/Cargo.toml"];

/// Checks everything.
pub(crate) fn run() -> Result<()> {
    let root = workspace::root();
    if !is_here() {
        let mut command = Command::new(workspace::cargo());
        command.args(["install", "cargo-deny", "--version", CARGO_DENY, "--locked"]);
        step::run("installing cargo-deny", &mut command)?;
    }
    check(&root)?;
    // A failed fetch is distinguished from a finding by trying only the fetch.
    if !cargo_deny(&root, &["fetch", "db"]).status()?.success() {
        println!(
            "SKIPPED: advisories: their database cannot be fetched here; run `cargo xtask deny` with a network"
        );
        return Ok(());
    }
    let known = ["check", "--disable-fetch", "advisories"];
    of_each_workspace(&root, "advisories", &known)
}

/// The checks that need no network, of the packages that this machine builds, if cargo-deny is installed; otherwise prints
/// how to install it.
pub(crate) fn check_offline(root: &Path) -> Result<()> {
    if !is_here() {
        println!(
            "skipped: bans and sources of dependencies (no cargo-deny); `cargo xtask deny` installs it"
        );
        return Ok(());
    }
    // cargo-deny would request the packages of all platforms, which are unavailable without a network.
    let text = workspace::metadata_text(root)?;
    let target = Metadata::read(&text)?.target_directory;
    let metadata = target.join("metadata.json");
    std::fs::write(&metadata, text)
        .with_context(|| format!("cannot write {}", metadata.display()))?;
    let mut command = cargo_deny(root, &["--offline", "--metadata-path"]);
    command.arg(metadata).args(OFFLINE);
    step::run("bans and sources of dependencies", &mut command)
}

fn check(root: &Path) -> Result<()> {
    of_each_workspace(root, "licences, bans and sources of dependencies", &OFFLINE)
}

fn of_each_workspace(root: &Path, what: &str, arguments: &[&str]) -> Result<()> {
    let mut failed = Vec::new();
    for manifest in WORKSPACES {
        let mut arguments = arguments.to_vec();
        arguments.splice(0..0, ["--manifest-path", manifest]);
        let title = format!("{what} ({manifest})");
        if let Err(error) = step::run(&title, &mut cargo_deny(root, &arguments)) {
            println!("deny: {error:#}");
            failed.push(title);
        }
    }
    if !failed.is_empty() {
        let failed = failed.join("; ");
        bail!("{failed}: what to do is in SECURITY.md, under Dependencies");
    }
    Ok(())
}

fn cargo_deny(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(workspace::cargo());
    command
        .current_dir(root)
        .args(["deny", "--workspace", "--all-features"])
        .args(arguments);
    command
}

fn is_here() -> bool {
    let version = Command::new(workspace::cargo())
        .args(["deny", "--version"])
        .output();
    version.is_ok_and(|output| output.status.success())
}
