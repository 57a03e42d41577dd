//! `cargo xtask python`: builds the Python package and tests it in an environment of its own.
//!
//! With `--wheel`, a wheel is built by maturin, with the compiler's library in it, and installed into a bare environment. With
//! `--torch`, the backend for `torch.compile` is tested in an environment that has PyTorch, which is large.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::flags::PythonOptions;
use crate::python::{self, Needs};
use crate::workspace::{self, Metadata};
use crate::{setup, step};

/// The packages that the tests need.
pub(crate) const TESTS: Needs<'_> = Needs {
    task: "python",
    what: "packages of the tests",
    list: "crates/python/tests/packages.txt",
};

/// The packages that the tests of the backend for PyTorch need.
pub(crate) const TORCH: Needs<'_> = Needs {
    task: "python",
    what: "packages of the tests with PyTorch",
    list: "crates/python/tests/torch_backend/packages.txt",
};

/// The package's folder.
const PACKAGE: &str = "crates/python";

/// Builds and tests the package.
pub(crate) fn run(options: PythonOptions) -> Result<()> {
    setup::run()?;
    let root = workspace::root();
    let target = Metadata::load(&root)?.target_directory;
    if options.torch {
        let python = python::python(&root, target.join("python/torch"), &TORCH)?;
        let package = in_development(&root, &target)?;
        tests(&root, &python, Some(&package), "tests/torch_backend")?;
    }
    if options.wheel || !options.torch {
        let python = python::python(&root, target.join("python/tests"), &TESTS)?;
        match options.wheel {
            true => wheel(&root, &target, &python)?,
            false => in_place(&root, &target, &python)?,
        }
    }
    Ok(())
}

/// Tests the library of the development build, beside the package's own files.
pub(crate) fn in_place(root: &Path, target: &Path, python: &Path) -> Result<()> {
    let package = in_development(root, target)?;
    tests(root, python, Some(&package), "tests")
}

/// Builds the library, and puts it beside the package's own files; returns the folder to import from.
fn in_development(root: &Path, target: &Path) -> Result<PathBuf> {
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
    Ok(package)
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
    tests(root, python, None, "tests")?;
    println!("{}", wheel.display());
    Ok(())
}

fn tests(root: &Path, python: &Path, package: Option<&Path>, folder: &str) -> Result<()> {
    let mut tests = Command::new(python);
    tests
        .args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"])
        .arg(root.join(PACKAGE).join(folder));
    if let Some(package) = package {
        tests.env("PYTHONPATH", package);
    }
    step::run("Python package", &mut tests)
}

/// Copies the files of a folder and of those in it.
fn copy_package(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in
        std::fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?
    {
        let path = entry?.path();
        let Some(name) = path.file_name().filter(|name| *name != "__pycache__") else {
            continue;
        };
        match path.is_dir() {
            true => copy_package(&path, &to.join(name))?,
            false => {
                std::fs::copy(&path, to.join(name))
                    .with_context(|| format!("cannot copy {}", path.display()))?;
            }
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
