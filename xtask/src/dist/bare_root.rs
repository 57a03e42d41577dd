//! A release, run in a root that has the loader and libraries of glibc, `/proc`, and nothing else: no shell, no LLVM.
//!
//! A root needs the rights of an administrator, or user namespaces; where neither is allowed the check is skipped, and says so.
//! `/proc` is where glibc's loader looks up the program's folder, and so its libraries; every system and container has it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::archive;
use super::libraries::Libraries;
use crate::step;

/// A program with several kernels.
const GRAPH: &str = "\
graph @mlp(%x: f32[B, 128], %w: f32[128, N], %b: f32[N]) -> f32[B, N] {
  %3: f32[B, N] = matmul %x, %w
  %4: f32[B, N] = add %3, %b
  %5: f32[B, N] = exp %4
  %6: f32[B, 1] = reduce %5 {function = sum, axes = [1], keep_dims}
  %7: f32[B, N] = div %5, %6
  return %7
}
";

/// A user's first commands, and the text that must be in their output.
const CALLS: &[(&[&str], &str)] = &[
    (&["--version"], "kiln "),
    (&["doctor"], "devices"),
    (
        &[
            "run",
            "/mlp.kiln",
            "--device",
            "interpreter",
            "--size",
            "B=2,N=3",
        ],
        "f32[2, 3]",
    ),
];

/// Additional commands that compile.
const COMPILED: &[(&[&str], &str)] = &[
    (
        &[
            "compare",
            "/mlp.kiln",
            "--size",
            "B=7,N=33",
            "--repro",
            "off",
        ],
        "equal",
    ),
    (&["run", "/mlp.kiln", "--size", "B=5,N=40"], "f32[5, 40]"),
    // The code that the call above made is in the cache.
    (
        &["run", "/mlp.kiln", "--size", "B=5,N=40", "--no-compile"],
        "f32[5, 40]",
    ),
    (&["inspect", "/mlp.kiln", "--stage", "asm"], "ret"),
];

/// Unpacks a tarball in an empty root, and runs the programs in it.
pub(super) fn check(tarball: &Path, name: &str, root: &Path, compiles: bool) -> Result<()> {
    archive::make_empty(root)?;
    let mut unpack = Command::new("tar");
    unpack
        .args(["--extract", "--file"])
        .arg(tarball)
        .arg("--directory")
        .arg(root);
    step::output(&mut unpack)?;
    let program = format!("/{name}/bin/kiln");
    let unpacked = root.join(name);
    for library in system_libraries(&unpacked)? {
        let inside = library.strip_prefix("/").unwrap_or(&library);
        archive::copy(&library, &root.join(inside))?;
    }
    archive::write(&root.join("mlp.kiln"), GRAPH)?;
    for folder in ["tmp", "proc"] {
        archive::make_empty(&root.join(folder))?;
    }
    let Some(enter) = Enter::possible(root, &program) else {
        println!("SKIPPED: this system allows no other root: neither chroot nor a user namespace");
        return Ok(());
    };
    let compiled = COMPILED.iter().filter(|_| compiles);
    for (arguments, expected) in CALLS.iter().chain(compiled) {
        println!("kiln {}", arguments.join(" "));
        let printed = step::output(enter.command(root, &program).args(*arguments))?;
        if !printed.contains(expected) {
            bail!("expected `{expected}` in the output, found:\n{printed}");
        }
    }
    Ok(())
}

/// The files of glibc that the program and its libraries need, as found by the loader with the shipped libraries.
fn system_libraries(folder: &Path) -> Result<Vec<PathBuf>> {
    let libraries = Libraries::of(&folder.join("bin/kiln"))?;
    if let Some(foreign) = libraries
        .shipped
        .iter()
        .find(|library| !library.file.starts_with(folder) && !within(&library.file, folder))
    {
        bail!(
            "expected {} in the release's own folder, found it at {}",
            foreign.name,
            foreign.file.display()
        );
    }
    let files = libraries.system.into_iter().map(|library| library.file);
    Ok(files.collect())
}

/// Whether a path with `..` in it is in a folder.
fn within(file: &Path, folder: &Path) -> bool {
    match (file.canonicalize(), folder.canonicalize()) {
        (Ok(file), Ok(folder)) => file.starts_with(folder),
        _ => false,
    }
}

/// A way to run a program in another root.
#[derive(Clone, Copy)]
enum Enter {
    /// As an administrator, with `/proc`.
    Mounts,
    /// With `/proc`, as a user for whom the system allows namespaces.
    Namespace,
    /// As an administrator without the right to mount, as in most containers.
    Chroot,
}

impl Enter {
    /// The first way that works here.
    fn possible(root: &Path, program: &str) -> Option<Self> {
        let ways = [Self::Mounts, Self::Namespace, Self::Chroot];
        ways.into_iter().find(|enter| {
            let mut command = enter.command(root, program);
            let status = command.arg("--version").output();
            status.is_ok_and(|output| {
                output.status.success() || !is_refusal(&String::from_utf8_lossy(&output.stderr))
            })
        })
    }

    fn command(self, root: &Path, program: &str) -> Command {
        let (way, arguments) = match self {
            Self::Mounts => ("unshare", "--pid --fork --mount-proc --root"),
            Self::Namespace => (
                "unshare",
                "--user --map-root-user --pid --fork --mount-proc --root",
            ),
            Self::Chroot => ("chroot", ""),
        };
        let mut command = Command::new(way);
        command
            .args(arguments.split_whitespace())
            .arg(root)
            .arg(program)
            .env_clear()
            .env("KILN_CACHE_DIR", "/cache");
        // These are for the commands themselves.
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        // This is what the loader otherwise looks up in `/proc`.
        if let (Self::Chroot, Some(folder)) = (self, Path::new(program).parent()) {
            command.env("LD_ORIGIN_PATH", folder);
        }
        command
    }
}

/// Whether a root was refused, rather than a program in it failing or missing.
fn is_refusal(said: &str) -> bool {
    let from_the_way = said.starts_with("unshare: ") || said.starts_with("chroot: ");
    from_the_way && !said.contains("failed to run") && !said.contains("failed to execute")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_root_is_told_from_a_failing_program() {
        for said in [
            "chroot: cannot change root directory to 'x': Operation not permitted",
            "unshare: unshare failed: Operation not permitted",
            "unshare: unshare failed: Invalid argument",
            "unshare: mount /proc failed: Permission denied",
        ] {
            assert!(is_refusal(said), "{said}");
        }
        for said in [
            "kiln: error while loading shared libraries: libz3.so.4",
            "chroot: failed to run command '/kiln': No such file or directory",
            "unshare: failed to execute /kiln: No such file or directory",
        ] {
            assert!(!is_refusal(said), "{said}");
        }
    }
}
