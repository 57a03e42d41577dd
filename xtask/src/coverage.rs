//! `cargo xtask coverage`: how many lines of each crate the test suite runs.
//!
//! Lines of `crates/*/src` are counted, including those of tests in these files. Tests of real models run if the models are
//! available. Processes started by tests count; those ended by a signal write no profile, so lines that only they run are
//! counted as not run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{models, setup, step, workspace};

/// The version of the tool.
const CARGO_LLVM_COV: &str = "0.9.1";

/// The minimum percentage of all crates' lines that must run.
const LEAST: f64 = 90.0;

/// Lines of a crate, and how many of them ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    all: u64,
    ran: u64,
}

impl Lines {
    fn per_cent(self) -> f64 {
        match self.all {
            0 => 100.0,
            all => 100.0 * self.ran as f64 / all as f64,
        }
    }
}

/// Runs the tests of the named packages, or of all, and prints the table.
pub(crate) fn run(packages: &[String]) -> Result<()> {
    setup::run()?;
    let root = workspace::root();
    install(&root)?;
    let report = root.join("target").join("coverage.info");
    let mut command = Command::new(workspace::cargo());
    command
        .current_dir(&root)
        .args(["llvm-cov", "nextest", "--no-fail-fast", "--lcov"])
        .arg("--output-path")
        .arg(&report);
    if packages.is_empty() {
        command.arg("--workspace");
    }
    for package in packages {
        command.args(["--package", package]);
    }
    let models = models::folder(&root);
    if models.is_dir() {
        command.env(models::VARIABLE, models);
    }
    step::run("tests, counted", &mut command)?;
    let text =
        fs::read_to_string(&report).with_context(|| format!("cannot read {}", report.display()))?;
    let crates = per_crate(&text, &root);
    print!("{}", table(&crates));
    let total = total(&crates);
    if packages.is_empty() && total.per_cent() < LEAST {
        bail!(
            "expected {LEAST} % of all lines to run, found {:.1} %",
            total.per_cent()
        );
    }
    Ok(())
}

/// Installs the tool, and the parts of the toolchain that it needs.
fn install(root: &Path) -> Result<()> {
    let mut component = Command::new("rustup");
    component
        .current_dir(root)
        .args(["component", "add", "llvm-tools"]);
    step::run("the toolchain's profiling tools", &mut component)?;
    if setup::succeeds(&["cargo", "llvm-cov", "--version"]) {
        return Ok(());
    }
    let mut command = Command::new(workspace::cargo());
    command.args([
        "install",
        "cargo-llvm-cov",
        "--version",
        CARGO_LLVM_COV,
        "--locked",
    ]);
    step::run("installing cargo-llvm-cov", &mut command)
}

/// The lines of each crate, from a report in the format of lcov.
fn per_crate(report: &str, root: &Path) -> BTreeMap<String, Lines> {
    let crates = root.join("crates");
    let mut found: BTreeMap<String, Lines> = BTreeMap::new();
    let mut current: Option<String> = None;
    for line in report.lines() {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        match key {
            "SF" => current = crate_of(Path::new(value), &crates),
            "LF" | "LH" => {
                let (Some(name), Ok(count)) = (&current, value.parse::<u64>()) else {
                    continue;
                };
                let lines = found.entry(name.clone()).or_default();
                match key {
                    "LF" => lines.all += count,
                    _ => lines.ran += count,
                }
            }
            _ => {}
        }
    }
    found
}

/// The crate of a source file.
fn crate_of(file: &Path, crates: &Path) -> Option<String> {
    let inside = file.strip_prefix(crates).ok()?;
    let mut parts = inside.components();
    let name = parts.next()?.as_os_str().to_str()?.to_owned();
    (parts.next()?.as_os_str() == "src").then_some(name)
}

fn total(crates: &BTreeMap<String, Lines>) -> Lines {
    let mut total = Lines::default();
    for lines in crates.values() {
        total.all += lines.all;
        total.ran += lines.ran;
    }
    total
}

fn table(crates: &BTreeMap<String, Lines>) -> String {
    let mut table = format!("{:<18} {:>8} {:>8} {:>7}\n", "crate", "lines", "ran", "%");
    let all = ("all".to_owned(), total(crates));
    let rows = crates.iter().map(|(name, &lines)| (name.clone(), lines));
    for (name, lines) in rows.chain([all]) {
        let (count, ran, share) = (lines.all, lines.ran, lines.per_cent());
        table.push_str(&format!("{name:<18} {count:>8} {ran:>8} {share:>7.1}\n"));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage_lines_are_summed_by_crate_without_tests() {
        let report = "SF:/w/crates/ir/src/a.rs\nDA:1,2\nLF:10\nLH:9\nend_of_record\n\
             SF:/w/crates/ir/src/b/c.rs\nLF:10\nLH:3\nend_of_record\n\
             SF:/w/crates/ir/tests/t.rs\nLF:50\nLH:50\nend_of_record\n\
             SF:/w/crates/tensor/src/lib.rs\nLF:5\nLH:5\nend_of_record\n\
             SF:/elsewhere/src/lib.rs\nLF:7\nLH:0\nend_of_record\n";
        let crates = per_crate(report, Path::new("/w"));
        let expected = [
            ("ir".to_owned(), Lines { all: 20, ran: 12 }),
            ("tensor".to_owned(), Lines { all: 5, ran: 5 }),
        ];
        assert_eq!(crates, BTreeMap::from(expected));
        let table = table(&crates);
        assert!(
            table.ends_with("all                      25       17    68.0\n"),
            "{table}"
        );
    }
}
