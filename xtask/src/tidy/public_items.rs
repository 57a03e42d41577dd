//! The public items of every library, against the checked-in lists `docs/public-items/<crate>.txt`.
//!
//! A new public item is a decision: it shows as a line in a reviewed file. Developer tools have no list.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};

use super::tree::{Problem, Tree};
use crate::api;

const FOLDER: &str = "docs/public-items";
/// For developers only, so their items are not listed.
const UNLISTED: [&str; 1] = ["testkit"];

/// The maximum number of shown changes of one list.
const SHOWN_LIMIT: usize = 8;

/// Compares the lists with the source.
pub(super) fn check(tree: &Tree) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    let fresh = lists(tree)?;
    for (path, items) in &fresh {
        let listed = if tree.files.contains(path) {
            tree.read(path)?
        } else {
            String::new()
        };
        problems.extend(summary(path, "is new", &missing(items, &listed)));
        problems.extend(summary(path, "is gone", &missing(&listed, items)));
    }
    problems.extend(
        stale(tree, &fresh)
            .map(|path| Problem::new(path, "no library of this name; remove the list")),
    );
    Ok(problems)
}

/// Rewrites the lists; returns the paths it changed.
pub(crate) fn bless(tree: &Tree) -> Result<Vec<String>> {
    let fresh = lists(tree)?;
    let mut changed: Vec<String> = Vec::new();
    std::fs::create_dir_all(tree.root.join(FOLDER))
        .with_context(|| format!("cannot create {FOLDER}"))?;
    for (path, items) in &fresh {
        if !tree.files.contains(path) || tree.read(path)? != *items {
            std::fs::write(tree.root.join(path), items)
                .with_context(|| format!("cannot write {path}"))?;
            changed.push(path.clone());
        }
    }
    for path in stale(tree, &fresh) {
        std::fs::remove_file(tree.root.join(path))
            .with_context(|| format!("cannot remove {path}"))?;
        changed.push(path.to_owned());
    }
    Ok(changed)
}

/// The lines of `all` that are not in `some`.
fn missing<'a>(all: &'a str, some: &str) -> Vec<&'a str> {
    let some: BTreeSet<&str> = some.lines().collect();
    all.lines().filter(|line| !some.contains(line)).collect()
}

/// A problem for each line, the first few only.
fn summary(path: &str, what: &str, lines: &[&str]) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    for line in lines.iter().take(SHOWN_LIMIT) {
        let message = format!("`{line}` {what}; meant? then `cargo xtask bless`");
        problems.push(Problem::new(path, message));
    }
    if let Some(n_more @ 1..) = lines.len().checked_sub(SHOWN_LIMIT) {
        problems.push(Problem::new(
            path,
            format!("and {n_more} more, each of which {what}"),
        ));
    }
    problems
}

/// Every list's path and its expected content.
fn lists(tree: &Tree) -> Result<BTreeMap<String, String>> {
    let mut lists = BTreeMap::new();
    for (name, root) in tree
        .libraries()
        .filter(|(name, _)| !UNLISTED.contains(name))
    {
        let items = api::public_items(&root)
            .with_context(|| format!("cannot list the items of `{name}`"))?;
        let text: String = items.iter().map(|line| format!("{line}\n")).collect();
        lists.insert(format!("{FOLDER}/{name}.txt"), text);
    }
    Ok(lists)
}

fn stale<'a>(tree: &'a Tree, fresh: &BTreeMap<String, String>) -> impl Iterator<Item = &'a str> {
    let ours = tree
        .files
        .iter()
        .filter(|path| path.starts_with(FOLDER) && path.ends_with(".txt"));
    ours.filter(|path| !fresh.contains_key(*path))
        .map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::said;
    use crate::workspace;

    #[test]
    fn new_and_gone_items_are_problems_until_blessed() {
        let (folder, tree) = Tree::of(&[
            ("crates/ir/src/lib.rs", "pub fn read() {}"),
            ("docs/public-items/ir.txt", "fn write\n"),
            ("docs/public-items/gone.txt", ""),
        ]);
        assert_eq!(
            said(&check(&tree).unwrap()),
            [
                "docs/public-items/ir.txt: `fn read` is new; meant? then `cargo xtask bless`",
                "docs/public-items/ir.txt: `fn write` is gone; meant? then `cargo xtask bless`",
                "docs/public-items/gone.txt: no library of this name; remove the list",
            ]
        );
        assert_eq!(bless(&tree).unwrap().len(), 2);
        let files = workspace::files(folder.path()).unwrap();
        let files = files.iter().map(|path| workspace::slashed(path)).collect();
        let tree = Tree {
            files,
            metadata: workspace::Metadata::default(),
            root: tree.root.clone(),
        };
        assert!(check(&tree).unwrap().is_empty());
        assert!(bless(&tree).unwrap().is_empty());
    }
}
