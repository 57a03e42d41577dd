//! The cases counted: per operator and in total, plain and `_expanded` separately.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Run;
use super::outcome::Verdict;

/// Numbers of cases by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) unsupported: usize,
    /// Of those that passed compiled, the number without interpreted steps.
    pub(super) native: usize,
}

impl Counts {
    fn add(&mut self, verdict: Verdict, native: bool) {
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Failed => self.failed += 1,
            Verdict::Unsupported => self.unsupported += 1,
        }
        self.native += usize::from(native);
    }

    fn line(&self) -> String {
        let Self {
            passed,
            failed,
            unsupported,
            ..
        } = self;
        format!("{passed} passed, {failed} failed, {unsupported} unsupported")
    }

    fn all(&self) -> usize {
        self.passed + self.failed + self.unsupported
    }
}

/// The counts of some cases on both backends.
fn count<'a>(runs: impl Iterator<Item = &'a Run>) -> (Counts, Counts) {
    let mut counts = (Counts::default(), Counts::default());
    for run in runs {
        let outcome = &run.outcome;
        counts.0.add(outcome.interpreted.verdict, false);
        counts.1.add(outcome.compiled.verdict, outcome.is_native());
    }
    counts
}

/// A row per operator of the node tests, then a row per further set: a Markdown table.
pub(super) fn text(runs: &[Run]) -> String {
    let mut text = String::from(
        "| operator | cases | interpreted | compiled | of these native | `_expanded` cases | interpreted | compiled | of these native |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut by_operator: BTreeMap<String, [Vec<&Run>; 2]> = BTreeMap::new();
    for run in runs {
        let case = &run.case;
        let key = match case.is_node() {
            true => format!("{} {}", case.domain, case.op),
            false => format!("~ {}", case.set),
        };
        by_operator.entry(key).or_default()[usize::from(case.expanded)].push(run);
    }
    for (name, [plain, expanded]) in &by_operator {
        let name = match name.split_once(' ') {
            Some(("ai.onnx", op)) => op.to_owned(),
            Some(("~", set)) => format!("(all of `{set}`)"),
            Some((domain, op)) => format!("{op} ({domain})"),
            None => name.clone(),
        };
        let _ = write!(text, "| {name} |");
        for some in [plain, expanded] {
            if some.is_empty() {
                text += " | | | |";
                continue;
            }
            let (interpreted, compiled) = count(some.iter().copied());
            let _ = write!(
                text,
                " {} | {} | {} | {} |",
                interpreted.all(),
                interpreted.passed,
                compiled.passed,
                compiled.native
            );
        }
        text += "\n";
    }
    text
}

/// The closing lines, for the node tests only.
pub(super) fn totals(runs: &[Run]) -> String {
    let nodes = || runs.iter().filter(|run| run.case.is_node());
    let mut text = String::new();
    for (what, expanded) in [("plain", false), ("expanded", true)] {
        let (interpreted, compiled) = count(nodes().filter(|run| run.case.expanded == expanded));
        let _ = writeln!(text, "{what} interpreted: {}", interpreted.line());
        let _ = writeln!(text, "{what} compiled: {}", compiled.line());
    }
    let fixed = nodes().filter(|run| run.outcome.fixed).count();
    let _ = writeln!(text, "inputs made constants: {fixed} cases");
    let (interpreted, compiled) = count(nodes());
    let _ = writeln!(
        text,
        "compiled without an interpreted step: {} cases",
        compiled.native
    );
    let _ = writeln!(text, "interpreted: {}", interpreted.line());
    let _ = write!(text, "compiled: {}", compiled.line());
    text
}

#[cfg(test)]
mod tests {
    use super::super::cases::tests::case;
    use super::super::outcome::tests::outcome;
    use super::*;

    fn runs() -> Vec<Run> {
        let run = |set, name, op, expanded, one, other| Run {
            case: case(set, name, op, expanded),
            outcome: outcome(one, other),
        };
        use Verdict::{Failed, Passed, Unsupported};
        vec![
            run("node", "test_a", "A", false, Passed, Passed),
            run("node", "test_a_expanded", "A", true, Passed, Failed),
            run("node", "test_b", "B", false, Unsupported, Unsupported),
            run("simple", "test_c", "A", false, Passed, Passed),
        ]
    }

    #[test]
    fn operators_have_a_row_each_and_sets_too() {
        let text = text(&runs());
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| A | 1 | 1 | 1 | 1 | 1 | 1 | 0 | 0 |",
                "| B | 1 | 0 | 0 | 0 | | | | |",
                "| (all of `simple`) | 1 | 1 | 1 | 1 | | | | |"
            ]
        );
    }

    #[test]
    fn totals_are_over_node_tests_alone() {
        let text = totals(&runs());
        let last: Vec<&str> = text.lines().rev().take(2).collect();
        assert_eq!(
            last,
            [
                "compiled: 1 passed, 1 failed, 1 unsupported",
                "interpreted: 2 passed, 0 failed, 1 unsupported"
            ]
        );
    }
}
