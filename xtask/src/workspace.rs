//! The project's location, its files, and cargo's metadata.
//!
//! Not here: any judgement on them (`tidy`). Invariant: file lists are sorted and relative, so that output never depends on
//! the file system.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The part of `cargo metadata` that the tasks read.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Metadata {
    /// Every package of the dependency graph, including the workspace's own.
    pub(crate) packages: Vec<Package>,
    /// Ids of the workspace's own packages.
    #[serde(default)]
    pub(crate) workspace_members: Vec<String>,
    /// The target folder.
    #[serde(default)]
    pub(crate) target_directory: PathBuf,
}

/// One package.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Its version.
    #[serde(default)]
    pub(crate) version: String,
    /// Its id, unique in the graph.
    #[serde(default)]
    pub(crate) id: String,
    /// Its licence expression.
    #[serde(default)]
    pub(crate) license: Option<String>,
    /// Its declared dependencies, of every kind.
    #[serde(default)]
    pub(crate) dependencies: Vec<Dependency>,
    /// Its features, by name.
    #[serde(default)]
    pub(crate) features: std::collections::BTreeMap<String, Vec<String>>,
    /// Its description, for registries.
    #[serde(default)]
    pub(crate) description: Option<String>,
    /// The registries that may have it: `None` means any, an empty list none.
    #[serde(default)]
    pub(crate) publish: Option<Vec<String>>,
    /// The metadata of its manifest for other tools.
    #[serde(default)]
    pub(crate) metadata: serde_json::Value,
}

/// One declared dependency.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Dependency {
    /// The dependency.
    pub(crate) name: String,
    /// `None` is a normal dependency, otherwise `dev` or `build`.
    #[serde(default)]
    pub(crate) kind: Option<String>,
    /// The accepted versions: `*` for a dependency only by path.
    #[serde(default)]
    pub(crate) req: String,
}

impl Metadata {
    /// Queries cargo about the workspace at `root`, for the current platform.
    pub(crate) fn load(root: &Path) -> Result<Self> {
        Self::read(&metadata_text(root)?)
    }

    /// Parses cargo's output.
    pub(crate) fn read(text: &[u8]) -> Result<Self> {
        serde_json::from_slice(text).context("cannot read what `cargo metadata` printed")
    }

    /// The workspace's own packages.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }

    /// Every other package.
    pub(crate) fn foreign(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| !self.workspace_members.contains(&package.id))
    }
}

/// The output of `cargo metadata` for the workspace at `root`, for the current platform.
pub(crate) fn metadata_text(root: &Path) -> Result<Vec<u8>> {
    let host = host_triple()?;
    let output = Command::new(cargo())
        .args([
            "metadata",
            "--format-version",
            "1",
            "--filter-platform",
            &host,
        ])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run `cargo metadata`")?;
    if !output.status.success() {
        bail!("`cargo metadata` failed ({})", output.status);
    }
    Ok(output.stdout)
}

/// The project's root folder.
///
/// Queried from cargo at run time first: two checkouts may share one target folder, and therefore this program.
pub(crate) fn root() -> PathBuf {
    let now = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let manifest = now.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    manifest.parent().map(Path::to_path_buf).unwrap_or(manifest)
}

/// The cargo that runs this task.
pub(crate) fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The project's files, relative to `root`: those that git tracks or would track, or every file if git is unavailable.
pub(crate) fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = match git_files(root) {
        Some(files) => files,
        None => walk(root)?,
    };
    files.sort();
    files.dedup();
    Ok(files)
}

/// A relative path with forward slashes on every platform.
pub(crate) fn slashed(path: &Path) -> String {
    path.components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect::<Vec<_>>()
        .join("/")
}

/// The platform that this machine builds for.
pub(crate) fn host_triple() -> Result<String> {
    let output = Command::new("rustc")
        .arg("-vV")
        .output()
        .context("cannot run `rustc -vV`")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("`rustc -vV` names no host")
}

fn git_files(root: &Path) -> Option<Vec<PathBuf>> {
    if !root.join(".git").exists() {
        return None;
    }
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .stderr(Stdio::null())
        .output()
        .ok()?;
    if !output.status.success() {
        return None;
    }
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = listing.split('\0').filter(|name| !name.is_empty());
    Some(
        names
            .map(PathBuf::from)
            .filter(|path| root.join(path).is_file())
            .collect(),
    )
}

fn walk(root: &Path) -> Result<Vec<PathBuf>> {
    const NOT_OURS: [&str; 3] = ["target", "models", ".git"];
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() && !NOT_OURS.iter().any(|name| entry.file_name() == *name) {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path().strip_prefix(root)?.to_path_buf());
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_outside_git_are_found_and_products_left_out() {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("b/x.rs", "x"),
            ("a.md", "a"),
            ("target/o", "o"),
            ("models/m/x", "m"),
        ] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let found: Vec<String> = files(folder.path())
            .unwrap()
            .iter()
            .map(|path| slashed(path))
            .collect();
        assert_eq!(found, ["a.md", "b/x.rs"]);
    }

    #[test]
    fn members_and_foreign_packages_are_distinguished() {
        let metadata: Metadata = serde_json::from_str(
            r#"{"packages":[{"name":"kiln","id":"1"},{"name":"serde","id":"2","license":"MIT"}],
                "workspace_members":["1"]}"#,
        )
        .unwrap();
        assert_eq!(
            metadata
                .members()
                .map(|package| package.name.as_str())
                .collect::<Vec<_>>(),
            ["kiln"]
        );
        assert_eq!(
            metadata
                .foreign()
                .map(|package| package.name.as_str())
                .collect::<Vec<_>>(),
            ["serde"]
        );
    }
}
