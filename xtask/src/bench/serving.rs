//! `kiln serve` beside an onnxruntime server of the same protocol, through the scripts of `benches/peers/serving`.

use std::path::Path;

use anyhow::{Context, Result};

use super::peers::script;
use crate::build::release_command;
use crate::python::{self, Needs};
use crate::workspace::Metadata;
use crate::{models, step};

/// The pinned server and clients.
pub(crate) const SERVERS: Needs<'_> = Needs {
    task: "bench",
    what: "servers and clients",
    list: "benches/peers/serving/requirements.txt",
};

/// Builds the command, installs the peer, and measures. Words are `rounds=N` and `requests=N`.
pub(super) fn run(root: &Path, words: &[String]) -> Result<()> {
    models::run().context("servers are measured with the example models")?;
    let target = Metadata::load(root)?.target_directory;
    let folder = target.join("peers").join("serving");
    let python = python::python(root, folder.join("python"), &SERVERS)?;
    let kiln = release_command(root, &target)?;
    let mut measure = script(root, &python, "serving/side_by_side.py");
    measure
        .arg(kiln)
        .arg(models::folder(root))
        .arg(folder.join("models"))
        .args(words);
    step::run("servers side by side", &mut measure)
}
