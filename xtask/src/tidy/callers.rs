//! Public items that no code in use calls: they must be deleted, or `docs/offered-items.toml` must state why they stay.
//!
//! In use means reachable from the facade, the trainer built on it, the command line or the benchmarks, by name (see
//! `api::Reach`): items called only by tests are not. The own items of the facade and the trainer are for users, and developer
//! tools offer none.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::tree::{Problem, Tree};
use crate::api::{self, Reach};

/// Items that are offered to users although no code here calls them.
const OFFERED: &str = "docs/offered-items.toml";

/// Libraries whose own code is all in use.
const ROOTS: [&str; 2] = ["kiln", "train"];

/// The folders of programs that use the libraries.
const PROGRAMS: [&str; 3] = ["crates/cli/", "benches/", "xtask/conformance/"];

/// For developers only: their items and uses do not count.
const TOOLS: [&str; 1] = ["testkit"];

/// The kinds of items that are checked.
const KINDS: [&str; 7] = ["const", "enum", "fn", "static", "struct", "trait", "type"];

/// The table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    offered: Vec<Offered>,
}

/// Items that are offered for the same reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Offered {
    /// The reason why they are kept.
    reason: String,
    /// Their paths, the crate's short name first: `ir::draw`. One that ends in `::*` covers everything below.
    items: Vec<String>,
}

/// Compares uncalled items with the table.
pub(super) fn check(tree: &Tree) -> Result<Vec<Problem>> {
    let table = match tree.files.iter().any(|path| path == OFFERED) {
        true => toml::from_str(&tree.read(OFFERED)?)
            .with_context(|| format!("cannot read {OFFERED}"))?,
        false => Table::default(),
    };
    let mut problems = Vec::new();
    let mut unused: BTreeMap<String, bool> = uncalled(tree)?
        .into_iter()
        .map(|path| (path, false))
        .collect();
    for offered in &table.offered {
        if offered.reason.trim().is_empty() {
            problems.push(Problem::new(OFFERED, "a reason that says nothing"));
        }
        for item in &offered.items {
            let mut meant = 0;
            for (path, known) in &mut unused {
                if is_meant(item, path) {
                    (*known, meant) = (true, meant + 1);
                }
            }
            if meant == 0 {
                let message = format!("`{item}` is called, or gone; remove it from the table");
                problems.push(Problem::new(OFFERED, message));
            }
        }
    }
    let unknown = unused.iter().filter(|(_, known)| !**known);
    problems.extend(unknown.map(|(path, _)| {
        let message = format!(
            "nothing but tests calls `{path}`: delete it, or say in the table why it stays"
        );
        Problem::new(OFFERED, message)
    }));
    Ok(problems)
}

/// Whether an entry of the table covers a path.
fn is_meant(entry: &str, path: &str) -> bool {
    match entry.strip_suffix("*") {
        Some(start) => path.starts_with(start),
        None => entry == path,
    }
}

/// Whether a file is the root of a program, or of shared code of programs.
fn is_program(path: &str) -> bool {
    let is_root = path.ends_with("/main.rs")
        || path.ends_with("/src/lib.rs")
        || path
            .strip_prefix("benches/benches/")
            .is_some_and(|rest| !rest.contains('/'));
    is_root && !path.contains("/tests/") && PROGRAMS.iter().any(|folder| path.starts_with(folder))
}

/// The public items that no code in use calls; for an unused type, only the type.
fn uncalled(tree: &Tree) -> Result<Vec<String>> {
    let mut reach = Reach::default();
    let libraries: Vec<_> = tree
        .libraries()
        .filter(|(name, _)| !TOOLS.contains(name))
        .collect();
    for (name, root) in &libraries {
        match ROOTS.contains(name) {
            true => reach.add_root(root),
            false => reach.add(root),
        }
        .with_context(|| format!("cannot read the code of `{name}`"))?;
    }
    for path in tree.rust_files().filter(|path| is_program(path)) {
        reach
            .add_root(&tree.root.join(path))
            .with_context(|| format!("cannot read the code of {path}"))?;
    }
    let reached = reach.reached();
    let mut found = Vec::new();
    for (name, root) in libraries.iter().filter(|(name, _)| !ROOTS.contains(name)) {
        let items = api::public_items(root)?;
        let paths = items.iter().filter_map(|line| {
            let (kind, path) = line.split_once(' ')?;
            KINDS.contains(&kind).then_some(path)
        });
        let uncalled: Vec<&str> = paths.filter(|path| !reached.contains(path)).collect();
        let is_of_one = |path: &str| {
            let ty = path.rsplit_once("::").map(|(ty, _)| ty);
            ty.is_some_and(|ty| uncalled.contains(&ty))
        };
        let alone = uncalled.iter().filter(|path| !is_of_one(path));
        found.extend(alone.map(|path| format!("{name}::{path}")));
    }
    found.sort();
    found.dedup();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::said;

    const LIBRARY: (&str, &str) = (
        "crates/ir/src/lib.rs",
        "pub fn used() {} pub fn tested() {} #[cfg(test)] mod tests { fn test() { super::tested() } }",
    );
    const PROGRAM: (&str, &str) = ("crates/cli/src/main.rs", "fn main() { used() }");

    #[test]
    fn items_used_only_by_tests_need_an_offered_entry() {
        let (_folder, tree) = Tree::of(&[LIBRARY, PROGRAM]);
        let expected = "docs/offered-items.toml: nothing but tests calls `ir::tested`: delete it, or say in the table why it stays";
        assert_eq!(said(&check(&tree).unwrap()), [expected]);
        let table = "[[offered]]\nreason = 'users write tests'\nitems = ['ir::*']";
        let (_folder, tree) = Tree::of(&[LIBRARY, PROGRAM, (OFFERED, table)]);
        assert!(check(&tree).unwrap().is_empty());
    }

    #[test]
    fn offered_entries_for_used_or_missing_items_are_stale() {
        let table = "[[offered]]\nreason = ' '\nitems = ['ir::tested', 'ir::used', 'ir::gone']";
        let (_folder, tree) = Tree::of(&[LIBRARY, PROGRAM, (OFFERED, table)]);
        assert_eq!(
            said(&check(&tree).unwrap()),
            [
                "docs/offered-items.toml: a reason that says nothing",
                "docs/offered-items.toml: `ir::used` is called, or gone; remove it from the table",
                "docs/offered-items.toml: `ir::gone` is called, or gone; remove it from the table",
            ]
        );
    }
}
