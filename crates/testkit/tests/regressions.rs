//! What fuzzing found once, and what it starts from, goes through the fuzz targets again.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic, and say what it did"
)]

use kiln_codegen_llvm::LlvmCompiler;
use kiln_kernel::KernelCompiler;
use kiln_testkit::targets::{COMPILED_TARGETS, TARGETS, seeds};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn folder(kind: &str, target: &str) -> PathBuf {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    fuzz.join(kind).join(target)
}

fn files(kind: &str, target: &str) -> Vec<PathBuf> {
    let folder = folder(kind, target);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Runs a target on its seeds and finds.
fn replay(name: &str, target: impl Fn(&[u8])) {
    let seeds = files("seeds", name);
    assert!(seeds.len() >= 3, "{name} has seeds to start from");
    for path in seeds.into_iter().chain(files("regressions", name)) {
        println!("{}", path.display());
        target(&std::fs::read(&path).unwrap());
    }
}

#[test]
fn finds_and_seeds_of_the_fuzzers_keep_the_laws() {
    for (name, target) in TARGETS {
        replay(name, target);
    }
}

#[test]
fn finds_and_seeds_of_the_fuzzers_keep_the_laws_as_machine_code() {
    let compiler: Arc<dyn KernelCompiler> = Arc::new(LlvmCompiler::new());
    for (name, target) in COMPILED_TARGETS {
        replay(name, |bytes| target(&compiler, bytes));
    }
}

#[test]
fn every_target_has_its_program_and_its_row() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let read = |name: &str| std::fs::read_to_string(fuzz.join(name)).unwrap();
    let (manifest, readme) = (read("Cargo.toml"), read("README.md"));
    let names = TARGETS.map(|(name, _)| name).into_iter();
    for name in names.chain(COMPILED_TARGETS.map(|(name, _)| name)) {
        let program = read(&format!("fuzz_targets/{name}.rs"));
        assert!(program.contains(&format!("targets::{name}(")), "{name}");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
        assert!(readme.contains(&format!("| `{name}` |")), "{name}");
    }
}

#[test]
#[ignore = "writes files: cargo test -p kiln-testkit --test regressions -- --ignored seeds_are_written_anew"]
fn seeds_are_written_anew() {
    for (target, name, bytes) in seeds() {
        let folder = folder("seeds", target);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}
