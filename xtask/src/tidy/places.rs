//! "Where things live": each name leads to public items or files that exist, or says "not yet".
//!
//! The page is `docs/book/src/reference/where-things-live.md`; the second column of its tables holds the places:
//! `kiln_ir::Graph` is an item of the library in `crates/ir`, anything with a slash is a file.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::table::{quoted, rows};
use super::tree::{Problem, Tree};
use crate::api;

const PAGE: &str = "docs/book/src/reference/where-things-live.md";

/// Checks every row.
pub(super) fn check(tree: &Tree) -> Result<Vec<Problem>> {
    let items = items(tree)?;
    let page = tree.read(PAGE)?;
    let mut problems = Vec::new();
    for row in rows(&page) {
        let Some(places) = row.cells.get(1) else {
            continue;
        };
        let names: Vec<&str> = quoted(places).collect();
        if names.is_empty() && *places != "not yet" {
            problems.push(Problem::at(
                PAGE,
                row.line,
                format!("expected places or not yet, found `{places}`"),
            ));
        }
        for name in names {
            let exists = if name.contains('/') {
                tree.root.join(name).exists()
            } else {
                has_item(&items, name)
            };
            if !exists {
                problems.push(Problem::at(
                    PAGE,
                    row.line,
                    format!("`{name}` does not exist"),
                ));
            }
        }
    }
    Ok(problems)
}

/// Every library's item paths, by its name in code.
fn items(tree: &Tree) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut items = BTreeMap::new();
    for (name, root) in tree.libraries() {
        let lines = api::public_items(&root)?;
        let paths = lines
            .iter()
            .filter_map(|line| line.split_whitespace().nth(1).map(str::to_owned))
            .collect();
        let library = if name == "kiln" {
            name.to_owned()
        } else {
            format!("kiln_{}", name.replace('-', "_"))
        };
        items.insert(library, paths);
    }
    Ok(items)
}

fn has_item(items: &BTreeMap<String, BTreeSet<String>>, path: &str) -> bool {
    match path.split_once("::") {
        Some((library, rest)) => items.get(library).is_some_and(|paths| paths.contains(rest)),
        None => items.contains_key(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::said;

    #[test]
    fn places_must_exist() {
        let page = "| name | where |\n|---|---|\n| graph | `kiln_ir::Graph::read`, `crates/ir/src/lib.rs` |\n\
            | fusion | not yet |\n| tape | `kiln_trace::Tape` |\n| x | somewhere |\n| y | `no/such.rs` |\n| ir | `kiln_ir` |\n";
        let lib = "pub struct Graph; impl Graph { pub fn read() {} }";
        let (_folder, tree) = Tree::of(&[(PAGE, page), ("crates/ir/src/lib.rs", lib)]);
        assert_eq!(
            said(&check(&tree).unwrap()),
            [
                format!("{PAGE}:5: `kiln_trace::Tape` does not exist"),
                format!("{PAGE}:6: expected places or not yet, found `somewhere`"),
                format!("{PAGE}:7: `no/such.rs` does not exist"),
            ]
        );
    }
}
