//! `cargo xtask tune`: measures the cost of register tiles on this machine, and writes the table by which schedules are chosen.
//!
//! Levels that this machine lacks keep their rows. Nothing else may run on the machine meanwhile.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::{setup, workspace};

/// The path of the table, within the workspace.
const TABLE: &str = "crates/schedule-cpu/src/tile_costs.rs";

/// The text before the rows.
const HEAD: &str = "\
//! The measured cost of a reduction step for each register tile, by vectors per row. Written by `cargo xtask tune`.

/// Level, work, rows and vectors of a tile, vectors of a row; and the cost in hundredths of the level's fastest vector
/// multiply-add in such work.
pub(super) const COSTS: &[(&str, &str, u32, u32, u32, u32)] = &[
";

/// Measures, and rewrites the table.
pub(crate) fn run() -> Result<()> {
    setup::run()?;
    let root = workspace::root();
    println!("== register tiles, each level of this machine");
    let measured = Command::new(workspace::cargo())
        .current_dir(&root)
        .args(["bench", "--package", "kiln-benches"])
        .args(["--bench", "tile_costs"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run the benchmark of tiles")?;
    ensure!(
        measured.status.success(),
        "the benchmark of tiles failed: {}",
        measured.status
    );
    let rows = rows(&String::from_utf8_lossy(&measured.stdout))?;
    let path = table(&root);
    let before = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    std::fs::write(&path, merged(&before, &rows))
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("{} rows written to {TABLE}", rows.len());
    Ok(())
}

fn table(root: &Path) -> PathBuf {
    TABLE
        .split('/')
        .fold(root.to_owned(), |path, part| path.join(part))
}

/// The rows that a benchmark printed, as lines of the table.
fn rows(printed: &str) -> Result<Vec<String>> {
    let lines = printed.lines().filter(|line| !line.is_empty());
    let rows: Vec<String> = lines.map(row).collect::<Result<_>>()?;
    ensure!(!rows.is_empty(), "the benchmark of tiles printed nothing");
    Ok(rows)
}

fn row(line: &str) -> Result<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let wrong = || format!("expected a level, a kind of work and four numbers, found `{line}`");
    let [level, work, numbers @ ..] = words.as_slice() else {
        anyhow::bail!(wrong());
    };
    let numbers: Vec<u32> = numbers
        .iter()
        .map(|word| word.parse())
        .collect::<Result<_, _>>()
        .with_context(wrong)?;
    ensure!(numbers.len() == 4, wrong());
    let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
    Ok(format!(
        "    (\"{level}\", \"{work}\", {}),",
        numbers.join(", ")
    ))
}

/// The table with the rows of some levels replaced.
fn merged(before: &str, rows: &[String]) -> String {
    let level = |row: &str| row.split('"').nth(1).map(str::to_owned);
    let is_measured = |row: &&str| rows.iter().any(|new| level(new) == level(row));
    let kept = before.lines().filter(|line| line.starts_with("    (\""));
    let kept = kept.filter(|line| !is_measured(line)).map(str::to_owned);
    let all: Vec<String> = kept.chain(rows.iter().cloned()).collect();
    format!("{HEAD}{}\n];\n", all.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_that_were_not_measured_keep_their_rows() {
        let first = rows("neon product 8 2 1 104\nportable window 4 2 1 140\n").unwrap();
        let before = merged("", &first);
        let after = merged(&before, &rows("portable product 4 2 1 133\n").unwrap());
        let body = after.strip_prefix(HEAD).unwrap();
        assert_eq!(
            body,
            "    (\"neon\", \"product\", 8, 2, 1, 104),\n    (\"portable\", \"product\", 4, 2, 1, 133),\n];\n"
        );
    }

    #[test]
    fn malformed_tuning_rows_are_errors() {
        for printed in ["", "portable window 4 2 1", "portable 4 2 1 x 3"] {
            assert!(rows(printed).is_err(), "{printed}");
        }
    }

    #[test]
    fn the_tuning_table_exists() {
        assert!(table(&workspace::root()).is_file());
    }
}
