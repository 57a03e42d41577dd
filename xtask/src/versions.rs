//! `cargo xtask versions EARLIER`: this build and an earlier one share a cache folder, as while an upgrade is rolled out.
//!
//! In each round both commands run the same models at the same time. From the second round on neither may compile, so
//! neither evicts, overwrites or misreads what the other wrote; each must also give the bytes of its own first round, and
//! find every entry of the folder whole.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::build::release_command;
use crate::workspace::{self, Metadata};
use crate::{models, setup, step};

/// How often both run.
const ROUNDS: u32 = 4;

/// Example models, each with the shape of its input `x`.
const MODELS: [(&str, &str); 2] = [("ocr-cls", "1, 3, 48, 192"), ("ocr-rec", "1, 3, 48, 320")];

/// A built command.
struct Version {
    name: &'static str,
    command: PathBuf,
    /// What it writes, in a folder per round and model.
    outputs: PathBuf,
}

/// Builds both and runs the rounds. `earlier` is a commit, or the path of a command that is already built.
pub(crate) fn run(earlier: &str) -> Result<()> {
    setup::run()?;
    models::run()?;
    let root = workspace::root();
    let target = Metadata::load(&root)?.target_directory;
    let folder = target.join("versions");
    std::fs::create_dir_all(&folder).context("cannot make a folder for two versions")?;
    let earlier = match Path::new(earlier) {
        path if path.is_file() => path.to_owned(),
        _ => built_at(&root, &folder, earlier)?,
    };
    let current = release_command(&root, &target)?;
    let files = folder.join("files");
    if files.exists() {
        std::fs::remove_dir_all(&files).context("cannot remove what the last run wrote")?;
    }
    for (model, shape) in MODELS {
        draw(&current, shape, &files.join("inputs").join(model))?;
    }
    let versions = [("earlier", earlier), ("current", current)].map(|(name, command)| Version {
        name,
        command,
        outputs: files.join(name),
    });
    for round in 0..ROUNDS {
        let title = format!("round {} of {ROUNDS}", round + 1);
        step::timed(&title, || self::round(&root, &files, &versions, round))?;
    }
    Ok(())
}

/// Writes a random input of this shape into `folder`: the output of a graph that returns its input.
fn draw(command: &Path, shape: &str, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).context("cannot make a folder for an input")?;
    let graph = folder.join("draw.kiln");
    let text = format!("graph @draw(%x: f32[{shape}]) -> f32[{shape}] {{\n  return %x\n}}\n");
    std::fs::write(&graph, text).context("cannot write a graph")?;
    let mut draw = Command::new(command);
    draw.args(["run", "--device", "interpreter", "--out"]);
    step::run("an input", draw.arg(folder).arg(&graph))
}

/// Builds the command of a commit.
fn built_at(root: &Path, folder: &Path, commit: &str) -> Result<PathBuf> {
    let sources = folder.join("sources");
    if sources.exists() {
        let mut leave = git(root, &["worktree", "remove", "--force"]);
        step::run("the earlier sources", leave.arg(&sources))?;
    }
    let mut take = git(root, &["worktree", "add", "--force", "--detach"]);
    step::run("the earlier sources", take.arg(&sources).arg(commit))?;
    release_command(&sources, &folder.join("earlier"))
}

fn git(root: &Path, arguments: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.current_dir(root).args(arguments);
    git
}

/// Runs both versions side by side, then lets each check its own outputs and the folder.
fn round(root: &Path, files: &Path, versions: &[Version; 2], round: u32) -> Result<()> {
    let cache = files.join("cache");
    for (model, _) in MODELS {
        let input = files.join("inputs").join(model).join("x.npy");
        let model_file = models::folder(root).join(model).join("model.onnx");
        let mut running = Vec::new();
        for version in versions {
            let outputs = version.outputs_of(round, model);
            let mut command = version.command(&cache);
            command
                .arg("run")
                .arg(&model_file)
                .arg("--out")
                .arg(&outputs);
            command.arg("--input").arg(format!("x={}", input.display()));
            if round > 0 {
                command.arg("--no-compile");
            }
            running.push(command.spawn().context("cannot run a version")?);
        }
        for (version, mut child) in versions.iter().zip(running) {
            let status = child.wait().context("cannot wait for a version")?;
            let name = version.name;
            ensure!(status.success(), "{model}: the {name} version: {status}");
            let (first, outputs) = (
                version.outputs_of(0, model),
                version.outputs_of(round, model),
            );
            same_files(&first, &outputs).with_context(|| format!("{model}, {name} version"))?;
        }
    }
    for version in versions {
        let title = format!("the folder, seen by the {} version", version.name);
        step::run(&title, version.command(&cache).args(["cache", "verify"]))?;
    }
    Ok(())
}

impl Version {
    fn command(&self, cache: &Path) -> Command {
        let mut command = Command::new(&self.command);
        command.env("KILN_CACHE_DIR", cache);
        command
    }

    fn outputs_of(&self, round: u32, model: &str) -> PathBuf {
        self.outputs.join(round.to_string()).join(model)
    }
}

/// Every file of `first` is in `second`, with the same bytes.
fn same_files(first: &Path, second: &Path) -> Result<()> {
    let mut n_files = 0;
    let files =
        std::fs::read_dir(first).with_context(|| format!("cannot list {}", first.display()))?;
    for file in files {
        let path = file.context("cannot list outputs")?.path();
        let name = path.file_name().context("a file has no name")?;
        let (expected, found) = (std::fs::read(&path)?, std::fs::read(second.join(name))?);
        ensure!(expected == found, "{} differs from round 1", path.display());
        n_files += 1;
    }
    if n_files == 0 {
        bail!("no output was written");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_that_differ_or_are_missing_are_found() {
        let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let [first, same, other] = folders.each_ref().map(tempfile::TempDir::path);
        assert!(same_files(first, same).is_err());
        for (folder, bytes) in [(first, b"1"), (same, b"1"), (other, b"2")] {
            std::fs::write(folder.join("y.npy"), bytes).unwrap();
        }
        same_files(first, same).unwrap();
        assert!(same_files(first, other).is_err());
        std::fs::remove_file(same.join("y.npy")).unwrap();
        assert!(same_files(first, same).is_err());
    }
}
