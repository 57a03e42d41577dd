//! What fuzzing found once, and what it starts from, goes through the fuzz targets again.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic, and say what it did"
)]

use kiln_testkit::targets::TARGETS;
use std::path::{Path, PathBuf};

fn files(folder: &str, target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz")
        .join(folder)
        .join(target);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn finds_and_seeds_of_the_fuzzers_keep_the_laws() {
    for (name, target) in TARGETS {
        let seeds = files("seeds", name);
        assert!(seeds.len() >= 3, "{name} has seeds to start from");
        for path in seeds.into_iter().chain(files("regressions", name)) {
            println!("{}", path.display());
            target(&std::fs::read(&path).unwrap());
        }
    }
}
