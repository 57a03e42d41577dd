//! `kiln completions` and `kiln man`: shell completions and manual pages, generated from the command's arguments.

use crate::report::{self, Failures};
use anyhow::{Context, Error};
use clap::{Args, Command, ValueEnum};
use clap_complete::Shell;
use std::fs;
use std::path::PathBuf;

/// Prints a shell's completions.
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    shell: KnownShell,
}

/// Shells whose completions are tested.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum KnownShell {
    Bash,
    Zsh,
    Fish,
}

impl Completions {
    pub(crate) fn run(self, mut command: Command) -> Result<Failures, Error> {
        let shell = match self.shell {
            KnownShell::Bash => Shell::Bash,
            KnownShell::Zsh => Shell::Zsh,
            KnownShell::Fish => Shell::Fish,
        };
        // To memory first: the generator panics where a pipe is closed.
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command, "kiln", &mut script);
        report::line(String::from_utf8_lossy(&script).trim_end())?;
        Ok(Failures::default())
    }
}

/// Writes manual pages.
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Where the pages are written: kiln.1, kiln-run.1, …
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Man {
    pub(crate) fn run(self, command: Command) -> Result<Failures, Error> {
        fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot make {}", self.folder.display()))?;
        clap_mangen::generate_to(command, &self.folder)
            .with_context(|| format!("cannot write to {}", self.folder.display()))?;
        report::note(format!(
            "wrote {}; read it with: man {}",
            self.folder.display(),
            self.folder.join("kiln.1").display()
        ));
        Ok(Failures::default())
    }
}
