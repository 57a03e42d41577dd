//! Package managers: which one is available, how it installs, and whether we may.
//!
//! Invariant: nothing is installed without existing root rights or those that the user grants at a terminal.

use std::io::IsTerminal;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::needs::succeeds;

/// A supported package manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manager {
    /// Debian, Ubuntu.
    Apt,
    /// Fedora.
    Dnf,
    /// Arch.
    Pacman,
    /// openSUSE.
    Zypper,
    /// macOS, or Linux with Homebrew.
    Brew,
}

impl Manager {
    /// Every manager, the system's own before Homebrew.
    pub(crate) const ALL: [Self; 5] =
        [Self::Apt, Self::Dnf, Self::Pacman, Self::Zypper, Self::Brew];

    /// The first manager that is available on this system.
    pub(crate) fn detect() -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|manager| succeeds(&[manager.program(), "--version"]))
    }

    /// The commands that install `packages`.
    pub(crate) fn install_commands(self, packages: &[&'static str]) -> Vec<Vec<&'static str>> {
        let (update, install): (Option<&[&'static str]>, &[&'static str]) = match self {
            Self::Apt => (
                Some(&["apt-get", "update"]),
                &["apt-get", "install", "--yes", "--no-install-recommends"],
            ),
            Self::Dnf => (None, &["dnf", "install", "--assumeyes"]),
            Self::Pacman => (
                None,
                &["pacman", "--sync", "--refresh", "--needed", "--noconfirm"],
            ),
            Self::Zypper => (None, &["zypper", "--non-interactive", "install"]),
            Self::Brew => (None, &["brew", "install"]),
        };
        let install = [install, packages].concat();
        update
            .map(<[_]>::to_vec)
            .into_iter()
            .chain([install])
            .collect()
    }

    fn program(self) -> &'static str {
        match self {
            Self::Apt => "apt-get",
            Self::Dnf => "dnf",
            Self::Pacman => "pacman",
            Self::Zypper => "zypper",
            Self::Brew => "brew",
        }
    }
}

/// How root rights are obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privilege {
    /// They are not needed, or already available.
    Direct,
    /// Through `sudo`, without a password or at a terminal.
    Sudo,
    /// They cannot be obtained.
    None,
}

impl Privilege {
    /// The rights available for `manager` here.
    pub(crate) fn detect(manager: Manager) -> Self {
        if manager == Manager::Brew || is_root() {
            Self::Direct
        } else if succeeds(&["sudo", "-n", "true"])
            || (std::io::stdin().is_terminal() && succeeds(&["sudo", "--version"]))
        {
            Self::Sudo
        } else {
            Self::None
        }
    }

    /// Runs one command with these rights.
    pub(crate) fn run(self, command: &[&str]) -> Result<()> {
        let words: Vec<&str> = match self {
            Self::Direct => command.to_vec(),
            Self::Sudo => [&["sudo"], command].concat(),
            Self::None => bail!("root rights are needed for `{}`", command.join(" ")),
        };
        let (program, arguments) = words.split_first().context("no command to run")?;
        let status = Command::new(program)
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .status()
            .with_context(|| format!("cannot run `{}`", words.join(" ")))?;
        if !status.success() {
            bail!("`{}` ended with {status}", words.join(" "));
        }
        Ok(())
    }
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manager_installs_without_asking() {
        for manager in Manager::ALL {
            let commands = manager.install_commands(&["gcc"]);
            let install = commands.last().unwrap();
            assert_eq!(install.first(), Some(&manager.program()));
            assert_eq!(install.last(), Some(&"gcc"));
        }
    }

    #[test]
    fn without_root_nothing_is_installed() {
        let error = Privilege::None.run(&["apt-get", "update"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "root rights are needed for `apt-get update`"
        );
        assert!(Privilege::Direct.run(&["sh", "-c", "exit 0"]).is_ok());
        assert!(Privilege::Direct.run(&["sh", "-c", "exit 1"]).is_err());
    }
}
