//! `cargo xtask exporters`: models as exporters write them, on Kiln and on onnxruntime.
//!
//! The scripts in `xtask/exporters` generate the models, or have torch export its modules; both compute them at eight
//! shapes each, and agreements, differences and rejections are printed, by cause. Generated models are the same for the
//! same seed. With `--quantize` models that the command quantised are compared, to what they were and to Kiln. Kiln's side is the program of `xtask/conformance`, kept running from model to model.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::conformance::{self, CROSS_CHECK};
use crate::python::Needs;
use crate::workspace::{self, Metadata};
use crate::{python, setup, suite_build};

/// The packages with which torch's modules are exported.
pub(crate) const TORCH: Needs<'_> = Needs {
    task: "exporters",
    what: "packages of torch",
    list: "xtask/exporters/torch.txt",
};

/// The models that are compared.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Models {
    /// Generated ones.
    Generated {
        /// The number of models.
        count: usize,
        /// The seed of the first.
        seed: u64,
    },
    /// Modules of torch, each through both of its exporters.
    Torch,
    /// Models that `kiln quantize` wrote.
    Quantized,
}

/// The number of models that are quantised, in every format.
const QUANTIZED: usize = 12;

/// Compares the models.
pub(crate) fn run(models: &Models) -> Result<()> {
    setup::run()?;
    let root = workspace::root();
    let target = Metadata::load(&root)?.target_directory;
    let program = conformance::program(&root)?;
    let folder = emptied(target.join("exporters").join("models"))?;
    let scripts = root.join("xtask/exporters");
    let (environment, needs, what) = match models {
        Models::Generated { count, seed } => {
            let what = vec![count.to_string(), seed.to_string()];
            (target.join("cross-check"), &CROSS_CHECK, what)
        }
        Models::Torch => (target.join("exporters"), &TORCH, vec!["torch".to_owned()]),
        Models::Quantized => {
            let kiln = command(&root, &target)?;
            let what = vec![kiln.display().to_string(), QUANTIZED.to_string()];
            (target.join("cross-check"), &CROSS_CHECK, what)
        }
    };
    let script = match models {
        Models::Quantized => "quantize.py",
        Models::Generated { .. } | Models::Torch => "compare.py",
    };
    let python = python::python(&root, environment.join("python"), needs)?;
    let status = Command::new(python)
        .arg(scripts.join(script))
        .arg(program)
        .arg(&folder)
        .args(what)
        .status()
        .context("cannot start the comparison")?;
    if !status.success() {
        bail!(
            "models differ or are refused; each has a report.txt in {}",
            folder.display()
        );
    }
    Ok(())
}

/// Builds the command.
fn command(root: &Path, target: &Path) -> Result<PathBuf> {
    suite_build::build(root, "the command", &["--bin", "kiln"])?;
    let name = format!("kiln{}", std::env::consts::EXE_SUFFIX);
    Ok(target.join("debug").join(name))
}

/// An empty folder.
fn emptied(folder: PathBuf) -> Result<PathBuf> {
    if folder.exists() {
        std::fs::remove_dir_all(&folder).context("cannot remove the previous models")?;
    }
    std::fs::create_dir_all(&folder).context("cannot create a folder for models")?;
    Ok(folder)
}
