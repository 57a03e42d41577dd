//! The baseline: a checked-in list of passing cases, and the table of the book.
//!
//! The list holds a line per case that passes: its name, and how far it gets (`interpreted`, `compiled`, `native`).

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

use super::Run;
use super::outcome::{Outcome, Verdict};
use super::table;

const LIST: &str = "xtask/conformance/passing.txt";
const PAGE: &str = "docs/book/src/reference/onnx-conformance.md";
const BEGIN: &str = "<!-- begin: written by `cargo xtask conformance --bless` -->\n";
const END: &str = "<!-- end -->";

/// The level that a case reaches, in ascending order; `None` when it does not pass at all.
fn reach(outcome: &Outcome) -> Option<&'static str> {
    if outcome.interpreted.verdict != Verdict::Passed {
        None
    } else if outcome.is_native() {
        Some("native")
    } else if outcome.compiled.verdict == Verdict::Passed {
        Some("compiled")
    } else {
        Some("interpreted")
    }
}

const REACHES: [&str; 3] = ["interpreted", "compiled", "native"];

fn rank(reach: &str) -> usize {
    REACHES
        .iter()
        .position(|known| *known == reach)
        .map_or(0, |at| at + 1)
}

/// The regressions among the cases that ran.
pub(super) fn lost(root: &Path, runs: &[Run]) -> Result<Vec<String>> {
    let text =
        std::fs::read_to_string(root.join(LIST)).with_context(|| format!("cannot read {LIST}"))?;
    Ok(lost_from(&text, runs))
}

fn lost_from(list: &str, runs: &[Run]) -> Vec<String> {
    let before: BTreeMap<&str, &str> = list
        .lines()
        .filter_map(|line| line.split_once(' '))
        .collect();
    let mut lost = Vec::new();
    for run in runs {
        let name = key(run);
        let Some(&was) = before.get(name.as_str()) else {
            continue;
        };
        let now = reach(&run.outcome).unwrap_or("not passing");
        if rank(now) < rank(was) {
            lost.push(format!("{name}: was {was}, is {now}"));
        }
    }
    lost
}

/// Rewrites the list and the table.
pub(super) fn bless(root: &Path, runs: &[Run]) -> Result<()> {
    std::fs::write(root.join(LIST), list(runs)).with_context(|| format!("cannot write {LIST}"))?;
    let path = root.join(PAGE);
    let page = std::fs::read_to_string(&path).with_context(|| format!("cannot read {PAGE}"))?;
    std::fs::write(&path, with_table(&page, runs)?)
        .with_context(|| format!("cannot write {PAGE}"))?;
    println!("{}", table::totals(runs));
    Ok(())
}

fn list(runs: &[Run]) -> String {
    let mut lines: Vec<String> = runs
        .iter()
        .filter_map(|run| Some(format!("{} {}\n", key(run), reach(&run.outcome)?)))
        .collect();
    lines.sort();
    lines.concat()
}

fn key(run: &Run) -> String {
    format!("{}/{}", run.case.set, run.case.name)
}

fn with_table(page: &str, runs: &[Run]) -> Result<String> {
    let missing = || format!("{PAGE} has no `{}` ... `{END}`", BEGIN.trim_end());
    let (before, rest) = page.split_once(BEGIN).with_context(missing)?;
    let (_, after) = rest.split_once(END).with_context(missing)?;
    let (totals, table) = (table::totals(runs), table::text(runs));
    Ok(format!(
        "{before}{BEGIN}\n```text\n{totals}\n```\n\n{table}\n{END}{after}"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::cases::tests::case;
    use super::super::outcome::tests::outcome;
    use super::*;

    fn run(name: &str, one: Verdict, other: Verdict) -> Run {
        Run {
            case: case("node", name, "A", false),
            outcome: outcome(one, other),
        }
    }

    #[test]
    fn a_case_that_regresses_is_a_loss() {
        let before = [
            run("test_a", Verdict::Passed, Verdict::Passed),
            run("test_b", Verdict::Passed, Verdict::Failed),
            run("test_c", Verdict::Failed, Verdict::Failed),
        ];
        let list = list(&before);
        assert_eq!(list, "node/test_a native\nnode/test_b interpreted\n");
        assert!(lost_from(&list, &before).is_empty());
        let now = [
            run("test_a", Verdict::Passed, Verdict::Failed),
            run("test_b", Verdict::Passed, Verdict::Passed),
        ];
        assert_eq!(
            lost_from(&list, &now),
            ["node/test_a: was native, is interpreted"]
        );
    }

    #[test]
    fn the_page_keeps_the_text_around_the_table() {
        let page = format!("before\n{BEGIN}old\n{END}\nafter\n");
        let fresh = with_table(&page, &[run("test_a", Verdict::Passed, Verdict::Passed)]).unwrap();
        assert!(
            fresh.starts_with("before\n") && fresh.ends_with("\nafter\n"),
            "{fresh}"
        );
        assert!(
            fresh.contains("| A | 1 | 1 | 1 | 1 |") && !fresh.contains("old"),
            "{fresh}"
        );
        assert!(with_table("nothing", &[]).is_err());
    }
}
