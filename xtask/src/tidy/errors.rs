//! Error codes: each `"E0xxx"` in a crate has a section in the book with cause, example and fix, and each section a code.
//!
//! One page per layer, `docs/book/src/reference/errors/E01xx.md` and so on; one `## E0101` heading per code.
//! A code belongs to one crate: two that give the same one (tests and the facade apart) are a problem.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::sizes::lines_without_tests;
use super::tree::{Problem, Tree};

const FOLDER: &str = "docs/book/src/reference/errors";
const PARTS: [&str; 3] = ["**Cause**", "**Example**", "**Fix**"];

/// Crates that pass on the codes of other crates.
const PASS_ON: [&str; 3] = ["kiln", "cli", "testkit"];

/// Checks codes against pages, both ways.
pub(super) fn check(tree: &Tree) -> Result<Vec<Problem>> {
    let used = used_codes(tree)?;
    let sections = sections(tree)?;
    let mut problems = Vec::new();
    for (code, used) in &used {
        if !sections.contains_key(code) {
            let page = format!("{FOLDER}/{}xx.md", &code[..3]);
            let message = format!("error code {code} has no section `## {code}` in {page}");
            problems.push(Problem::at(&used.path, used.line, message));
        }
        if used.givers.len() > 1 {
            let givers: Vec<&str> = used.givers.iter().map(String::as_str).collect();
            let message = format!(
                "error code {code} is given by several crates: {}",
                givers.join(", ")
            );
            problems.push(Problem::at(&used.path, used.line, message));
        }
    }
    for (code, section) in &sections {
        if !used.contains_key(code) {
            problems.push(Problem::at(
                &section.path,
                section.line,
                format!("no crate gives {code} any more"),
            ));
        }
        for part in PARTS.iter().filter(|part| !section.text.contains(*part)) {
            problems.push(Problem::at(
                &section.path,
                section.line,
                format!("{code} lacks its {part}"),
            ));
        }
    }
    Ok(problems)
}

struct Section {
    path: String,
    line: usize,
    text: String,
}

/// Where a code is quoted.
struct Used {
    /// The first file.
    path: String,
    /// The line there.
    line: usize,
    /// The crates that define it.
    givers: BTreeSet<String>,
}

/// Every code that a crate's source quotes.
fn used_codes(tree: &Tree) -> Result<BTreeMap<String, Used>> {
    let mut codes: BTreeMap<String, Used> = BTreeMap::new();
    for path in tree.rust_files() {
        let inside = path
            .strip_prefix("crates/")
            .and_then(|path| path.split_once("/src/"));
        let Some((name, file)) = inside else { continue };
        let text = tree.read(path)?;
        let in_tests =
            file.ends_with("tests.rs") || file.contains("tests/") || PASS_ON.contains(&name);
        let n_given = if in_tests {
            0
        } else {
            lines_without_tests(&text)
        };
        for (index, line) in text.lines().enumerate() {
            for code in line
                .split('"')
                .skip(1)
                .step_by(2)
                .filter(|word| is_code(word))
            {
                let new = || Used {
                    path: path.to_owned(),
                    line: index + 1,
                    givers: BTreeSet::new(),
                };
                let used = codes.entry(code.to_owned()).or_insert_with(new);
                if index < n_given {
                    used.givers.insert(name.to_owned());
                }
            }
        }
    }
    Ok(codes)
}

fn sections(tree: &Tree) -> Result<BTreeMap<String, Section>> {
    let mut sections: BTreeMap<String, Section> = BTreeMap::new();
    for path in tree
        .files
        .iter()
        .filter(|path| path.starts_with(FOLDER) && path.ends_with("xx.md"))
    {
        let mut current = None;
        for (index, line) in tree.read(path)?.lines().enumerate() {
            if let Some(title) = line.strip_prefix("## ") {
                current = title
                    .split_whitespace()
                    .next()
                    .filter(|word| is_code(word))
                    .map(str::to_owned);
            }
            if let Some(code) = &current {
                let new = || Section {
                    path: path.clone(),
                    line: index + 1,
                    text: String::new(),
                };
                let section = sections.entry(code.clone()).or_insert_with(new);
                section.text.push_str(line);
            }
        }
    }
    Ok(sections)
}

fn is_code(word: &str) -> bool {
    word.len() == 5
        && word.starts_with('E')
        && word.bytes().skip(1).all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::said;

    #[test]
    fn error_codes_and_page_sections_match() {
        let page = "# Text\n\n## E0101 unexpected token\n**Cause** x **Example** y\n**Fix** z\n\n## E0199\n**Cause**\n";
        let (_folder, tree) = Tree::of(&[
            (
                "crates/ir/src/error.rs",
                "//! E0777\nSelf::A => \"E0101\",\nSelf::B => \"E0202\",",
            ),
            (
                "crates/onnx/src/lib.rs",
                "\"E0101\"\n#[cfg(test)]\nmod tests {\n\"E0202\"\n}",
            ),
            ("crates/kiln/src/lib.rs", "\"E0101\""),
            ("docs/book/src/reference/errors/E01xx.md", page),
        ]);
        let folder = "docs/book/src/reference/errors";
        assert_eq!(
            said(&check(&tree).unwrap()),
            [
                "crates/ir/src/error.rs:2: error code E0101 is given by several crates: ir, onnx"
                    .to_owned(),
                format!(
                    "crates/ir/src/error.rs:3: error code E0202 has no section `## E0202` in {folder}/E02xx.md"
                ),
                format!("{folder}/E01xx.md:7: no crate gives E0199 any more"),
                format!("{folder}/E01xx.md:7: E0199 lacks its **Example**"),
                format!("{folder}/E01xx.md:7: E0199 lacks its **Fix**"),
            ]
        );
    }
}
