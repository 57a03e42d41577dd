//! `cargo xtask tidy`: the project's own rules, one check per file.
//!
//! Every check takes a `Tree` and returns problems; none changes anything. The same checks run as a test,
//! so plain `cargo test` enforces them.

pub(crate) mod edges;
pub(crate) mod public_items;

mod callers;
mod circles;
mod docs;
mod errors;
mod faults;
mod layers;
mod licences;
mod limits;
mod links;
mod locks;
mod paths;
mod places;
mod publishing;
mod purity;
mod sizes;
mod table;
mod tree;
mod unsafety;
mod words;

pub(crate) use tree::Tree;

use anyhow::{Result, bail};

use crate::workspace;
use tree::Problem;

type Check = fn(&Tree) -> Result<Vec<Problem>>;

const CHECKS: [(&str, Check); 17] = [
    ("crate edges", edges::check),
    ("publishing", publishing::check),
    ("unsafe code", unsafety::check),
    ("the outside world", purity::check),
    ("locks", locks::check),
    ("circles of modules", circles::check),
    ("module documentation", docs::check),
    ("file sizes", sizes::check),
    ("licences", licences::check),
    ("links", links::check),
    ("words", words::check),
    ("public items", public_items::check),
    ("callers", callers::check),
    ("error codes", errors::check),
    ("faults", faults::check),
    ("limits", limits::check),
    ("where things live", places::check),
];

/// Runs every check and prints its problems.
pub(crate) fn run() -> Result<()> {
    let tree = Tree::load(&workspace::root())?;
    let mut n_problems = 0;
    for (name, check) in CHECKS {
        let lines: Vec<String> = match check(&tree) {
            Ok(problems) => problems.iter().map(ToString::to_string).collect(),
            // A check that fails to read its input must not hide the others' results.
            Err(error) => vec![format!("{error:#}")],
        };
        for line in &lines {
            println!("tidy: {name}: {line}");
        }
        n_problems += lines.len();
    }
    if n_problems > 0 {
        bail!(
            "tidy found {n_problems} problem{}",
            if n_problems == 1 { "" } else { "s" }
        );
    }
    println!(
        "tidy: {} checks, {} files, no problem",
        CHECKS.len(),
        tree.files.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let root = workspace::root();
        if !root.join("xtask/layers.toml").is_file() {
            eprintln!("skipped: the workspace is not here");
            return;
        }
        let tree = Tree::load(&root).unwrap();
        let mut found = Vec::new();
        for (name, check) in CHECKS {
            found.extend(
                check(&tree)
                    .unwrap()
                    .into_iter()
                    .map(|problem| format!("{name}: {problem}")),
            );
        }
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}
