//! The outside crate: a program that uses Kiln like an outside user, by path only, outside the workspace.
//!
//! It builds with its own profile and features, so code that works only inside the workspace fails here; once with Kiln's
//! default features, which makes a bundle and fills a cache; once with the features that run their code, and once without
//! any feature, when nothing of LLVM may be needed. The command must not need it either when it is built without its
//! feature `llvm`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::step;
use crate::workspace::{self, Metadata};

/// Builds and runs the outside crate.
pub(crate) fn run(root: &Path) -> Result<()> {
    let folder = root.join("xtask/outside");
    // The same versions as everywhere else: cargo drops those that the outside crate does not use.
    std::fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))
        .context("cannot lend out Cargo.lock")?;
    let target = Metadata::load(root)?.target_directory;
    let files = target.join("outside");
    std::fs::create_dir_all(&files).context("cannot make a folder for what it writes")?;
    let bundle = files.join("outside.kiln-bundle");
    let cache = files.join("outside-cache");
    let run = |title: &str, features: &[&str]| {
        let mut command = Command::new(workspace::cargo());
        command
            .current_dir(&folder)
            .args(["run", "--quiet"])
            .args(features)
            .arg("--")
            .arg(&bundle)
            .arg(&cache)
            // Libraries that are the same are not built again.
            .env("CARGO_TARGET_DIR", &target)
            // It is run once and never debugged, so it takes less disk.
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .env("CARGO_INCREMENTAL", "0");
        step::run(title, &mut command)
    };
    run("a crate outside the workspace", &[])?;
    run("its code without LLVM", RUNS_CODE)?;
    run("the same without any feature of Kiln", NOTHING)?;
    without_llvm(&folder, RUNS_CODE)?;
    without_llvm(&folder, NOTHING)?;
    without_llvm(root, COMMAND)
}

/// No feature of Kiln.
const NOTHING: &[&str] = &["--no-default-features"];

/// Features only for running the code of bundles and stores.
const RUNS_CODE: &[&str] = &["--no-default-features", "--features", "native"];

/// The command without a compiler.
const COMMAND: &[&str] = &[
    "--package",
    "kiln-cli",
    "--no-default-features",
    "--features",
    "native,onnx,serve",
];

/// No crate of a build with these features links LLVM.
fn without_llvm(folder: &Path, features: &[&str]) -> Result<()> {
    let output = Command::new(workspace::cargo())
        .current_dir(folder)
        .arg("tree")
        .args(features)
        .args(["--prefix", "none", "--edges", "normal,build"])
        .output()
        .context("cannot run cargo tree")?;
    let tree = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    }
    match llvm_crate(&tree) {
        Some(name) => bail!("a build with {} depends on {name}", features.join(" ")),
        None => Ok(()),
    }
}

/// A crate of a tree, one per line, that links LLVM.
fn llvm_crate(tree: &str) -> Option<&str> {
    let names = tree
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let links = |name: &&str| ["inkwell", "llvm-sys", "kiln-codegen-llvm"].contains(name);
    names.into_iter().find(links)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_that_link_llvm_are_found_by_name() {
        let tree = "kiln v0.1.0\nserde v1.0.0\n";
        assert_eq!(llvm_crate(tree), None);
        let tree = format!("{tree}inkwell v0.11.0\n");
        assert_eq!(llvm_crate(&tree), Some("inkwell"));
    }
}
