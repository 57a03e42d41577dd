//! Past findings and seeds of fuzzing are run through the fuzz targets again; so are damaged seeds, different ones
//! every day. `KILN_TEST_BASE` and `KILN_TEST_SECONDS` are as in `kiln_testkit::random`; `KILN_TEST_TARGET` names one
//! target.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic, and say what it did"
)]

use kiln_backend::KernelCompiler;
use kiln_codegen_llvm::LlvmCompiler;
use kiln_testkit::cases;
use kiln_testkit::random::{SeedsOfTheDay, SplitMix64, seeded_bytes};
use kiln_testkit::targets::{COMPILED_TARGETS, TARGETS, seeds};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The function of a target.
type Run = Box<dyn Fn(&[u8])>;

fn folder(kind: &str, target: &str) -> PathBuf {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    fuzz.join(kind).join(target)
}

fn files(kind: &str, target: &str) -> Vec<PathBuf> {
    let folder = folder(kind, target);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    // The examples of the kernel form are seeds as they are.
    if kind == "seeds" && ["read_kernel", "run_kernel"].contains(&target) {
        let examples = std::fs::read_dir(cases::folder().join("examples")).unwrap();
        files.extend(examples.map(|entry| entry.unwrap().path()));
    }
    files.sort();
    files
}

/// Runs a target on its seeds and findings.
fn replay(name: &str, target: impl Fn(&[u8])) {
    let seeds = files("seeds", name);
    assert!(seeds.len() >= 3, "{name} has seeds to start from");
    for path in seeds.into_iter().chain(files("regressions", name)) {
        println!("{}", path.display());
        target(&std::fs::read(&path).unwrap());
    }
}

#[test]
fn fuzz_findings_and_seeds_pass() {
    for (name, target) in TARGETS {
        replay(name, target);
    }
}

#[test]
fn fuzz_findings_and_seeds_pass_as_machine_code() {
    let compiler: Arc<dyn KernelCompiler> = Arc::new(LlvmCompiler::new());
    for (name, target) in COMPILED_TARGETS {
        replay(name, |bytes| target(&compiler, bytes));
    }
}

/// Prints the name of the input if a target panics on it.
struct Told<'a>(&'a str, &'a Path, u64);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(name, path, number) = self;
            println!("{name}: {} with damage {number}", path.display());
        }
    }
}

/// Bytes with a few of them flipped, replaced, removed, repeated or copied from elsewhere.
fn damaged(mut bytes: Vec<u8>, number: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(number);
    for _ in 0..=random.below(4) {
        let length = bytes.len() as u64;
        let (at, end) = (random.below(length), random.below(length));
        let (at, end) = (at.min(end) as usize, at.max(end) as usize);
        let short = end.min(at + 16);
        match (random.below(6), bytes.get_mut(at)) {
            (0, Some(byte)) => *byte ^= 1 << random.below(8),
            (1, Some(byte)) => *byte = [0, 1, 0x7f, 0x80, 0xff, b'9'][random.below(6) as usize],
            (2, Some(_)) => drop(bytes.drain(at..short)),
            (3, Some(_)) => bytes.extend_from_within(at..short),
            (4, Some(_)) => {
                let piece = bytes[at..short].to_vec();
                let to = random.below(length) as usize;
                bytes.splice(to..to, piece);
            }
            _ => bytes.extend(seeded_bytes(number, 1 + random.below(8) as usize)),
        }
    }
    bytes
}

#[test]
fn damaged_seeds_of_the_day_pass() {
    let compiler: Arc<dyn KernelCompiler> = Arc::new(LlvmCompiler::new());
    let of_the_day = SeedsOfTheDay::begin();
    let plain = TARGETS.map(|(name, run)| {
        let run: Run = Box::new(run);
        (name, run)
    });
    let compiled = COMPILED_TARGETS.map(|(name, run)| {
        let compiler = Arc::clone(&compiler);
        let run: Run = Box::new(move |bytes| run(&compiler, bytes));
        (name, run)
    });
    let only = std::env::var("KILN_TEST_TARGET").ok();
    let mut targets: Vec<_> = plain.into_iter().chain(compiled).collect();
    targets.retain(|(name, _)| only.as_deref().is_none_or(|only| only == *name));
    let seeds: Vec<_> = targets
        .iter()
        .map(|(name, _)| files("seeds", name))
        .collect();
    let mut n_inputs = 0;
    'all: for number in of_the_day.first.. {
        for ((name, run), seeds) in targets.iter().zip(&seeds) {
            if !of_the_day.go_on() {
                break 'all;
            }
            let path = &seeds[(number % seeds.len() as u64) as usize];
            let _told = Told(name, path, number);
            run(&damaged(std::fs::read(path).unwrap(), number));
            n_inputs += 1;
        }
    }
    println!("{n_inputs} inputs");
}

#[test]
fn every_fuzz_target_has_a_program_and_a_table_row() {
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
#[ignore = "writes files: cargo test -p kiln-testkit --test regressions -- --ignored fuzz_seeds_are_regenerated"]
fn fuzz_seeds_are_regenerated() {
    for (target, name, bytes) in seeds() {
        let folder = folder("seeds", target);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}
