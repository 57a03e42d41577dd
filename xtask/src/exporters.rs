//! `cargo xtask exporters`: models as exporters write them, on Kiln and on onnxruntime.
//!
//! The scripts in `xtask/exporters` generate the models, have both compute them at eight shapes each, and print what agrees,
//! what differs and what is refused, by cause. They are the same for the same seed.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::conformance::CROSS_CHECK;
use crate::workspace::{self, Metadata};
use crate::{python, setup, step};

/// Compares `count` models, of seeds from `seed` on.
pub(crate) fn run(count: usize, seed: u64) -> Result<()> {
    setup::run()?;
    let root = workspace::root();
    let target = Metadata::load(&root)?.target_directory;
    let mut build = Command::new(workspace::cargo());
    build
        .current_dir(&root)
        .args(["build", "--quiet", "--package", "kiln-cli"]);
    step::run("the command that runs the models", &mut build)?;
    let kiln = target
        .join("debug")
        .join(format!("kiln{}", std::env::consts::EXE_SUFFIX));
    let folder = target.join("exporters");
    let models = folder.join("models");
    if models.exists() {
        std::fs::remove_dir_all(&models).context("cannot remove the models of before")?;
    }
    std::fs::create_dir_all(&models).context("cannot create a folder for models")?;
    let python = python::python(
        &root,
        target.join("cross-check").join("python"),
        &CROSS_CHECK,
    )?;
    let status = Command::new(python)
        .arg(root.join("xtask/exporters/compare.py"))
        .arg(kiln)
        .arg(&models)
        .arg(count.to_string())
        .arg(seed.to_string())
        .status()
        .context("cannot start the comparison")?;
    if !status.success() {
        bail!(
            "models differ or are refused; each has a report.txt in {}",
            models.display()
        );
    }
    Ok(())
}
