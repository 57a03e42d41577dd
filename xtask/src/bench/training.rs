//! Training steps of Kiln, JAX, PyTorch and `torch.compile`, through the scripts of `benches/peers/training`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::python::{self, Needs};
use crate::workspace::Metadata;
use crate::{step, suite_build};

/// The pinned frameworks.
const FRAMEWORKS: Needs<'_> = Needs {
    task: "bench",
    what: "frameworks",
    list: "benches/peers/training/requirements.txt",
};

/// The folder of the environment with them.
fn folder(target: &Path) -> PathBuf {
    target.join("peers").join("training")
}

/// The Python that has the frameworks, if they are installed: they are large, so only this installs them.
pub(super) fn installed(root: &Path) -> Result<Option<PathBuf>> {
    let target = Metadata::load(root)?.target_directory;
    python::installed(root, folder(&target), &FRAMEWORKS)
}

/// Builds the steps, installs the frameworks and runs all of them, or only the case that a word names.
pub(super) fn run(root: &Path, words: &[String]) -> Result<()> {
    let target = Metadata::load(root)?.target_directory;
    let python = python::python(root, folder(&target), &FRAMEWORKS)?;
    suite_build::build_release(root, "training_steps", &["--example", "training_steps"])?;
    let mut compare = Command::new(python);
    compare
        .arg(root.join("benches/peers/training/side_by_side.py"))
        .arg(target.join("release/examples/training_steps"))
        .args(words.iter().take(1));
    step::run("side by side", &mut compare)
}
