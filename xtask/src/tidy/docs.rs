//! Every Rust file opens with `//!`: what it is, what it is not, its invariants.

use anyhow::Result;

use super::tree::{Problem, Tree};

/// Checks the first line of every Rust file.
pub(super) fn check(tree: &Tree) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for path in tree.rust_files() {
        if !tree.read(path)?.starts_with("//!") {
            problems.push(Problem::at(
                path,
                1,
                "a file opens with `//!`: what it is, what it is not, its invariants",
            ));
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::said;

    #[test]
    fn a_file_without_a_header_is_a_problem() {
        let (_folder, tree) = Tree::of(&[
            ("crates/a/src/lib.rs", "//! A."),
            ("xtask/src/b.rs", "use x;"),
            ("docs/c.rs", ""),
        ]);
        let said = said(&check(&tree).unwrap());
        assert_eq!(said.len(), 1);
        assert!(said[0].starts_with("xtask/src/b.rs:1: "), "{said:?}");
    }
}
