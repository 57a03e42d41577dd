//! The shared libraries that a program needs: which are shipped, from which packages of the system they are.
//!
//! glibc is never shipped: its loader and its libraries must fit each other and the system's configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::archive;
use crate::step;

/// The libraries of glibc, and of the kernel.
const SYSTEM: [&str; 10] = [
    "ld-linux",
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libmvec.so.1",
    "libpthread.so.0",
    "libresolv.so.2",
    "librt.so.1",
    "libutil.so.1",
    "linux-vdso",
];

/// The libraries that a wheel omits, because the standard for wheels states that every system has them (PEP 600, as
/// interpreted by auditwheel).
const NOT_IN_WHEELS: [&str; 3] = ["libgcc_s.so", "libstdc++.so", "libz.so"];

/// A library as the loader found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Library {
    /// The name by which it is looked up.
    pub(super) name: String,
    pub(super) file: PathBuf,
}

/// Everything that the loader maps for a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Libraries {
    pub(super) shipped: Vec<Library>,
    /// The libraries of glibc, including its loader.
    pub(super) system: Vec<Library>,
}

/// A package of the system, with those of its libraries that are shipped.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    /// The source package from which it is built: where its source is found.
    pub(super) source: String,
    /// Names and digests.
    pub(super) libraries: Vec<(String, String)>,
}

/// A version of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub(super) u32, pub(super) u32);

impl Library {
    /// Whether a wheel has it too.
    pub(super) fn is_in_wheels(&self) -> bool {
        !NOT_IN_WHEELS.iter().any(|name| self.name.starts_with(name))
    }
}

impl Libraries {
    /// The libraries of a program, as the loader resolves them here.
    pub(super) fn of(program: &Path) -> Result<Self> {
        let listing = step::output(Command::new("ldd").arg(program))?;
        Self::read(&listing).with_context(|| format!("cannot ship {}", program.display()))
    }

    fn read(listing: &str) -> Result<Self> {
        let mut libraries = Self::default();
        for line in listing.lines() {
            // `name => path (address)`, or `path (address)` for the loader, which programs name by its path.
            let line = line.trim();
            let (name, place) = line.split_once(" => ").unwrap_or((line, line));
            let file = place.split(" (").next().unwrap_or(place);
            if file.contains("not found") {
                bail!("{name} is not found");
            }
            let name = name.split(" (").next().unwrap_or(name);
            let name = name.rsplit('/').next().unwrap_or(name);
            if name.is_empty() || name.starts_with("linux-vdso") {
                continue;
            }
            let library = Library {
                name: name.to_owned(),
                file: PathBuf::from(file),
            };
            match SYSTEM.iter().any(|system| name.starts_with(system)) {
                true => libraries.system.push(library),
                false => libraries.shipped.push(library),
            }
        }
        Ok(libraries)
    }
}

/// The oldest glibc that has everything that these files need.
pub(super) fn required_glibc(files: &[PathBuf]) -> Result<Version> {
    let mut command = Command::new("readelf");
    command.args(["--version-info", "--wide"]).args(files);
    let listing = step::output(&mut command)?;
    newest(&listing).context("expected versions of glibc in the files of the release, found none")
}

/// The newest version that a listing of readelf names.
fn newest(listing: &str) -> Option<Version> {
    let names = listing.split(|letter: char| letter.is_whitespace() || "(),".contains(letter));
    let versions = names.filter_map(|name| {
        let (major, minor) = name.strip_prefix("GLIBC_")?.split_once('.')?;
        // `2.2.5` is older than every 2.N that matters.
        let minor = minor.split('.').next()?;
        Some(Version(major.parse().ok()?, minor.parse().ok()?))
    });
    versions.max()
}

/// The packages that contain the libraries.
///
/// # Errors
/// On a system whose package manager is not dpkg, from which the licences of the libraries are known.
pub(super) fn packages(libraries: &[Library]) -> Result<Vec<Package>> {
    let mut packages: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for library in libraries {
        let package = package_of(&library.file)?;
        let entry = (library.name.clone(), archive::sha256(&library.file)?);
        packages.entry(package).or_default().push(entry);
    }
    let described = packages.into_iter().map(|(package, mut libraries)| {
        libraries.sort();
        describe(&package, libraries)
    });
    described.collect()
}

fn package_of(file: &Path) -> Result<String> {
    let file = file
        .canonicalize()
        .with_context(|| format!("cannot find {}", file.display()))?;
    // Packages may name a file by the path that it had before /lib became a link to /usr/lib.
    let before = file
        .strip_prefix("/usr")
        .map(|rest| Path::new("/").join(rest));
    let names = std::iter::once(file.clone()).chain(before);
    for name in names {
        let found = step::output(Command::new("dpkg-query").arg("--search").arg(name));
        if let Some(package) = found.ok().and_then(|line| owner(&line)) {
            return Ok(package);
        }
    }
    bail!(
        "expected {} to be from a package that dpkg knows, whose licence is then shipped with it; make releases on Debian",
        file.display()
    )
}

/// The package in a line `package:architecture: path`.
fn owner(line: &str) -> Option<String> {
    let (package, _) = line.lines().next()?.split_once(": ")?;
    (!package.contains(' ')).then(|| package.to_owned())
}

fn describe(package: &str, libraries: Vec<(String, String)>) -> Result<Package> {
    const FORMAT: &str = "${Package} ${Version} ${source:Package} ${source:Version}";
    let mut command = Command::new("dpkg-query");
    command
        .args(["--show", "--showformat", FORMAT])
        .arg(package);
    let line = step::output(&mut command)?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[name, version, source, source_version] = words.as_slice() else {
        bail!("cannot read what dpkg-query printed of {package}: {line}");
    };
    Ok(Package {
        name: name.to_owned(),
        version: version.to_owned(),
        source: format!("{source} {source_version}"),
        libraries,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glibc_is_not_shipped() {
        let listing = "\tlinux-vdso.so.1 (0x00007f61ce6d1000)
\tlibLLVM.so.19.1 => /lib/x86_64-linux-gnu/libLLVM.so.19.1 (0x00007f61c4c00000)
\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f61c4b00000)
\tlibmd.so.0 => /lib/x86_64-linux-gnu/libmd.so.0 (0x00007f61c4b00000)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f61ce6d3000)
";
        let libraries = Libraries::read(listing).unwrap();
        let names = |list: &[Library]| -> Vec<String> {
            list.iter().map(|library| library.name.clone()).collect()
        };
        assert_eq!(names(&libraries.shipped), ["libLLVM.so.19.1", "libmd.so.0"]);
        assert_eq!(
            names(&libraries.system),
            ["libm.so.6", "ld-linux-x86-64.so.2"]
        );
        assert_eq!(
            libraries.system[1].file,
            Path::new("/lib64/ld-linux-x86-64.so.2")
        );
        let missing = Libraries::read("\tlibLLVM.so.19.1 => not found\n").unwrap_err();
        assert_eq!(missing.to_string(), "libLLVM.so.19.1 is not found");
    }

    #[test]
    fn wheels_leave_out_what_every_system_has() {
        let in_wheels = |name: &str| {
            let (name, file) = (name.to_owned(), PathBuf::new());
            Library { name, file }.is_in_wheels()
        };
        assert!(!in_wheels("libz.so.1") && !in_wheels("libstdc++.so.6"));
        assert!(in_wheels("libz3.so.4") && in_wheels("libzstd.so.1"));
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let listing = "  000:   0 (*local*)       2 (GLIBC_2.2.5)   3 (GLIBC_2.34)
  0x0010:   Name: GLIBC_2.9  Flags: none  Version: 4
  Name: GLIBC_PRIVATE  Name: GLIBCXX_3.4.30";
        assert_eq!(newest(listing), Some(Version(2, 34)));
        assert_eq!(newest("GCC_3.0"), None);
    }

    #[test]
    fn a_file_has_one_owner() {
        let line = "libllvm19:amd64: /usr/lib/x86_64-linux-gnu/libLLVM.so.19.1\n";
        assert_eq!(owner(line).as_deref(), Some("libllvm19:amd64"));
        assert_eq!(owner("diversion by a from: /x"), None);
    }
}
