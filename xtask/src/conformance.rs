//! `cargo xtask conformance`: ONNX's own test cases on the interpreter and as native code.
//!
//! `cases` writes them from the pinned package, in a separate Python environment; `worker` runs them, each under a time
//! limit, in the program of `xtask/conformance`; `table` counts; `baseline` knows what passed before, so that no regression
//! goes unnoticed.

mod baseline;
mod cases;
mod cross_check;
mod outcome;
mod table;
mod worker;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::flags::ConformanceOptions;
use crate::python::Needs;
use crate::workspace::{self, Metadata};
use crate::{setup, suite_build};

pub(crate) use cases::Case;
pub(crate) use cross_check::run as cross_check;
use outcome::Outcome;

/// The package from which the cases are generated.
pub(crate) const PACKAGES: Needs<'_> = Needs {
    task: "conformance",
    what: "packages of ONNX",
    list: "xtask/conformance/requirements.txt",
};

/// The packages with which generated models are compared.
pub(crate) const CROSS_CHECK: Needs<'_> = Needs {
    task: "cross-check",
    what: "packages of onnxruntime",
    list: "xtask/conformance/cross_check.txt",
};

/// One out of this many cases is in the sample.
const SAMPLE: usize = 12;

/// A case, and its outcome.
pub(crate) struct Run {
    case: Case,
    outcome: Outcome,
}

/// Runs the cases, prints the table, and compares with the baseline.
pub(crate) fn run(options: &ConformanceOptions) -> Result<()> {
    setup::run()?;
    let (root, folder) = folders("conformance")?;
    let mut cases = cases::all(&root, &folder)?;
    if !options.words.is_empty() {
        let is_wanted = |case: &Case| options.words.iter().any(|word| case.name.contains(word));
        cases.retain(is_wanted);
    }
    let runs = run_cases(&root, &folder, cases)?;
    for run in &runs {
        print!("{}", run.outcome.complaint(&run.case));
    }
    print!("\n{}", table::text(&runs));
    if options.bless {
        if !options.words.is_empty() {
            bail!("--bless writes the lists of all cases; leave the words out");
        }
        return baseline::bless(&root, &runs);
    }
    let lost = baseline::lost(&root, &runs)?;
    println!("{}", table::totals(&runs));
    report(&lost)
}

/// Some of the cases, spread over all of them.
///
/// # Errors
/// When they cannot be written, for example without a network.
pub(crate) fn sample(root: &Path, target: &Path) -> Result<Vec<Case>> {
    let cases = cases::all(root, &target.join("conformance"))?;
    Ok(cases.into_iter().step_by(SAMPLE).collect())
}

/// Runs a sample and compares with the baseline.
pub(crate) fn run_sample(root: &Path, target: &Path, sample: Vec<Case>) -> Result<()> {
    let folder = target.join("conformance");
    let runs = run_cases(root, &folder, sample)?;
    report(&baseline::lost(root, &runs)?)
}

/// The project's root, and a folder of this name in the target folder.
fn folders(name: &str) -> Result<(PathBuf, PathBuf)> {
    let root = workspace::root();
    let target = Metadata::load(&root)?.target_directory;
    Ok((root, target.join(name)))
}

fn run_cases(root: &Path, folder: &Path, cases: Vec<Case>) -> Result<Vec<Run>> {
    worker::run(&program(root)?, folder, cases)
}

/// Builds the program that runs cases and calls models.
pub(crate) fn program(root: &Path) -> Result<PathBuf> {
    let title = "the program that runs the cases";
    suite_build::build(root, title, &["--bin", "kiln-conformance"])?;
    let target = Metadata::load(root)?.target_directory;
    let name = format!("kiln-conformance{}", std::env::consts::EXE_SUFFIX);
    Ok(target.join("debug").join(name))
}

fn report(lost: &[String]) -> Result<()> {
    if lost.is_empty() {
        return Ok(());
    }
    for line in lost {
        println!("lost: {line}");
    }
    bail!(
        "{} cases passed before and no longer do; where that is meant, `cargo xtask conformance --bless`",
        lost.len()
    )
}
