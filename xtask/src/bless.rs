//! `cargo xtask bless`: rewrites generated files that are checked in.
//!
//! The lists of public items and the table of crate edges; with `--files`, what the cases of `crates/testkit/testdata` state,
//! and with `--snapshots` the tests' snapshots too. Read the difference before committing it.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::flags::BlessOptions;
use crate::tidy::{Tree, edges, public_items};
use crate::{step, workspace};

/// Rewrites the checked-in lists.
pub(crate) fn run(options: &BlessOptions) -> Result<()> {
    let tree = Tree::load(&workspace::root())?;
    report(&edges::bless(&tree)?);
    report(&public_items::bless(&tree)?);
    if options.files {
        rewrite_cases(&tree.root)?;
    }
    if options.snapshots {
        accept_snapshots(&tree.root)?;
    }
    Ok(())
}

fn report(changed: &[String]) {
    for path in changed {
        println!("bless: {path}");
    }
}

/// The test that checks the cases rewrites them.
fn rewrite_cases(root: &Path) -> Result<()> {
    let mut command = Command::new(workspace::cargo());
    command
        .current_dir(root)
        .args(["test", "--package", "kiln-codegen-llvm", "--test", "files"])
        .env("KILN_TEST_BLESS", "1");
    step::run("test cases, rewriting what they state", &mut command)
}

/// Only cargo-insta can rewrite inline snapshots, so it is needed.
fn accept_snapshots(root: &Path) -> Result<()> {
    let version = Command::new(workspace::cargo())
        .args(["insta", "--version"])
        .output();
    if !version.is_ok_and(|output| output.status.success()) {
        bail!("accepting snapshots needs cargo-insta: `cargo install cargo-insta`, then repeat");
    }
    let mut command = Command::new(workspace::cargo());
    command
        .current_dir(root)
        .args(["insta", "test", "--accept", "--workspace"]);
    step::run("tests, accepting snapshots", &mut command)
}
