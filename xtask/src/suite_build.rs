//! The builds that tasks share: one of `cargo xtask test`, and an optimised one of the benches.
//!
//! Cargo chooses the features of dependencies for the packages that it is asked for: after a build of the workspace's
//! tests, `cargo build --package …` compiles most crates a second time. The steps therefore ask for the whole workspace,
//! with the same features, and select what they need by target.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::workspace;
use crate::{models, step};

/// Features that some tests need and that the command does not have by default.
const FEATURES: &str = "kiln-cli/opentelemetry";

/// Any test target of the workspace: with one, cargo includes the features of development dependencies.
const ANY_TEST: [&str; 2] = ["--test", "cli"];

/// An example, which has the same effect, and which takes less time to build.
const ANY_EXAMPLE: [&str; 2] = ["--example", "training_steps"];

/// `cargo SUBCOMMAND` for the whole workspace.
pub(crate) fn cargo(root: &Path, subcommand: &[&str]) -> Command {
    let mut command = Command::new(workspace::cargo());
    command
        .current_dir(root)
        .env_remove(models::VARIABLE)
        .args(subcommand)
        .args(["--workspace", "--features", FEATURES]);
    command
}

/// Builds libraries or programs as the tests have them: `targets` selects them, like `["--bin", "kiln"]`.
///
/// # Errors
/// When they cannot be built.
pub(crate) fn build(root: &Path, title: &str, targets: &[&str]) -> Result<()> {
    let mut command = cargo(root, &["build"]);
    step::run(title, command.args(targets).args(ANY_TEST))
}

/// Builds libraries or programs in release, as the benches have them: `targets` selects them, like
/// `["--example", "training_steps"]`.
///
/// # Errors
/// When they cannot be built.
pub(crate) fn build_release(root: &Path, title: &str, targets: &[&str]) -> Result<()> {
    let mut command = cargo(root, &["build", "--release"]);
    step::run(title, command.args(targets).args(ANY_EXAMPLE))
}
