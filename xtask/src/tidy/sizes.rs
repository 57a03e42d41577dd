//! No file is longer than 800 lines, except for a trailing test module and test files.
//!
//! An exception is a row of `xtask/size-allow.toml` with its reason; a row that is no longer needed is a problem too.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::tree::{Problem, Tree};

const ALLOW: &str = "xtask/size-allow.toml";
const LINE_LIMIT: usize = 800;

#[derive(Deserialize)]
struct Allowed {
    allow: BTreeMap<String, String>,
}

/// Checks the length of every Rust file.
pub(super) fn check(tree: &Tree) -> Result<Vec<Problem>> {
    let allowed: Allowed =
        toml::from_str(&tree.read(ALLOW)?).with_context(|| format!("cannot read {ALLOW}"))?;
    let mut unused = allowed.allow;
    let mut problems = Vec::new();
    for path in tree
        .rust_files()
        .filter(|path| !path.ends_with("/tests.rs") && !path.contains("/tests/"))
    {
        let n_lines = lines_without_tests(&tree.read(path)?);
        if n_lines <= LINE_LIMIT {
            continue;
        }
        if unused.remove(path).is_none() {
            let message = format!(
                "expected at most {LINE_LIMIT} lines, found {n_lines}; split it by concept"
            );
            problems.push(Problem::new(path, message));
        }
    }
    problems.extend(
        unused
            .into_keys()
            .map(|path| Problem::new(ALLOW, format!("`{path}` needs no exception"))),
    );
    Ok(problems)
}

/// Lines up to the trailing `#[cfg(test)] mod … {`.
pub(super) fn lines_without_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let trailing = lines
        .windows(2)
        .rposition(|pair| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod "));
    match trailing {
        Some(start) if lines[start + 1].ends_with('{') => start,
        _ => lines.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::said;

    #[test]
    fn long_files_need_a_reason_and_tests_do_not_count() {
        let long = "//! x\n".repeat(801);
        let tested = format!(
            "{}#[cfg(test)]\nmod tests {{\n{}}}\n",
            "//! x\n".repeat(700),
            "    x\n".repeat(300)
        );
        let (_folder, tree) = Tree::of(&[
            (
                ALLOW,
                "[allow]\n\"crates/a/src/table.rs\" = \"one table\"\n\"crates/a/src/gone.rs\" = \"was long\"",
            ),
            ("crates/a/src/lib.rs", &long),
            ("crates/a/src/table.rs", &long),
            ("crates/a/src/tests.rs", &long),
            ("crates/a/src/tested.rs", &tested),
        ]);
        assert_eq!(
            said(&check(&tree).unwrap()),
            [
                "crates/a/src/lib.rs: expected at most 800 lines, found 801; split it by concept",
                "xtask/size-allow.toml: `crates/a/src/gone.rs` needs no exception",
            ]
        );
    }
}
