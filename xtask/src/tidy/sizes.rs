//! No file is longer than 600 lines, a trailing test module and test files apart, and no function longer than 80.
//!
//! An exception is a row of `xtask/size-allow.toml` with its reason; a row that is no longer needed is a problem too. Functions
//! are found by their layout: formatted code closes a body at the indentation at which its `fn` stands.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::tree::{Problem, Tree};

const ALLOW: &str = "xtask/size-allow.toml";
const LINE_LIMIT: usize = 600;
const FUNCTION_LIMIT: usize = 80;

#[derive(Deserialize)]
struct Allowed {
    files: BTreeMap<String, String>,
    /// By file and name, `crates/a/src/lib.rs f`.
    functions: BTreeMap<String, String>,
}

/// Checks the length of every Rust file, and of its functions.
pub(super) fn check(tree: &Tree) -> Result<Vec<Problem>> {
    let allowed: Allowed =
        toml::from_str(&tree.read(ALLOW)?).with_context(|| format!("cannot read {ALLOW}"))?;
    let mut unused = allowed.files;
    unused.extend(allowed.functions);
    let mut problems = Vec::new();
    let is_tests = |path: &&str| path.ends_with("/tests.rs") || path.contains("/tests/");
    for path in tree.rust_files().filter(|path| !is_tests(path)) {
        let text = tree.read(path)?;
        let n_lines = lines_without_tests(&text);
        if n_lines > LINE_LIMIT && unused.remove(path).is_none() {
            let message = format!(
                "expected at most {LINE_LIMIT} lines, found {n_lines}; split it by concept"
            );
            problems.push(Problem::new(path, message));
        }
        let lines: Vec<&str> = text.lines().take(n_lines).collect();
        for (line, name, length) in long_functions(&lines) {
            if unused.remove(&format!("{path} {name}")).is_none() {
                let message = format!(
                    "expected at most {FUNCTION_LIMIT} lines of `{name}`, found {length}; split it by concept"
                );
                problems.push(Problem::at(path, line, message));
            }
        }
    }
    problems.extend(
        unused
            .into_keys()
            .map(|path| Problem::new(ALLOW, format!("`{path}` needs no exception"))),
    );
    Ok(problems)
}

/// The functions beyond the limit: line, name, lines.
fn long_functions<'a>(lines: &[&'a str]) -> Vec<(usize, &'a str, usize)> {
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else {
            continue;
        };
        let indent = &line[..line.len() - line.trim_start().len()];
        let closes = |line: &&str| line.strip_prefix(indent).is_some_and(|rest| rest == "}");
        let ends = lines[at..].iter().position(closes).unwrap_or(0);
        if ends + 1 > FUNCTION_LIMIT && !line.ends_with(['}', ';']) {
            found.push((at + 1, name, ends + 1));
        }
    }
    found
}

/// The name of the function whose signature begins on a line.
fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let words = ["pub", "const", "async", "unsafe", "extern", "\"C\""];
    let is_signature = before
        .split_whitespace()
        .all(|word| words.contains(&word) || word.starts_with("pub("));
    let end = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (is_signature && end > 0).then(|| &after[..end])
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
        let long = "//! x\n".repeat(601);
        let tested = format!(
            "{}#[cfg(test)]\nmod tests {{\n{}}}\n",
            "//! x\n".repeat(500),
            "    x\n".repeat(300)
        );
        let (_folder, tree) = Tree::of(&[
            (
                ALLOW,
                "[files]\n\"crates/a/src/table.rs\" = \"one table\"\n\"crates/a/src/gone.rs\" = \"was long\"\n[functions]\n",
            ),
            ("crates/a/src/lib.rs", &long),
            ("crates/a/src/table.rs", &long),
            ("crates/a/src/tests.rs", &long),
            ("crates/a/src/tested.rs", &tested),
        ]);
        assert_eq!(
            said(&check(&tree).unwrap()),
            [
                "crates/a/src/lib.rs: expected at most 600 lines, found 601; split it by concept",
                "xtask/size-allow.toml: `crates/a/src/gone.rs` needs no exception",
            ]
        );
    }

    #[test]
    fn long_functions_need_a_reason_whatever_follows_them() {
        let function = |name: &str, lines: usize| {
            format!(
                "    pub(super) fn {name}(\n        x: i32,\n    ) {{\n{}    }}\n",
                "        f();\n".repeat(lines)
            )
        };
        let text = format!(
            "//! x\nimpl A {{\n{}{}{}}}\n",
            function("a", 77),
            function("b", 76),
            function("c", 90)
        );
        let allow = "[files]\n[functions]\n\"crates/a/src/lib.rs c\" = \"one match\"\n";
        let (_folder, tree) = Tree::of(&[(ALLOW, allow), ("crates/a/src/lib.rs", &text)]);
        assert_eq!(
            said(&check(&tree).unwrap()),
            [
                "crates/a/src/lib.rs:3: expected at most 80 lines of `a`, found 81; split it by concept"
            ]
        );
    }
}
