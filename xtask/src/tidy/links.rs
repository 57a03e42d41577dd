//! Relative links in Markdown lead to existing files, and anchors to existing headings.
//!
//! Links to the web are not followed. Code (fenced or between backticks) contains no links.

use std::path::{Component, Path};

use anyhow::Result;

use super::tree::{Problem, Tree};

/// Checks every link of every Markdown file.
pub(super) fn check(tree: &Tree) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for path in tree.ending(".md") {
        for (line, target) in links(&tree.read(path)?) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let to = if file.is_empty() {
                Some(path.to_owned())
            } else {
                joined(path, file)
            };
            match to {
                Some(to) if tree.root.join(&to).exists() => {
                    if !anchor.is_empty()
                        && to.ends_with(".md")
                        && !anchors(&tree.read(&to)?).any(|its| its == anchor)
                    {
                        problems.push(Problem::at(
                            path,
                            line,
                            format!("`{to}` has no heading `#{anchor}`"),
                        ));
                    }
                }
                _ => problems.push(Problem::at(
                    path,
                    line,
                    format!("the link to `{target}` leads nowhere"),
                )),
            }
        }
    }
    Ok(problems)
}

/// Line numbers and targets of `[text](target)`.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (index, line) in prose(text) {
        let without_code: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        let mut rest = without_code.as_str();
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, after)) = after.split_once(')') else {
                break;
            };
            let target = target.split_whitespace().next().unwrap_or_default();
            links.push((index, target.to_owned()));
            rest = after;
        }
    }
    links
}

/// The lines outside fenced code, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            return None;
        }
        (!in_code).then_some((index + 1, line))
    })
}

/// The anchors of headings: lower case, words joined by hyphens.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    headings.map(|(_, line)| {
        let title = line
            .trim_start_matches('#')
            .trim()
            .to_lowercase()
            .replace(' ', "-");
        title
            .chars()
            .filter(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_'))
            .collect()
    })
}

/// `link` as seen from `from`'s folder, relative to the root; `None` when it leaves the project.
fn joined(from: &str, link: &str) -> Option<String> {
    let folder = Path::new(from).parent().unwrap_or(Path::new(""));
    let mut parts: Vec<String> = Vec::new();
    for part in folder.join(link).components() {
        match part {
            Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
            Component::ParentDir => drop(parts.pop()?),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::said;

    #[test]
    fn only_broken_links_are_problems() {
        let page = "# One\n[a](b/c.md) [x](https://example.invalid) `[no](code.md)`\n\
            ```\n[no](code.md)\n```\n[d](b/c.md#two-words) [e](b/c.md#three) [f](gone.md \"title\")\n[g](#one)\n";
        let (_folder, tree) = Tree::of(&[
            ("a.md", page),
            ("b/c.md", "## Two words\n[up](../a.md) [out](../../x)\n"),
        ]);
        assert_eq!(
            said(&check(&tree).unwrap()),
            [
                "a.md:6: `b/c.md` has no heading `#three`",
                "a.md:6: the link to `gone.md` leads nowhere",
                "b/c.md:2: the link to `../../x` leads nowhere",
            ]
        );
    }
}
