//! The nightly toolchain: only it has sanitizers and the fuzzer's instrumentation.
//!
//! Invariant: no toolchain is installed unrequested; an error names the command that does it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::setup::succeeds;

/// The command that installs it.
const INSTALL: &str = "rustup toolchain install nightly --profile minimal";

/// An installed nightly toolchain.
#[derive(Clone, Debug)]
pub(crate) struct Nightly {
    /// The machine's own target.
    pub(crate) host: String,
    /// The folder of its libraries.
    sysroot: PathBuf,
}

impl Nightly {
    /// Finds it.
    ///
    /// # Errors
    /// If it is missing; the error has the command that installs it.
    pub(crate) fn find() -> Result<Self> {
        if !succeeds(&["rustup", "--version"]) {
            bail!(
                "expected rustup, which runs a nightly toolchain beside the pinned one; install it from your system"
            );
        }
        let print = |what: &[&str]| -> Result<String> {
            let mut command = Command::new("rustup");
            command.args(["run", "nightly", "rustc"]).args(what);
            let output = without_cargo(&mut command).output();
            let output = output.context("cannot run rustup")?;
            if !output.status.success() {
                bail!("expected a nightly toolchain, found none; run `{INSTALL}` and repeat");
            }
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let version = print(&["--version", "--verbose"])?;
        let host = host_of(&version).context("rustc --version --verbose names no host")?;
        Ok(Self {
            host: host.to_owned(),
            sysroot: print(&["--print", "sysroot"])?.into(),
        })
    }

    /// Its cargo.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new("rustup");
        command.args(["run", "nightly", "cargo"]);
        without_cargo(&mut command);
        command
    }

    /// Whether the library's source is installed, from which it can be built with instrumentation.
    pub(crate) fn has_source(&self) -> bool {
        self.sysroot
            .join("lib/rustlib/src/rust/library/std")
            .is_dir()
    }
}

/// Removes the variables that the cargo running this task sets for its children: they are for another toolchain.
fn without_cargo(command: &mut Command) -> &mut Command {
    for variable in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTFLAGS"] {
        command.env_remove(variable);
    }
    command
}

fn host_of(version: &str) -> Option<&str> {
    version.lines().find_map(|line| line.strip_prefix("host: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_triple_is_read_from_the_version_output() {
        let version =
            "rustc 1.97.0-nightly\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\nrelease: 1";
        assert_eq!(host_of(version), Some("x86_64-unknown-linux-gnu"));
        assert_eq!(host_of("rustc 1.97.0"), None);
    }
}
