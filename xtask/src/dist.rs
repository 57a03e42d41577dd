//! `cargo xtask dist`: what a release consists of, under `dist/`.
//!
//! A tarball of the `kiln` command, with the shared libraries that it needs (glibc apart), the licences of everything in it, and
//! a list of its components (SBOM); with `--wheel` also the Python package. The tarball is unpacked and run in a root that has
//! glibc and nothing else. Two runs on one machine write the same bytes.
//!
//! Not here: where a release is published.

mod archive;
mod bare_root;
mod components;
mod libraries;
mod licences;
mod sbom;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::flags::DistOptions;
use crate::python_package::{self, Legal};
use crate::workspace::{self, Metadata};
use crate::{build, setup, step};
use components::Components;
use libraries::Libraries;

/// The Python package's crate.
const PYTHON_PACKAGE: &str = "kiln-python";

/// Where a shipped program finds its libraries: in a folder next to its own. This also has to apply to the libraries of
/// its libraries, which is why the tag is the older one.
const SEARCH: &str = "link-arg=-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib";

/// One build of the command, and the destination of its files.
struct Release {
    root: PathBuf,
    target: PathBuf,
    /// The name of the tarball, and of its folder.
    name: String,
    /// The features of the command, as arguments of cargo.
    features: Vec<String>,
    /// Whether it has a compiler.
    compiles: bool,
}

/// Makes the release, and tests it.
pub(crate) fn run(options: DistOptions) -> Result<()> {
    if options.no_llvm && options.wheel {
        bail!(
            "expected one of --no-llvm and --wheel, found both: the Python package has a compiler"
        );
    }
    setup::run()?;
    let release = Release::new(options)?;
    let program = release.build()?;
    let archive = step::timed("files of the release", || release.write(&program))?;
    let dist = release.root.join("dist");
    if options.wheel {
        let wheel = release.wheel(&program)?;
        let name = wheel.file_name().context("a wheel has a name")?;
        archive::copy(&wheel, &dist.join(name))?;
    }
    archive::write_checksums(&dist)?;
    step::timed("the release in a bare root", || {
        let root = release.target.join("dist/root");
        bare_root::check(&archive, &release.name, &root, release.compiles)
    })?;
    println!("{}", archive.display());
    Ok(())
}

impl Release {
    fn new(options: DistOptions) -> Result<Self> {
        let root = workspace::root();
        let metadata = Metadata::load(&root)?;
        let command = metadata
            .members()
            .find(|package| package.name == build::COMMAND_PACKAGE)
            .context("the workspace has no command")?;
        // CUDA's libraries are looked up when a GPU is requested, so a build does not need them.
        let without = build::features_without_llvm(&metadata)?.filter(|_| options.no_llvm);
        let (kind, features) = match without {
            Some(others) => {
                let features = format!("cuda,{}", others.join(","));
                (
                    "-no-llvm",
                    vec![
                        "--no-default-features".to_owned(),
                        "--features".to_owned(),
                        features,
                    ],
                )
            }
            None => ("", vec!["--features".to_owned(), "cuda".to_owned()]),
        };
        let host = workspace::host_triple()?;
        Ok(Self {
            name: format!("kiln{kind}-{}-{host}", command.version),
            target: metadata.target_directory,
            root,
            features,
            compiles: kind.is_empty(),
        })
    }

    /// Builds the command; returns the program.
    fn build(&self) -> Result<PathBuf> {
        let mut command = Command::new(workspace::cargo());
        command
            .current_dir(&self.root)
            .args(["rustc", "--release", "--locked", "--bin", "kiln"])
            .args(["--package", build::COMMAND_PACKAGE])
            .args(&self.features)
            .args(["--", "-C", SEARCH, "-C", "strip=debuginfo"]);
        step::run("command", &mut command)?;
        Ok(self.target.join("release/kiln"))
    }

    /// Writes the folder of the release and its tarball; returns the tarball.
    fn write(&self, program: &Path) -> Result<PathBuf> {
        let folder = self.target.join("dist").join(&self.name);
        archive::make_empty(&folder)?;
        let libraries = Libraries::of(program)?;
        archive::copy(program, &folder.join("bin/kiln"))?;
        for library in &libraries.shipped {
            archive::copy(&library.file, &folder.join("lib").join(&library.name))?;
        }
        let glibc = libraries::required_glibc(&archive::files(&folder)?)?;
        let components = Components::of(&self.root, build::COMMAND_PACKAGE, &self.features)?;
        let packages = libraries::packages(&libraries.shipped)?;
        licences::collect(
            &self.root,
            &components,
            &packages,
            &folder.join("share/licences"),
        )?;
        for name in ["LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md"] {
            archive::copy(&self.root.join(name), &folder.join(name))?;
        }
        let sbom = sbom::text(&components, &packages)?;
        archive::write(&folder.join("share/kiln.cdx.json"), &sbom)?;
        self.write_generated(program, &folder)?;
        archive::write(&folder.join("README.md"), &self.readme(glibc))?;
        let dist = self.root.join("dist");
        archive::write(&dist.join(format!("{}.cdx.json", self.name)), &sbom)?;
        let tarball = dist.join(format!("{}.tar.gz", self.name));
        archive::pack(&folder, &tarball)?;
        Ok(tarball)
    }

    /// Builds the Python package, with the licences of its contents. Its libraries are those of the command, except
    /// those that every system has.
    fn wheel(&self, program: &Path) -> Result<PathBuf> {
        let folder = self.target.join("dist/wheel");
        archive::make_empty(&folder)?;
        let mut libraries = Libraries::of(program)?.shipped;
        libraries.retain(|library| library.is_in_wheels());
        let legal = Legal {
            licences: folder.join("licences"),
            components: folder.join("kiln.cdx.json"),
            libraries: libraries
                .iter()
                .map(|library| library.name.clone())
                .collect(),
        };
        let components = Components::of(&self.root, PYTHON_PACKAGE, &[])?;
        let packages = libraries::packages(&libraries)?;
        licences::collect(&self.root, &components, &packages, &legal.licences)?;
        archive::write(&legal.components, &sbom::text(&components, &packages)?)?;
        python_package::wheel_to_hand_out(&self.root, &self.target, &legal)
    }

    /// Writes the files that the program itself generates: completions and manual pages.
    fn write_generated(&self, program: &Path, folder: &Path) -> Result<()> {
        for (shell, file) in [
            ("bash", "bash-completion/completions/kiln"),
            ("zsh", "zsh/site-functions/_kiln"),
            ("fish", "fish/vendor_completions.d/kiln.fish"),
        ] {
            let script = step::output(Command::new(program).args(["completions", shell]))?;
            archive::write(&folder.join("share").join(file), &script)?;
        }
        let pages = folder.join("share/man/man1");
        fs::create_dir_all(&pages).with_context(|| format!("cannot make {}", pages.display()))?;
        step::output(Command::new(program).arg("man").arg(&pages))?;
        Ok(())
    }

    fn readme(&self, glibc: libraries::Version) -> String {
        let libraries::Version(major, minor) = glibc;
        format!(
            "# {name}

The `kiln` command, with everything that it needs. It runs from any folder, on systems with glibc {major}.{minor} or newer:

```sh
export PATH=$PWD/bin:$PATH
kiln doctor                                  # what this machine has
kiln run model.onnx --size batch=8           # a model, on inputs drawn at random
man -l share/man/man1/kiln.1
source share/bash-completion/completions/kiln
```

`bin/kiln` finds its libraries in `lib/`, and ignores those that the system may have. What is in here, and from where, is in
`share/kiln.cdx.json` (CycloneDX); the licences of all of it are in `share/licences`; what changed is in `CHANGELOG.md`.
",
            name = self.name
        )
    }
}
