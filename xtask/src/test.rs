//! `cargo xtask test`: everything a change must pass, in one command.
//!
//! The steps run in order and stop at the first that fails; the last line counts the tests that ran. Tests of real models
//! get `KILN_MODELS`, the folder `cargo xtask models` fills; without a network they are skipped with a warning.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::step::{self, Counts};
use crate::workspace::Metadata;
use crate::{
    conformance, deny, models, outside, python, python_package, serve_clients, setup, suite_build,
    tidy, workspace,
};

/// The name prefix of tests that need the real models.
const REAL_MODEL_PREFIX: &str = "real_model_";

/// Checks everything.
pub(crate) fn run() -> Result<()> {
    setup::run()?;
    let root = workspace::root();
    let models = match models::run() {
        Ok(()) => Some(models::folder(&root)),
        Err(error) => {
            println!("warning: the example models are not here: {error:#}");
            None
        }
    };
    let mut counts = Counts::default();
    let result = steps(&root, models.as_deref(), &mut counts);
    if models.is_none() {
        println!(
            "skipped: {} real-model tests (no models/)",
            n_real_model_tests(&root)?
        );
    }
    if counts != Counts::default() {
        println!(
            "tests: {} passed, {} failed, {} skipped",
            counts.passed, counts.failed, counts.skipped
        );
    }
    result
}

fn steps(root: &Path, models: Option<&Path>, counts: &mut Counts) -> Result<()> {
    let mut format = Command::new(workspace::cargo());
    format.current_dir(root).args(["fmt", "--all", "--check"]);
    step::run("format", &mut format)?;
    step::timed("tidy", tidy::run)?;
    deny::check_offline(root)?;
    let mut clippy = suite_build::cargo(root, &["clippy", "--all-targets"]);
    step::run("lints", clippy.args(["--", "--deny", "warnings"]))?;
    let mut tests = tests(root);
    step::run_counted("tests", with_models(&mut tests, models), counts)?;
    let mut doc_tests = suite_build::cargo(root, &["test", "--doc", "--quiet"]);
    step::run_counted("documentation tests", &mut doc_tests, counts)?;
    let mut docs = suite_build::cargo(root, &["doc", "--no-deps", "--lib", "--quiet"]);
    docs.env("RUSTDOCFLAGS", "--deny warnings");
    step::run("documentation", &mut docs)?;
    sample_of_conformance(root)?;
    python_package(root)?;
    serve_clients(root)?;
    let mut mutation = suite_build::cargo(root, &["test", "--test", "mutation"]);
    mutation.args(["--features", "kiln-codegen-llvm/seeded-faults"]);
    step::run_counted("mutation tests", &mut mutation, counts)?;
    outside::run(root)
}

/// The Python package's tests; without a network, or their requirements, they are skipped with a warning.
fn python_package(root: &Path) -> Result<()> {
    let target = Metadata::load(root)?.target_directory;
    match python::python(root, target.join("python/tests"), &python_package::TESTS) {
        Ok(python) => python_package::in_place(root, &target, &python),
        Err(error) => {
            println!("warning: the Python package was not tested: {error:#}");
            Ok(())
        }
    }
}

/// A server, called by third-party clients; without a network, this is skipped with a warning.
fn serve_clients(root: &Path) -> Result<()> {
    let target = Metadata::load(root)?.target_directory;
    let clients = &serve_clients::CLIENTS;
    match python::python(root, target.join("python/serve-clients"), clients) {
        Ok(python) => serve_clients::in_place(root, &target, &python),
        Err(error) => {
            println!("warning: the server was not called with clients of others: {error:#}");
            Ok(())
        }
    }
}

/// A sample of ONNX's own test cases; without a network, it is skipped with a warning, like the real models.
fn sample_of_conformance(root: &Path) -> Result<()> {
    let target = Metadata::load(root)?.target_directory;
    match conformance::sample(root, &target) {
        Ok(sample) => step::timed("a sample of ONNX's test cases", || {
            conformance::run_sample(root, &target, sample)
        }),
        Err(error) => {
            println!("skipped: ONNX's test cases cannot be written here: {error:#}");
            Ok(())
        }
    }
}

/// nextest if it is installed, otherwise cargo's own runner.
fn tests(root: &Path) -> Command {
    let nextest = Command::new(workspace::cargo())
        .args(["nextest", "--version"])
        .output();
    if nextest.is_ok_and(|output| output.status.success()) {
        let mut command = suite_build::cargo(root, &["nextest", "run", "--no-fail-fast"]);
        command.args(["--status-level", "fail", "--hide-progress-bar"]);
        command
    } else {
        let mut command = suite_build::cargo(root, &["test", "--no-fail-fast"]);
        command.args(["--lib", "--bins", "--tests", "--examples"]);
        command
    }
}

fn with_models<'a>(command: &'a mut Command, models: Option<&Path>) -> &'a mut Command {
    if let Some(models) = models {
        command.env(models::VARIABLE, models);
    }
    command
}

fn n_real_model_tests(root: &Path) -> Result<usize> {
    let ours = |path: &PathBuf| {
        path.starts_with("crates") && path.extension().is_some_and(|end| end == "rs")
    };
    let mut n_tests = 0;
    for path in workspace::files(root)?.into_iter().filter(ours) {
        let text = std::fs::read_to_string(root.join(&path))
            .with_context(|| format!("cannot read {}", path.display()))?;
        n_tests += text.matches(&format!("fn {REAL_MODEL_PREFIX}")).count();
    }
    Ok(n_tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_model_tests_are_counted_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let tests = folder.path().join("crates/kiln/tests");
        std::fs::create_dir_all(&tests).unwrap();
        let text =
            format!("#[test]\nfn {REAL_MODEL_PREFIX}reads() {{}}\n#[test]\nfn other() {{}}\n");
        std::fs::write(tests.join("a.rs"), text).unwrap();
        assert_eq!(n_real_model_tests(folder.path()).unwrap(), 1);
    }

    #[test]
    fn models_reach_the_tests_only_when_they_are_there() {
        let folder = Path::new("models");
        let mut command = Command::new("cargo");
        with_models(&mut command, None);
        assert_eq!(command.get_envs().count(), 0);
        with_models(&mut command, Some(folder));
        assert_eq!(
            command.get_envs().next().unwrap().1,
            Some(folder.as_os_str())
        );
    }
}
