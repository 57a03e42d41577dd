//! The input of a check (the project's files and cargo's view of it), and its output, problems.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::workspace::{self, Metadata};

/// The project, in the form that the checks use.
pub(crate) struct Tree {
    /// Its root folder.
    pub(crate) root: PathBuf,
    /// Its files, relative, with forward slashes, sorted.
    pub(crate) files: Vec<String>,
    /// Cargo's metadata.
    pub(super) metadata: Metadata,
}

/// One violated rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Problem {
    /// The file.
    path: String,
    /// The line, from 1; 0 for the whole file.
    line: usize,
    /// The problem and the remedy.
    message: String,
}

impl Tree {
    /// The project at `root`.
    pub(crate) fn load(root: &Path) -> Result<Self> {
        Ok(Self {
            root: root.to_path_buf(),
            files: listing(root)?,
            metadata: Metadata::load(root)?,
        })
    }

    /// The text of a file, with invalid UTF-8 replaced.
    pub(super) fn read(&self, path: &str) -> Result<String> {
        let bytes =
            std::fs::read(self.root.join(path)).with_context(|| format!("cannot read {path}"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Every Rust file of the crates and the tasks.
    pub(super) fn rust_files(&self) -> impl Iterator<Item = &str> {
        let ours = |path: &&str| {
            path.ends_with(".rs")
                && ["crates/", "xtask/", "benches/", "fuzz/"]
                    .iter()
                    .any(|top| path.starts_with(top))
        };
        self.files.iter().map(String::as_str).filter(ours)
    }

    /// Every file with this suffix.
    pub(super) fn ending(&self, end: &str) -> impl Iterator<Item = &str> {
        self.files
            .iter()
            .map(String::as_str)
            .filter(move |path| path.ends_with(end))
    }

    /// The folders under `crates/` that contain a library: name and root file.
    pub(super) fn libraries(&self) -> impl Iterator<Item = (&str, PathBuf)> {
        self.files.iter().filter_map(|path| {
            let name = path.strip_prefix("crates/")?.strip_suffix("/src/lib.rs")?;
            Some((name, self.root.join(path)))
        })
    }

    /// A tree of these files for a test, in a folder that lives as long as the result.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> (tempfile::TempDir, Self) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = folder.path().to_path_buf();
        let tree = Self {
            files: listing(&root).unwrap(),
            root,
            metadata: Metadata::default(),
        };
        (folder, tree)
    }
}

impl Problem {
    /// A problem with a whole file.
    pub(super) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::at(path, 0, message)
    }

    /// A problem at a line, counted from 1.
    pub(super) fn at(path: impl Into<String>, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

fn listing(root: &Path) -> Result<Vec<String>> {
    Ok(workspace::files(root)?
        .iter()
        .map(|path| workspace::slashed(path))
        .collect())
}

/// The output of a check, one line per problem, for tests.
#[cfg(test)]
pub(super) fn said(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}
