//! The table of faults: each row names tests that exist, or says "not yet".
//!
//! The table is `docs/book/src/reference/faults.md`; its first column numbers the rows, from 1 without a gap, its last names
//! the tests. A test is a function, or a case file, named as it lies beneath `crates/testkit/testdata`.

use std::collections::BTreeSet;

use anyhow::Result;

use super::table::{quoted, rows};
use super::tree::{Problem, Tree};

const PAGE: &str = "docs/book/src/reference/faults.md";
const CASES: &str = "crates/testkit/testdata/";

/// Checks the table.
pub(super) fn check(tree: &Tree) -> Result<Vec<Problem>> {
    let functions = functions(tree)?;
    let is_test =
        |name: &str| functions.contains(name) || tree.files.contains(&format!("{CASES}{name}"));
    let page = tree.read(PAGE)?;
    let mut problems = Vec::new();
    let mut numbers = BTreeSet::new();
    for row in rows(&page) {
        let (Some(number), Some(tests)) = (row.cells.first(), row.cells.last()) else {
            continue;
        };
        let Ok(number) = number.parse::<usize>() else {
            continue;
        };
        if !numbers.insert(number) {
            problems.push(Problem::at(
                PAGE,
                row.line,
                format!("row {number} is one too many"),
            ));
        }
        let names: Vec<&str> = quoted(tests).collect();
        if names.is_empty() && *tests != "not yet" {
            problems.push(Problem::at(
                PAGE,
                row.line,
                format!("row {number} names no test; name one or say not yet"),
            ));
        }
        for name in names.into_iter().filter(|name| !is_test(name)) {
            problems.push(Problem::at(
                PAGE,
                row.line,
                format!("row {number}: no test is called `{name}`"),
            ));
        }
    }
    let last = numbers.last().copied().unwrap_or(1);
    let missing = (1..=last).filter(|number| !numbers.contains(number));
    problems.extend(missing.map(|number| Problem::new(PAGE, format!("row {number} is missing"))));
    Ok(problems)
}

/// The names of every function in the tree. They are searched by text, since test macros hide functions from a parser.
pub(super) fn functions(tree: &Tree) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for path in tree.rust_files() {
        for after in tree.read(path)?.split("fn ").skip(1) {
            let name: String = after
                .chars()
                .take_while(|letter| letter.is_alphanumeric() || *letter == '_')
                .collect();
            names.insert(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::said;

    #[test]
    fn every_row_names_tests_that_exist_or_says_not_yet() {
        let mut page = String::from("| # | fault | tests |\n|---|---|---|\n");
        for number in [1, 2, 3, 5] {
            let tests = match number {
                2 => "`holds`, `edges/float.kernel`, `gone`",
                3 => "",
                _ => "not yet",
            };
            page.push_str(&format!("| {number} | f | {tests} |\n"));
        }
        page.push_str("| 5 | again | `holds` |\n");
        let (_folder, tree) = Tree::of(&[
            (PAGE, &page),
            (
                "crates/a/tests/t.rs",
                "proptest! { fn holds(x in 0..1) {} }",
            ),
            (
                "crates/testkit/testdata/edges/float.kernel",
                "kernel @edge() {\n}\n",
            ),
        ]);
        assert_eq!(
            said(&check(&tree).unwrap()),
            [
                format!("{PAGE}:4: row 2: no test is called `gone`"),
                format!("{PAGE}:5: row 3 names no test; name one or say not yet"),
                format!("{PAGE}:7: row 5 is one too many"),
                format!("{PAGE}: row 4 is missing"),
            ]
        );
    }
}
