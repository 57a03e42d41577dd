//! `cargo xtask cross-check`: generated models, on Kiln and on onnxruntime.
//!
//! `testkit` writes random graphs as ONNX models with inputs, a script computes their results with onnxruntime, and the
//! program that runs ONNX's test cases compares: interpreted as imported, and compiled.

use std::process::Command;

use anyhow::{Context, Result, bail};

use super::outcome::Verdict;
use super::{CROSS_CHECK, cases, folders, run_cases};
use crate::{python, setup, step, workspace};

/// The number of models written for each requested one, since onnxruntime rejects some: kernels larger than operands and
/// similar.
const SPARE: usize = 2;

/// Compares `count` models.
pub(crate) fn run(count: usize) -> Result<()> {
    setup::run()?;
    let (root, folder) = folders("cross-check")?;
    let models = folder.join("cases").join("generated");
    if models.exists() {
        std::fs::remove_dir_all(&models).context("cannot remove the previous models")?;
    }
    std::fs::create_dir_all(&models).context("cannot create a folder for models")?;
    let mut export = Command::new(workspace::cargo());
    export
        .current_dir(&root)
        .args(["run", "--quiet", "--package", "kiln-testkit"])
        .args(["--bin", "export_models", "--"])
        .arg(&models)
        .arg((count * SPARE).to_string());
    step::run("models of random graphs", &mut export)?;
    let python = python::python(&root, folder.join("python"), &CROSS_CHECK)?;
    let mut compute = Command::new(python);
    compute
        .arg(root.join("xtask/conformance/cross_check.py"))
        .arg(&models)
        .arg(count.to_string());
    step::run("what onnxruntime gives", &mut compute)?;
    let cases = cases::read(&models)?;
    if cases.len() < count {
        bail!(
            "expected {count} models that onnxruntime runs, found {}",
            cases.len()
        );
    }
    let runs = run_cases(&root, &folder, cases)?;
    let (mut agree, mut native) = (0, 0);
    for run in &runs {
        print!("{}", run.outcome.complaint(&run.case));
        let outcome = &run.outcome;
        let passed = |verdict| verdict == Verdict::Passed;
        agree +=
            usize::from(passed(outcome.interpreted.verdict) && passed(outcome.compiled.verdict));
        native += usize::from(outcome.is_native());
    }
    println!(
        "{agree} of {} models agree with onnxruntime, interpreted and compiled; {native} without an interpreted step",
        runs.len()
    );
    if agree < runs.len() {
        bail!("{} models differ", runs.len() - agree);
    }
    Ok(())
}
