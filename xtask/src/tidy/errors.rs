//! Error codes: each `"E0xxx"` in a crate has a section in the book with cause, example and fix, and each section a code.
//!
//! One page per layer, `docs/book/src/reference/errors/E01xx.md` and so on; one `## E0101` heading per code.

use std::collections::BTreeMap;

use anyhow::Result;

use super::tree::{Problem, Tree};

const FOLDER: &str = "docs/book/src/reference/errors";
const PARTS: [&str; 3] = ["**Cause**", "**Example**", "**Fix**"];

/// Checks codes against pages, both ways.
pub(super) fn check(tree: &Tree) -> Result<Vec<Problem>> {
    let used = used_codes(tree)?;
    let sections = sections(tree)?;
    let mut problems = Vec::new();
    for (code, (path, line)) in &used {
        if !sections.contains_key(code) {
            let page = format!("{FOLDER}/{}xx.md", &code[..3]);
            problems.push(Problem::at(
                path,
                *line,
                format!("error code {code} has no section `## {code}` in {page}"),
            ));
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

/// Every code that a crate's source quotes, and where first.
fn used_codes(tree: &Tree) -> Result<BTreeMap<String, (String, usize)>> {
    let mut codes = BTreeMap::new();
    for path in tree
        .rust_files()
        .filter(|path| path.starts_with("crates/") && path.contains("/src/"))
    {
        for (index, line) in tree.read(path)?.lines().enumerate() {
            for code in line
                .split('"')
                .skip(1)
                .step_by(2)
                .filter(|word| is_code(word))
            {
                codes
                    .entry(code.to_owned())
                    .or_insert_with(|| (path.to_owned(), index + 1));
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
        && word.starts_with("E0")
        && word.bytes().skip(1).all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::said;

    #[test]
    fn codes_and_sections_answer_each_other() {
        let page = "# Text\n\n## E0101 unexpected token\n**Cause** x **Example** y\n**Fix** z\n\n## E0199\n**Cause**\n";
        let (_folder, tree) = Tree::of(&[
            (
                "crates/ir/src/error.rs",
                "//! E0777\nSelf::A => \"E0101\",\nSelf::B => \"E0202\",",
            ),
            ("docs/book/src/reference/errors/E01xx.md", page),
        ]);
        let folder = "docs/book/src/reference/errors";
        assert_eq!(
            said(&check(&tree).unwrap()),
            [
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
