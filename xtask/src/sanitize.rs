//! `cargo xtask sanitize`: the suites of the crates with unsafe code under the sanitizers of nightly, and a few compiled
//! kernels under valgrind.
//!
//! Invariants: everything skipped is reported, with the reason and the remedy. The address sanitizer checks for leaks too.
//! Compiled kernels are instrumented by none of them: their tests put operands next to guard pages instead, and valgrind
//! runs the machine code directly.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::nightly::Nightly;
use crate::{setup, step, workspace};

/// The packages with unsafe code, and those that depend on them; with the arguments of their tests.
const SUITES: [Suite; 7] = [
    Suite::whole("kiln-tensor"),
    Suite::whole("kiln-fork-lock"),
    Suite::whole("kiln-native"),
    Suite::whole("kiln-kernel-cache"),
    Suite::whole("kiln-lazy-runtime"),
    // Every schedule at every level on every case file, and the two with random input, on a few seeds.
    Suite {
        package: "kiln-codegen-llvm",
        tests: &[
            "features",
            "files",
            "products",
            "random_kernels",
            "random_graphs",
            "winograd",
        ],
    },
    Suite {
        package: "kiln",
        tests: &["backends", "bundles", "cache", "model", "stored_programs"],
    },
];

/// The seeds of random kernels and graphs for sanitizers that make them slow.
const SEEDS: &str = "0..30";

/// Tests of guard pages check the signal that ends a process, so the sanitizer leaves it to the system; and a failed
/// allocation returns a null pointer, as from any allocator.
const ASAN: &str =
    "detect_leaks=1:allocator_may_return_null=1:handle_segv=0:handle_sigbus=0:handle_sigfpe=0";

/// Leaks that are not ours: memory that LLVM keeps for the lifetime of the process.
const LEAKS: &str = "leak:libLLVM\n";

/// Tests of compiled kernels that valgrind runs: a few, as each takes a hundred times as long.
const WATCHED: (&str, &str, &str) = ("kiln-codegen-llvm", "files", "maps");

/// One package's tests.
#[derive(Debug)]
struct Suite {
    package: &'static str,
    /// Test targets; if empty, all of them, including those of the library.
    tests: &'static [&'static str],
}

/// A sanitizer's name, and its requirements.
struct Sanitizer {
    name: &'static str,
    finds: &'static str,
    /// Whether the library must be built with it: otherwise it reports false positives.
    needs_source: bool,
}

const SANITIZERS: [Sanitizer; 3] = [
    Sanitizer {
        name: "address",
        finds: "accesses outside of memory, after it was freed, and leaks",
        needs_source: false,
    },
    Sanitizer {
        name: "thread",
        finds: "data races",
        needs_source: true,
    },
    Sanitizer {
        name: "memory",
        finds: "reads of what was never written",
        needs_source: true,
    },
];

impl Suite {
    const fn whole(package: &'static str) -> Self {
        Self {
            package,
            tests: &[],
        }
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--package".to_owned(), self.package.to_owned()];
        if self.tests.is_empty() {
            arguments.extend(["--lib", "--tests"].map(str::to_owned));
        }
        for test in self.tests {
            arguments.extend(["--test".to_owned(), (*test).to_owned()]);
        }
        arguments
    }
}

/// Runs the sanitizers that can run.
pub(crate) fn run(packages: &[String]) -> Result<()> {
    setup::run()?;
    let root = workspace::root();
    let suites = chosen(packages)?;
    let nightly = Nightly::find()?;
    let mut skipped = Vec::new();
    let mut failed = Vec::new();
    for sanitizer in &SANITIZERS {
        if let Some(why) = cannot_run(sanitizer, &nightly) {
            skipped.push(why);
            continue;
        }
        for suite in &suites {
            let title = format!("{} under the {} sanitizer", suite.package, sanitizer.name);
            let mut command = sanitized(&nightly, &root, sanitizer, suite)?;
            if let Err(error) = step::run(&title, &mut command) {
                println!("sanitize: {error:#}");
                failed.push(title);
            }
        }
    }
    if !setup::succeeds(&["valgrind", "--version"]) {
        skipped.push(
            "valgrind: expected the command, found none; install it from your system".to_owned(),
        );
    } else if suites.iter().any(|suite| suite.package == WATCHED.0) {
        let title = "compiled kernels under valgrind";
        if let Err(error) = step::run(title, &mut watched(&root)) {
            println!("sanitize: {error:#}");
            failed.push(title.to_owned());
        }
    }
    for why in &skipped {
        println!("SKIPPED: {why}");
    }
    if !failed.is_empty() {
        bail!("{} of the runs failed: {}", failed.len(), failed.join("; "));
    }
    println!("sanitize: clean, {} kinds skipped", skipped.len());
    Ok(())
}

/// Why a sanitizer cannot run with this toolchain.
fn cannot_run(sanitizer: &Sanitizer, nightly: &Nightly) -> Option<String> {
    let Sanitizer { name, finds, .. } = sanitizer;
    if !sanitizer.needs_source || (*name == "thread" && nightly.has_source()) {
        return None;
    }
    // LLVM's library would have to be instrumented as well.
    let why = match *name {
        "memory" => "every library must be built with it, and LLVM's is not".to_owned(),
        _ => "Rust's own library must be built with it, and its source is not here; \
              `rustup component add rust-src --toolchain nightly` brings it"
            .to_owned(),
    };
    Some(format!("the {name} sanitizer ({finds}): {why}"))
}

fn sanitized(
    nightly: &Nightly,
    root: &Path,
    sanitizer: &Sanitizer,
    suite: &Suite,
) -> Result<Command> {
    let folder = root.join("target").join("sanitize").join(sanitizer.name);
    std::fs::create_dir_all(&folder)?;
    let leaks = folder.join("leaks.txt");
    std::fs::write(&leaks, LEAKS)?;
    let mut command = nightly.cargo();
    command
        .current_dir(root)
        .arg("test")
        .args(suite.arguments())
        .args(["--no-fail-fast", "--target", &nightly.host, "--target-dir"])
        .arg(&folder)
        // With a target, build scripts and macros are unaffected.
        .env("RUSTFLAGS", format!("-Zsanitizer={}", sanitizer.name))
        .env("ASAN_OPTIONS", ASAN)
        .env(
            "LSAN_OPTIONS",
            format!("suppressions={}:print_suppressions=0", leaks.display()),
        )
        .env("KILN_TEST_KERNELS", SEEDS)
        .env("KILN_TEST_GRAPHS", SEEDS);
    if sanitizer.needs_source {
        command.arg("-Zbuild-std");
    }
    Ok(command)
}

/// Some compiled kernels under valgrind, in the usual build.
fn watched(root: &Path) -> Command {
    let (package, test, filter) = WATCHED;
    let runner = "valgrind --quiet --error-exitcode=9 --smc-check=all-non-file";
    let triple = format!("CARGO_TARGET_{}_RUNNER", host_variable());
    let mut command = Command::new(workspace::cargo());
    command
        .current_dir(root)
        .args(["test", "--package", package, "--test", test, "--", filter])
        .args(["--test-threads", "1"])
        .env(triple, runner);
    command
}

/// Cargo's spelling of this machine's target in its variables.
fn host_variable() -> String {
    let vendor = if cfg!(target_vendor = "apple") {
        "APPLE_DARWIN"
    } else {
        "UNKNOWN_LINUX_GNU"
    };
    format!("{}_{vendor}", std::env::consts::ARCH.to_uppercase())
}

fn chosen(packages: &[String]) -> Result<Vec<&'static Suite>> {
    let known = |name: &String| SUITES.iter().any(|suite| suite.package == name);
    if let Some(other) = packages.iter().find(|name| !known(name)) {
        let names: Vec<&str> = SUITES.iter().map(|suite| suite.package).collect();
        bail!("expected a package ({}), found `{other}`", names.join(", "));
    }
    let is_chosen =
        |suite: &&Suite| packages.is_empty() || packages.iter().any(|name| name == suite.package);
    Ok(SUITES.iter().filter(is_chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_name_packages_and_tests_that_are_there() {
        let root = workspace::root();
        for suite in &SUITES {
            let folder = suite.package.strip_prefix("kiln-").unwrap_or(suite.package);
            let tests = root.join("crates").join(folder).join("tests");
            for test in suite.tests {
                assert!(tests.join(format!("{test}.rs")).is_file(), "{test}");
            }
            assert!(root.join("crates").join(folder).is_dir(), "{folder}");
        }
    }

    #[test]
    fn an_unknown_package_is_refused_with_the_known_ones() {
        assert_eq!(chosen(&[]).unwrap().len(), SUITES.len());
        assert_eq!(chosen(&["kiln-native".to_owned()]).unwrap().len(), 1);
        let error = chosen(&["kiln-ir".to_owned()]).unwrap_err().to_string();
        assert!(
            error.contains("`kiln-ir`") && error.contains("kiln-tensor"),
            "{error}"
        );
    }

    #[test]
    fn named_test_targets_run_or_else_all_of_them() {
        let all = SUITES[0].arguments().join(" ");
        assert_eq!(all, "--package kiln-tensor --lib --tests");
        let some = Suite {
            package: "kiln",
            tests: &["cache", "model"],
        };
        assert_eq!(
            some.arguments().join(" "),
            "--package kiln --test cache --test model"
        );
    }
}
