//! The crates that are in a program: what cargo links for its features, as `cargo tree` and `cargo metadata` know it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::{step, workspace};

/// The crates of a program.
#[derive(Debug)]
pub(super) struct Components {
    /// The program's own crate.
    pub(super) program: Crate,
    /// The other crates, by name and version.
    pub(super) crates: Vec<Crate>,
}

/// One crate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Crate {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) license: Option<String>,
    #[serde(default)]
    pub(super) license_file: Option<PathBuf>,
    pub(super) manifest_path: PathBuf,
    #[serde(default)]
    pub(super) authors: Vec<String>,
    /// Its source; `None` for the project's own crates.
    pub(super) source: Option<String>,
    /// The digest of its package.
    #[serde(skip)]
    pub(super) checksum: Option<String>,
    /// The ids of its dependencies that are in the program.
    #[serde(skip)]
    pub(super) needs: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Crate>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

/// The kind of a dependency: `None` for a normal one, otherwise `dev` or `build`.
#[derive(Deserialize)]
struct Kind {
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

impl Components {
    /// The components of a package, built with some features.
    pub(super) fn of(root: &Path, package: &str, features: &[String]) -> Result<Self> {
        let mut tree = Command::new(workspace::cargo());
        tree.current_dir(root)
            .args(["tree", "--locked", "--prefix", "none", "--format", "{p}"])
            // Build dependencies are not in the program.
            .args(["--edges", "normal,no-proc-macro", "--package", package])
            .args(features);
        let lock = root.join("Cargo.lock");
        let lock =
            fs::read_to_string(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
        Self::read(
            package,
            &step::output(&mut tree)?,
            &workspace::metadata_text(root)?,
            &lock,
        )
    }

    fn read(package: &str, tree: &str, metadata: &[u8], lock: &str) -> Result<Self> {
        let linked: BTreeSet<(&str, &str)> = tree.lines().filter_map(name_and_version).collect();
        let metadata: Metadata = serde_json::from_slice(metadata)
            .context("cannot read what `cargo metadata` printed")?;
        let lock: Lock = toml::from_str(lock).context("cannot read Cargo.lock")?;
        let mut crates: Vec<Crate> = metadata
            .packages
            .into_iter()
            .filter(|package| linked.contains(&(package.name.as_str(), package.version.as_str())))
            .collect();
        let ids: BTreeSet<String> = crates.iter().map(|package| package.id.clone()).collect();
        let mut needs: BTreeMap<String, Vec<String>> = metadata
            .resolve
            .nodes
            .into_iter()
            .map(|node| {
                let linked =
                    |found: &Dependency| found.dep_kinds.iter().any(|kind| kind.kind.is_none());
                let needs = node.deps.into_iter().filter(linked);
                (node.id, needs.map(|found| found.pkg).collect())
            })
            .collect();
        for found in &mut crates {
            found.needs = needs.remove(&found.id).unwrap_or_default();
            found.needs.retain(|id| ids.contains(id));
            found.needs.sort();
            let locked = lock
                .package
                .iter()
                .find(|locked| locked.name == found.name && locked.version == found.version);
            found.checksum = locked.and_then(|locked| locked.checksum.clone());
        }
        crates.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        let program = crates.iter().position(|found| found.name == package);
        let program = program.with_context(|| format!("`cargo tree` does not name {package}"))?;
        Ok(Self {
            program: crates.remove(program),
            crates,
        })
    }

    /// The third-party crates.
    pub(super) fn foreign(&self) -> impl Iterator<Item = &Crate> {
        self.crates.iter().filter(|found| found.source.is_some())
    }
}

/// Name and version from a line `name v1.2.3 (…)`.
fn name_and_version(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split_whitespace();
    let name = words.next()?;
    Some((name, words.next()?.strip_prefix('v')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_those_of_the_tree() {
        let tree = "tool v0.1.0 (/p)\nserde v1.0.1\nserde v1.0.1 (*)\n\n";
        let metadata = br#"{"packages":[
            {"id":"t","name":"tool","version":"0.1.0","manifest_path":"/p/Cargo.toml"},
            {"id":"s1","name":"serde","version":"1.0.1","manifest_path":"/s","source":"registry","license":"MIT"},
            {"id":"s2","name":"serde","version":"2.0.0","manifest_path":"/s2","source":"registry"},
            {"id":"d","name":"derive","version":"1.0.1","manifest_path":"/d","source":"registry"}],
            "resolve":{"nodes":[{"id":"t","deps":[{"pkg":"s1","dep_kinds":[{"kind":"dev"},{"kind":null}]},
            {"pkg":"d","dep_kinds":[{"kind":null}]}]},{"id":"s1","deps":[{"pkg":"t","dep_kinds":[{"kind":"dev"}]}]}]}}"#;
        let lock = "[[package]]\nname = 'serde'\nversion = '1.0.1'\nchecksum = 'abc'\n";
        let components = Components::read("tool", tree, metadata, lock).unwrap();
        assert_eq!(components.program.needs, ["s1"]);
        let [serde] = components.crates.as_slice() else {
            panic!("{components:?}");
        };
        assert_eq!((serde.id.as_str(), serde.needs.len()), ("s1", 0));
        assert_eq!(serde.checksum.as_deref(), Some("abc"));
        assert_eq!(components.foreign().count(), 1);
        let error = Components::read("other", tree, metadata, lock).unwrap_err();
        assert_eq!(error.to_string(), "`cargo tree` does not name other");
    }
}
