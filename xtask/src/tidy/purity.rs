//! The outside world: which crates may read the environment, touch files, start threads or read the time.
//!
//! `xtask/layers.toml` defines it; this looks for `std::env`, `std::fs` and so on in paths and imports of `src/`. Tests and
//! build scripts are exempt. It reads names, not meaning: a library that does I/O for us is not seen.

use anyhow::Result;

use super::layers::Layers;
use super::paths::{is_test_file, picked};
use super::tree::{Problem, Tree};

/// The parts of the outside world, as modules of `std`; the table uses the same names.
const WORLD: [&str; 6] = ["env", "fs", "process", "net", "thread", "time"];

/// Items of those modules that do not access the outside world.
const HARMLESS: [&str; 4] = ["Duration", "LocalKey", "panicking", "ThreadId"];

/// Checks every crate of the table that exists.
pub(super) fn check(tree: &Tree) -> Result<Vec<Problem>> {
    let layers = Layers::load(tree)?;
    let mut problems = Vec::new();
    for layer in &layers.all {
        let folder = format!("crates/{}/src/", layer.name);
        for path in tree
            .rust_files()
            .filter(|path| path.starts_with(&folder) && !is_test_file(path))
        {
            for what in picked(tree, path, reached)?
                .into_iter()
                .filter(|what| !layer.touches.iter().any(|its| its == what))
            {
                let message = format!(
                    "uses `std::{what}`; `{}` may not reach it (xtask/layers.toml)",
                    layer.name
                );
                problems.push(Problem::new(path, message));
            }
        }
    }
    Ok(problems)
}

/// The part of the outside world to which a path belongs.
fn reached(path: &[String]) -> Option<&'static str> {
    let [first, module, rest @ ..] = path else {
        return None;
    };
    let is_harmless = rest
        .first()
        .is_some_and(|item| HARMLESS.contains(&item.as_str()));
    let known = WORLD.into_iter().find(|name| name == module);
    known.filter(|_| first == "std" && !is_harmless)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::said;

    #[test]
    fn outside_access_not_allowed_by_the_table_is_a_problem() {
        let layers = "[[layer]]\nname = 'ir'\nwhat = ''
            [[layer]]\nname = 'onnx'\nwhat = ''\ntouches = ['fs']";
        let (_folder, tree) = Tree::of(&[
            ("xtask/layers.toml", layers),
            (
                "crates/ir/src/lib.rs",
                "use std::{fs::File, time::Duration}; fn f() { std::env::var(\"A\"); }",
            ),
            (
                "crates/ir/src/pure.rs",
                "#[cfg(test)] mod tests { use std::fs; }",
            ),
            ("crates/ir/src/tests.rs", "use std::fs;"),
            ("crates/onnx/src/lib.rs", "use std::fs::File;"),
        ]);
        assert_eq!(
            said(&check(&tree).unwrap()),
            [
                "crates/ir/src/lib.rs: uses `std::env`; `ir` may not reach it (xtask/layers.toml)",
                "crates/ir/src/lib.rs: uses `std::fs`; `ir` may not reach it (xtask/layers.toml)",
            ]
        );
    }
}
