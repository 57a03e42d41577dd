//! `cargo xtask python`: builds the Python package and tests it in an environment of its own.
//!
//! With `--wheel`, a wheel is built by maturin, with the compiler's library in it, and installed into a bare environment.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::python::{self, Needs};
use crate::workspace::{self, Metadata};
use crate::{setup, step};

/// The packages that the tests need.
pub(crate) const TESTS: Needs<'_> = Needs {
    task: "python",
    what: "packages of the tests",
    list: "crates/python/tests/packages.txt",
};

/// The package's folder.
const PACKAGE: &str = "crates/python";

/// Builds and tests the package.
pub(crate) fn run(makes_wheel: bool) -> Result<()> {
    setup::run()?;
    let root = workspace::root();
    let target = Metadata::load(&root)?.target_directory;
    let python = python::python(&root, target.join("python/tests"), &TESTS)?;
    match makes_wheel {
        true => wheel(&root, &target, &python),
        false => in_place(&root, &target, &python),
    }
}

/// Tests the library of the development build, beside the package's own files.
pub(crate) fn in_place(root: &Path, target: &Path, python: &Path) -> Result<()> {
    let mut build = Command::new("cargo");
    build
        .current_dir(root)
        .args(["build", "--package", "kiln-python"]);
    step::run("Python extension", &mut build)?;
    let package = target.join("python/package");
    copy_package(
        &root.join(PACKAGE).join("python/kiln"),
        &package.join("kiln"),
    )?;
    let library = target.join("debug/lib_kiln.so");
    std::fs::copy(&library, package.join("kiln/_kiln.abi3.so"))
        .with_context(|| format!("cannot copy {}", library.display()))?;
    tests(root, python, Some(&package))
}

/// Builds a wheel, installs it into the tests' environment, and tests it there.
fn wheel(root: &Path, target: &Path, python: &Path) -> Result<()> {
    let folder = target.join("python/wheels");
    let mut build = Command::new(python);
    build
        .current_dir(root.join(PACKAGE))
        .args([
            "-m",
            "maturin",
            "build",
            "--release",
            "--auditwheel",
            "repair",
            "--out",
        ])
        .arg(&folder);
    step::run("wheel", &mut build)?;
    let wheel = newest(&folder)?;
    let mut install = Command::new(python);
    install
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--force-reinstall",
            "--no-deps",
        ])
        .arg(&wheel);
    step::run("wheel, installed", &mut install)?;
    tests(root, python, None)?;
    println!("{}", wheel.display());
    Ok(())
}

fn tests(root: &Path, python: &Path, package: Option<&Path>) -> Result<()> {
    let mut tests = Command::new(python);
    tests
        .args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"])
        .arg(root.join(PACKAGE).join("tests"));
    if let Some(package) = package {
        tests.env("PYTHONPATH", package);
    }
    step::run("Python package", &mut tests)
}

/// Copies the files of a folder.
fn copy_package(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in
        std::fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?
    {
        let path = entry?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_file()) {
            std::fs::copy(&path, to.join(name))
                .with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}

/// The wheel that was built last.
fn newest(folder: &Path) -> Result<PathBuf> {
    let mut wheels = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "whl") {
            wheels.push((path.metadata()?.modified()?, path));
        }
    }
    match wheels.into_iter().max() {
        Some((_, wheel)) => Ok(wheel),
        None => bail!("no wheel in {}", folder.display()),
    }
}
