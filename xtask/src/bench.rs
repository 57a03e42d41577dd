//! `cargo xtask bench`: the performance targets, measured on this machine.
//!
//! The tables of the bench targets in release; with `--peers` also Kiln next to onnxruntime and OpenVINO (`peers`), and
//! from that the table of the README (`readme`); with `--ops` only single operators next to the same peers (`operators`);
//! with `--train` only training steps next to other frameworks (`training`); with `--torch` only the backend for
//! `torch.compile` next to another; with `--eager` only compiled functions next to eager ones; with `--large` only the
//! stages of large graphs; with `--service` only the kernel service; with `--serve` only the server beside another; with
//! `--decode` only decoding; with `--precision` only narrow formats next to onnxruntime's int8.
//! The peers are in a separate Python environment. Not here: any judgement; a missed target is printed, and is not an
//! error, unless `--check` asks for a comparison.

mod operators;
mod peers;
mod precision;
mod readme;
pub(crate) mod serving;
mod training;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::flags::BenchOptions;
use crate::python::{self, Needs};
use crate::workspace::{self, Metadata};
use crate::{models, python_package, setup, step, suite_build};

/// The pinned peers.
pub(crate) const PEERS: Needs<'_> = Needs {
    task: "bench",
    what: "peers",
    list: "benches/peers/requirements.txt",
};
/// Bench targets that print tables.
const TARGETS: [&str; 3] = ["launch", "native_code", "products"];
/// The variable with the Python that has numpy, for benches.
const PYTHON_VARIABLE: &str = "KILN_PEERS_PYTHON";
/// The variable with the Python that has PyTorch, for the bench of the service.
const TORCH_VARIABLE: &str = "KILN_TORCH_PYTHON";

/// Measures.
pub(crate) fn run(options: &BenchOptions) -> Result<()> {
    setup::run()?;
    let root = workspace::root();
    if options.service {
        let mut service = service(&root, &options.words);
        if let Some(python) = training::installed(&root)? {
            service.env(TORCH_VARIABLE, python);
        }
        return step::run("service", &mut service);
    }
    if options.serve {
        return serving::run(&root, &options.words);
    }
    if options.decode {
        return step::run("decode", &mut bench(&root, "decode", &options.words, None));
    }
    if options.ops {
        let target = Metadata::load(&root)?.target_directory;
        let python = python::python(&root, target.join("peers").join("python"), &PEERS)?;
        return operators::run(&root, &target, &python, options);
    }
    if options.precision {
        let target = Metadata::load(&root)?.target_directory;
        let python = python::python(&root, target.join("peers").join("python"), &PEERS)?;
        return precision::run(&root, &target, &python, &options.words);
    }
    if options.train {
        return training::run(&root, &options.words);
    }
    if options.torch {
        return python_package::bench_torch(&root, &options.words);
    }
    if options.large {
        return large(&root, &options.words);
    }
    if options.eager {
        return eager(&root, &options.words);
    }
    let here = models::run();
    let mut python = None;
    let target = Metadata::load(&root)?.target_directory;
    if options.peers {
        here.context(
            "the peers are measured on the example models; `cargo xtask models` fetches them",
        )?;
        let folder = target.join("peers").join("python");
        python = Some(python::python(&root, folder, &PEERS)?);
    } else if let Err(error) = here {
        println!("warning: rows of the example models are left out: {error:#}");
    }
    for name in TARGETS {
        let mut command = bench(&root, name, &options.words, python.as_deref());
        step::run(name, &mut command)?;
    }
    match python {
        Some(python) => peers::run(&root, &target, &python, &options.words),
        None => Ok(()),
    }
}

/// Compiled functions compared with eager ones, on one thread.
fn eager(root: &Path, words: &[String]) -> Result<()> {
    let mut command = example(root, "eager_baseline")?;
    command.arg("1").args(words.iter().take(1));
    step::run("compiled and eager", &mut command)
}

/// The stages of large graphs.
fn large(root: &Path, words: &[String]) -> Result<()> {
    let mut command = example(root, "large_graphs")?;
    command.args(words.iter().take(1));
    step::run("stages of large graphs", &mut command)
}

/// An example, built in release.
fn example(root: &Path, name: &str) -> Result<Command> {
    suite_build::build_release(root, name, &["--example", name])?;
    let target = Metadata::load(root)?.target_directory;
    let mut command = Command::new(target.join("release/examples").join(name));
    command.current_dir(root);
    Ok(command)
}

/// The numbers of the kernel service, a line each.
fn service(root: &Path, words: &[String]) -> Command {
    let mut command = suite_build::cargo(root, &["bench", "--bench", "service"]);
    command.arg("--").args(words);
    command
}

fn bench(root: &Path, name: &str, words: &[String], python: Option<&Path>) -> Command {
    let mut command = suite_build::cargo(root, &["bench", "--bench", name]);
    command
        .arg("--")
        .args(words)
        .env(models::VARIABLE, models::folder(root));
    if let Some(python) = python {
        command.env(PYTHON_VARIABLE, python);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bench_words_are_passed_on_if_there_are_any() {
        let root = Path::new("project");
        let words = ["softmax".to_owned()];
        let command = bench(root, "products", &words, None);
        let arguments: Vec<_> = command.get_args().collect();
        assert_eq!(&arguments[..3], ["bench", "--bench", "products"]);
        assert_eq!(&arguments[arguments.len() - 2..], ["--", "softmax"]);
        let variables = |python| {
            let command = bench(root, "products", &[], python);
            command
                .get_envs()
                .filter_map(|(name, value)| value.and(Some(name.to_owned())))
                .collect::<Vec<_>>()
        };
        assert_eq!(variables(None), [models::VARIABLE]);
        assert_eq!(
            variables(Some(Path::new("python"))),
            [models::VARIABLE, PYTHON_VARIABLE]
        );
    }
}
