//! Locks and once-cells that can deadlock a forked child.
//!
//! A child has none of its parent's other threads, so a lock of `std::sync` that one of them held stays locked forever.
//! Crates use those of `kiln-fork-lock`; each exempt file is in `ALLOWED`, with the reason why it is safe there.

use anyhow::Result;

use super::paths::{is_test_file, picked};
use super::tree::{Problem, Tree};

/// The types of `std::sync` that block.
const BLOCKING: [&str; 6] = ["Mutex", "RwLock", "Condvar", "OnceLock", "LazyLock", "Once"];

/// Files that use them, and the reason why a forked child never waits there.
const ALLOWED: [(&str, &str); 24] = [
    (
        "crates/fork-lock/src/lock.rs",
        "waits only in the process that made it",
    ),
    (
        "crates/codegen-llvm/src/crash.rs",
        "set once by the program, read without blocking",
    ),
    (
        "crates/codegen-llvm/src/session.rs",
        "a list of one compile is its own",
    ),
    (
        "crates/codegen-llvm/src/setup.rs",
        "a child that was forked meanwhile is refused and does not wait",
    ),
    (
        "crates/native/src/builtin/parallel.rs",
        "of one call, whose threads have left when it ends",
    ),
    (
        "crates/native/src/executor/phase_job.rs",
        "of one call, whose threads have left when it ends",
    ),
    (
        "crates/lazy-runtime/src/sync.rs",
        "the queue of compile threads, which a child never uses",
    ),
    (
        "crates/lazy-runtime/src/compile/workers.rs",
        "compile threads, which a child never uses",
    ),
    (
        "crates/lazy-runtime/src/pool/spin.rs",
        "taken with bounded tries; a child has no workers",
    ),
    (
        "crates/lazy-runtime/src/pool/sync.rs",
        "the names that the pool's model checker replaces",
    ),
    (
        "crates/compile-worker/src/pool.rs",
        "the pool of one process: a child starts a pool of its own",
    ),
    (
        "crates/kernel-cache/src/sync.rs",
        "flights and memory, which a child passes by",
    ),
    (
        "crates/kernel-cache/src/cache.rs",
        "makes what `cache/inner.rs` locks",
    ),
    (
        "crates/kernel-cache/src/cache/inner.rs",
        "asks `is_forked` first",
    ),
    (
        "crates/kernel-cache/src/cache/memory.rs",
        "had from `cache/inner.rs`, which asks `is_forked` first",
    ),
    (
        "crates/kernel-cache/src/collected.rs",
        "local to the saving of one bundle",
    ),
    (
        "crates/train/src/parallel/local.rs",
        "ranks are threads of their process: a child has none and is none",
    ),
    (
        "crates/kiln/src/model/origin/hashed.rs",
        "local to one load, on one thread",
    ),
    (
        "crates/kiln/src/compiled/bundle/save.rs",
        "local to the saving of one bundle",
    ),
    (
        "crates/service/src/service.rs",
        "the service of one process: a child starts a service of its own",
    ),
    (
        "crates/service/src/service/queue.rs",
        "the queue of compile threads, which a child never uses",
    ),
    (
        "crates/service/src/service/flight.rs",
        "a request of the service of one process",
    ),
    (
        "crates/service/src/layer.rs",
        "a layer whose stream is a thread of one process",
    ),
    (
        "crates/serve/src/queue.rs",
        "the queue of a server's threads, which a child does not have",
    ),
];

/// Libraries that run in calls: tools and tests are exempt.
const TOOLS: [&str; 2] = ["crates/cli/", "crates/testkit/"];

/// Checks the sources of every crate.
pub(super) fn check(tree: &Tree) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for path in tree.rust_files().filter(|path| is_library(path)) {
        let is_allowed = ALLOWED.iter().any(|(allowed, _)| allowed == &path);
        for name in picked(tree, path, blocking)?
            .into_iter()
            .filter(|_| !is_allowed)
        {
            let message = format!(
                "uses `std::sync::{name}`, which can deadlock a forked child; use `kiln-fork-lock`"
            );
            problems.push(Problem::new(path, message));
        }
    }
    Ok(problems)
}

fn is_library(path: &str) -> bool {
    let is_source = path.starts_with("crates/") && path.contains("/src/");
    is_source && !is_test_file(path) && !TOOLS.iter().any(|tool| path.starts_with(tool))
}

/// The blocking type of `std::sync` that a path names.
fn blocking(path: &[String]) -> Option<&'static str> {
    let [first, sync, name, ..] = path else {
        return None;
    };
    let known = BLOCKING.into_iter().find(|blocking| blocking == name);
    known.filter(|_| first == "std" && sync == "sync")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::said;

    #[test]
    fn a_blocking_type_outside_the_list_is_a_problem() {
        let (_folder, tree) = Tree::of(&[
            ("crates/ir/src/a.rs", "use std::sync::{Arc, OnceLock};"),
            (
                "crates/ir/src/b.rs",
                "fn f() { std::sync::Mutex::new(1); } #[cfg(test)] mod tests { use std::sync::Once; }",
            ),
            ("crates/ir/src/tests.rs", "use std::sync::Mutex;"),
            ("crates/fork-lock/src/lock.rs", "use std::sync::Mutex;"),
            ("crates/cli/src/main.rs", "use std::sync::Mutex;"),
        ]);
        let why = "which can deadlock a forked child; use `kiln-fork-lock`";
        assert_eq!(
            said(&check(&tree).unwrap()),
            [
                format!("crates/ir/src/a.rs: uses `std::sync::OnceLock`, {why}"),
                format!("crates/ir/src/b.rs: uses `std::sync::Mutex`, {why}"),
            ]
        );
    }
}
