//! `cargo xtask fuzz`: every fuzz target for some minutes of processor time, with a table of results.
//!
//! Targets are built once per sanitizer, each kind in a separate folder, and run as programs. Invariants: a find is
//! minimised and kept under `fuzz/artifacts/`, printed with the command that replays it, and is an error at the end; a
//! corpus is kept under `fuzz/corpus/`, so that a later run continues from it; and `record` keeps how long each target has
//! run clean.

mod progress;
mod record;
mod session;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::flags::FuzzOptions;
use crate::nightly::Nightly;
use crate::workspace::Metadata;
use crate::{setup, step, workspace};
use record::Record;
use session::{Outcome, Session};

/// The version of cargo-fuzz that is installed if there is none.
const CARGO_FUZZ: &str = "0.13.2";

/// Targets that reach unsafe code or memory that is not Rust's; the others run several times as many inputs without the
/// address sanitizer.
const ADDRESS: [&str; 5] = [
    "import_onnx",
    "load_object",
    "read_array",
    "run_compiled",
    "run_kernel",
];

/// The dictionary of a target, if there is a useful one.
fn dictionary(target: &str) -> Option<&'static str> {
    match target {
        "read_graph" | "plan_graph" | "interpret_graph" | "run_compiled" => Some("graph.dict"),
        "import_onnx" | "run_onnx" => Some("onnx.dict"),
        "read_kernel" | "run_kernel" => Some("kernel.dict"),
        "read_program" => Some("program.dict"),
        "prove_sizes" => Some("sizes.dict"),
        "read_array" => Some("npy.dict"),
        _ => None,
    }
}

/// The instrumentation of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sanitizer {
    Address,
    None,
}

impl Sanitizer {
    fn of(target: &str) -> Self {
        if ADDRESS.contains(&target) {
            Self::Address
        } else {
            Self::None
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::None => "none",
        }
    }
}

/// Runs the targets.
pub(crate) fn run(options: &FuzzOptions) -> Result<()> {
    setup::run()?;
    let nightly = Nightly::find()?;
    install(&nightly)?;
    let root = workspace::root();
    let fuzz = root.join("fuzz");
    let targets = chosen(&all(&fuzz)?, &options.targets)?;
    let budget = Duration::from_secs(60 * u64::from(options.minutes));
    for sanitizer in [Sanitizer::None, Sanitizer::Address] {
        let of_it = |target: &&String| Sanitizer::of(target) == sanitizer;
        let names: Vec<&String> = targets.iter().filter(of_it).collect();
        if !names.is_empty() {
            build(&nightly, &root, sanitizer, &names)?;
        }
    }
    let mut outcomes = Vec::new();
    let metadata = Metadata::load(&root)?;
    for target in &targets {
        let sanitizer = Sanitizer::of(target);
        let session = Session {
            fuzz: &fuzz,
            target,
            sanitizer: sanitizer.name(),
            program: folder(&root, sanitizer)
                .join(&nightly.host)
                .join("release")
                .join(target),
            dictionary: dictionary(target),
        };
        println!(
            "fuzz: {target} for {} min of processor time",
            options.minutes
        );
        let code = record::code_of(target, &root, &metadata)?;
        let outcome = session.run(budget)?;
        // Read again: another run may have written meanwhile.
        let mut record = Record::read(&root)?;
        record.add(target, &code, &record::today()?, &outcome);
        record.write(&root)?;
        for find in &outcome.finds {
            println!("fuzz: find: {}", session.replay(find));
        }
        outcomes.push((target.as_str(), sanitizer, outcome));
    }
    print!("{}", table(&outcomes));
    let n_finds: usize = outcomes
        .iter()
        .map(|(.., outcome)| outcome.finds.len())
        .sum();
    if n_finds > 0 {
        bail!(
            "{n_finds} finds, kept under fuzz/artifacts; once mended, each goes to fuzz/regressions/TARGET under a name that \
             says what it was"
        );
    }
    Ok(())
}

/// Installs cargo-fuzz if it is missing.
fn install(nightly: &Nightly) -> Result<()> {
    let there = nightly.cargo().args(["fuzz", "--version"]).output();
    if there.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    let mut command = nightly.cargo();
    command.args(["install", "cargo-fuzz", "--version", CARGO_FUZZ, "--locked"]);
    step::run("installing cargo-fuzz", &mut command)
}

fn folder(root: &Path, sanitizer: Sanitizer) -> PathBuf {
    root.join("fuzz").join("target").join(sanitizer.name())
}

fn build(nightly: &Nightly, root: &Path, sanitizer: Sanitizer, targets: &[&String]) -> Result<()> {
    let mut command = nightly.cargo();
    command
        .current_dir(root)
        .args([
            "fuzz",
            "build",
            "--sanitizer",
            sanitizer.name(),
            "--target-dir",
        ])
        .arg(folder(root, sanitizer));
    // All targets at once, unless a single one was requested.
    if let [only] = targets {
        command.arg(only);
    }
    let title = format!("fuzz targets, sanitizer {}", sanitizer.name());
    step::run(&title, &mut command)
}

#[derive(Deserialize)]
struct Manifest {
    bin: Vec<Bin>,
}

#[derive(Deserialize)]
struct Bin {
    name: String,
}

/// The targets of the manifest.
fn all(fuzz: &Path) -> Result<Vec<String>> {
    let path = fuzz.join("Cargo.toml");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let manifest: Manifest =
        toml::from_str(&text).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(manifest.bin.into_iter().map(|bin| bin.name).collect())
}

fn chosen(all: &[String], wanted: &[String]) -> Result<Vec<String>> {
    if let Some(other) = wanted.iter().find(|name| !all.contains(name)) {
        bail!(
            "expected a fuzz target ({}), found `{other}`",
            all.join(", ")
        );
    }
    let is_wanted = |name: &&String| wanted.is_empty() || wanted.contains(name);
    Ok(all.iter().filter(is_wanted).cloned().collect())
}

fn table(outcomes: &[(&str, Sanitizer, Outcome)]) -> String {
    let mut table = format!(
        "{:<16} {:<9} {:>7} {:>12} {:>8} {:>9} {:>7} {:>6}\n",
        "target", "sanitizer", "cpu s", "executions", "per s", "coverage", "corpus", "finds"
    );
    for (target, sanitizer, outcome) in outcomes {
        let seconds = outcome.processor.as_secs_f64();
        let rate = outcome.progress.executions as f64 / seconds.max(0.01);
        table.push_str(&format!(
            "{target:<16} {:<9} {seconds:>7.0} {:>12} {rate:>8.0} {:>9} {:>7} {:>6}\n",
            sanitizer.name(),
            outcome.progress.executions,
            outcome.progress.coverage,
            outcome.progress.corpus,
            outcome.finds.len(),
        ));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::progress::Progress;
    use super::*;

    #[test]
    fn every_target_of_the_manifest_is_known_and_dictionaries_are_there() {
        let fuzz = workspace::root().join("fuzz");
        let all = all(&fuzz).unwrap();
        assert!(
            ADDRESS
                .iter()
                .all(|name| all.iter().any(|known| known == name))
        );
        for name in &all {
            if let Some(file) = dictionary(name) {
                assert!(fuzz.join("dictionaries").join(file).is_file(), "{file}");
            }
            assert!(fuzz.join("seeds").join(name).is_dir(), "{name}");
        }
    }

    #[test]
    fn an_unknown_target_is_refused_with_the_known_ones() {
        let all = ["read_graph", "run_onnx"].map(str::to_owned);
        assert_eq!(chosen(&all, &[]).unwrap(), all);
        assert_eq!(chosen(&all, &all[1..]).unwrap(), all[1..]);
        let error = chosen(&all, &["graph".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("`graph`") && error.contains("read_graph, run_onnx"));
    }

    #[test]
    fn the_table_has_rates_of_processor_time() {
        let outcome = Outcome {
            processor: Duration::from_secs(20),
            progress: Progress {
                executions: 400,
                coverage: 7,
                corpus: 3,
            },
            finds: vec![PathBuf::from("x")],
        };
        let table = table(&[("read_graph", Sanitizer::None, outcome)]);
        let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(
            row,
            ["read_graph", "none", "20", "400", "20", "7", "3", "1"]
        );
    }
}
