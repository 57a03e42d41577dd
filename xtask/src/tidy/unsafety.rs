//! Unsafe code is only where `xtask/layers.toml` allows it.
//!
//! A crate without such a place forbids unsafe code at its root. In one with a place, every other file of `src/` must be
//! free of the word. Clippy checks that each block has a `SAFETY:` comment.

use anyhow::Result;
use proc_macro2::{TokenStream, TokenTree};

use super::layers::{Layer, Layers};
use super::tree::{Problem, Tree};

/// Checks every crate of the table that exists.
pub(super) fn check(tree: &Tree) -> Result<Vec<Problem>> {
    let layers = Layers::load(tree)?;
    let mut problems = Vec::new();
    for layer in &layers.all {
        let sources = sources(tree, &layer.name);
        if layer.unsafe_in.is_empty() {
            let roots = sources
                .iter()
                .filter(|(_, inside)| matches!(*inside, "lib.rs" | "main.rs"));
            for (path, _) in roots {
                if !tree.read(path)?.contains("#![forbid(unsafe_code)]") {
                    problems.push(Problem::new(*path, "lacks `#![forbid(unsafe_code)]`"));
                }
            }
            continue;
        }
        for (path, inside) in sources
            .into_iter()
            .filter(|(_, inside)| !may_hold_unsafe(layer, inside))
        {
            if let Ok(tokens) = tree.read(path)?.parse::<TokenStream>()
                && holds_unsafe(tokens)
            {
                let places = layer.unsafe_in.join(", ");
                problems.push(Problem::new(
                    path,
                    format!("{inside} holds unsafe code; it may stand in {places} alone"),
                ));
            }
        }
    }
    Ok(problems)
}

/// A crate's source files: the path, and the path under `src/`.
fn sources<'a>(tree: &'a Tree, name: &str) -> Vec<(&'a str, &'a str)> {
    let folders = [format!("crates/{name}/src/"), format!("{name}/src/")];
    let inside = |path: &'a str| {
        folders
            .iter()
            .find_map(|folder| Some((path, path.strip_prefix(folder.as_str())?)))
    };
    tree.rust_files().filter_map(inside).collect()
}

fn may_hold_unsafe(layer: &Layer, inside: &str) -> bool {
    layer.unsafe_in.iter().any(|place| {
        place == "."
            || inside
                .strip_prefix(place.as_str())
                .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    })
}

fn holds_unsafe(tokens: TokenStream) -> bool {
    let mut pending = vec![tokens];
    while let Some(tokens) = pending.pop() {
        for token in tokens {
            match token {
                TokenTree::Ident(word) if word == "unsafe" => return true,
                TokenTree::Group(group) => pending.push(group.stream()),
                _ => {}
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::said;

    #[test]
    fn unsafe_code_outside_its_place_is_a_problem() {
        let layers = "[[layer]]\nname = 'tensor'\nwhat = ''\nunsafe = ['storage']
            [[layer]]\nname = 'ir'\nwhat = ''";
        let (_folder, tree) = Tree::of(&[
            ("xtask/layers.toml", layers),
            ("crates/ir/src/lib.rs", "//! IR."),
            (
                "crates/tensor/src/lib.rs",
                "// unsafe in a comment\nfn f() { \"unsafe\"; }",
            ),
            ("crates/tensor/src/storage.rs", "unsafe fn f() {}"),
            ("crates/tensor/src/storage/owned.rs", "unsafe fn f() {}"),
            ("crates/tensor/src/storages.rs", "fn f() { unsafe { g() } }"),
            ("crates/tensor/tests/counting.rs", "unsafe impl X for Y {}"),
        ]);
        assert_eq!(
            said(&check(&tree).unwrap()),
            [
                "crates/tensor/src/storages.rs: storages.rs holds unsafe code; it may stand in storage alone",
                "crates/ir/src/lib.rs: lacks `#![forbid(unsafe_code)]`",
            ]
        );
    }
}
