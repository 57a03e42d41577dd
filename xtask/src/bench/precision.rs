//! Kiln's narrow formats and onnxruntime's int8 on the same cases, through the scripts of `benches/peers/precision`.

use std::path::Path;

use anyhow::{Context, Result};

use super::peers::script;
use crate::build::release_command;
use crate::{models, step};

/// Builds the `kiln` command, writes the cases of the example models, measures, prints.
pub(crate) fn run(root: &Path, target: &Path, python: &Path, words: &[String]) -> Result<()> {
    models::run().context("`cargo xtask models` fetches the models that are measured")?;
    let kiln = release_command(root, target)?;
    let folder = target.join("peers");
    let cases = folder.join("cases");
    let mut make = script(root, python, "make_cases.py");
    make.arg(&cases).arg(models::folder(root));
    step::run("cases, and what onnxruntime answers", &mut make)?;
    let mut measure = script(root, python, "precision/main.py");
    measure
        .arg(kiln)
        .arg(&cases)
        .arg(folder.join("precision"))
        .args(words);
    step::run("narrow formats beside onnxruntime's", &mut measure)
}
