//! `fuzz/record.json`: for how long each target has run clean since the code that it exercises changed last.
//!
//! Written only by the task. The code of a target is the sources of some crates and of all their dependencies, identified
//! by a digest: time for other code does not count, and a find resets it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::session::Outcome;
use crate::workspace::{self, Metadata};

const FILE: &str = "fuzz/record.json";

/// The subject of a target: these crates, and all crates of the workspace on which they depend.
fn exercised(target: &str) -> &'static [&'static str] {
    match target {
        "read_graph" => &["kiln-shape-inference"],
        "import_onnx" => &["kiln-onnx"],
        "run_onnx" => &[
            "kiln-onnx",
            "kiln-interpreter",
            "kiln-passes",
            "kiln-program",
        ],
        "plan_graph" => &["kiln-passes", "kiln-program"],
        "interpret_graph" => &["kiln-interpreter", "kiln-passes"],
        "run_compiled" => &["kiln-codegen-llvm", "kiln-lazy-runtime", "kiln-native"],
        "read_kernel" => &["kiln-kernel"],
        "run_kernel" => &["kiln-codegen-llvm", "kiln-native"],
        "read_program" => &["kiln-program"],
        "read_entry" => &["kiln-kernel-cache"],
        "read_bundle" => &["kiln-kernel-cache", "kiln-program"],
        "read_array" => &["kiln-tensor"],
        "load_object" => &["kiln-native"],
        "prove_sizes" => &["kiln-symbolic-shape"],
        "serve_http" | "serve_grpc" => &["kiln-serve"],
        _ => &[],
    }
}

/// The file: a row for each target.
#[derive(Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub(super) struct Record(BTreeMap<String, Row>);

/// The record of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
struct Row {
    /// The digest of the code.
    code: String,
    /// Seconds of processor time without a finding.
    seconds: u64,
    /// Inputs that ran in that time.
    executions: u64,
    /// The day of the last run.
    date: String,
}

impl Record {
    /// Reads it; empty if there is none.
    pub(super) fn read(root: &Path) -> Result<Self> {
        match std::fs::read_to_string(root.join(FILE)) {
            Ok(text) => serde_json::from_str(&text).with_context(|| format!("cannot read {FILE}")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {FILE}")),
        }
    }

    /// Adds the result of a run of a target.
    pub(super) fn add(&mut self, target: &str, code: &str, date: &str, outcome: &Outcome) {
        let row = self.0.entry(target.to_owned()).or_default();
        if row.code != code || !outcome.finds.is_empty() {
            *row = Row::default();
        }
        code.clone_into(&mut row.code);
        date.clone_into(&mut row.date);
        if outcome.finds.is_empty() {
            row.seconds += outcome.processor.as_secs();
            row.executions += outcome.progress.executions;
        }
    }

    pub(super) fn write(&self, root: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(root.join(FILE), text).with_context(|| format!("cannot write {FILE}"))
    }
}

/// Today, in UTC.
pub(super) fn today() -> Result<String> {
    let output = Command::new("date").args(["-u", "+%F"]).output();
    let output = output.context("cannot run `date`")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A digest of the sources that a target exercises.
pub(super) fn code_of(target: &str, root: &Path, metadata: &Metadata) -> Result<String> {
    let mut crates: BTreeSet<&str> = BTreeSet::new();
    let mut left: Vec<&str> = exercised(target).to_vec();
    while let Some(name) = left.pop() {
        let Some(package) = metadata.members().find(|package| package.name == name) else {
            continue;
        };
        if crates.insert(&package.name) {
            let needed = package.dependencies.iter();
            let needed = needed.filter(|dependency| dependency.kind.is_none());
            left.extend(needed.map(|dependency| dependency.name.as_str()));
        }
    }
    let mut digest = Sha256::new();
    for path in workspace::files(root)? {
        let mut parts = path.iter().filter_map(|part| part.to_str());
        let is_source = parts.next() == Some("crates")
            && parts
                .next()
                .is_some_and(|folder| crates.contains(format!("kiln-{folder}").as_str()))
            && parts.next() == Some("src");
        if is_source {
            let content = std::fs::read(root.join(&path))
                .with_context(|| format!("cannot read {}", path.display()))?;
            digest.update(workspace::slashed(&path));
            digest.update([0]);
            digest.update((content.len() as u64).to_le_bytes());
            digest.update(content);
        }
    }
    let digest = digest.finalize();
    Ok(digest
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::super::progress::Progress;
    use super::*;
    use std::path::PathBuf;
    use std::time::Duration;

    fn outcome(seconds: u64, finds: usize) -> Outcome {
        Outcome {
            processor: Duration::from_secs(seconds),
            progress: Progress {
                executions: 10 * seconds,
                ..Progress::default()
            },
            finds: vec![PathBuf::from("find"); finds],
        }
    }

    #[test]
    fn clean_time_adds_up_until_the_code_changes_or_something_is_found() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("fuzz")).unwrap();
        let mut record = Record::read(folder.path()).unwrap();
        record.add("read_graph", "a", "2026-01-01", &outcome(60, 0));
        record.add("read_graph", "a", "2026-01-02", &outcome(30, 0));
        record.write(folder.path()).unwrap();
        let mut record = Record::read(folder.path()).unwrap();
        let row = |record: &Record| record.0["read_graph"].clone();
        assert_eq!(
            row(&record),
            Row {
                code: "a".to_owned(),
                seconds: 90,
                executions: 900,
                date: "2026-01-02".to_owned()
            }
        );
        record.add("read_graph", "b", "2026-01-03", &outcome(5, 0));
        assert_eq!(row(&record).seconds, 5);
        record.add("read_graph", "b", "2026-01-03", &outcome(50, 1));
        assert_eq!((row(&record).seconds, row(&record).executions), (0, 0));
    }

    #[test]
    fn the_code_of_a_target_includes_its_crates_and_their_dependencies() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let packages = r#"{"workspace_members":["1","2","3"],"packages":[
            {"name":"kiln-native","id":"1","dependencies":[{"name":"kiln-kernel"}, {"name":"kiln-onnx","kind":"dev"}]},
            {"name":"kiln-kernel","id":"2"},{"name":"kiln-onnx","id":"3"}]}"#;
        let metadata: Metadata = serde_json::from_str(packages).unwrap();
        for name in ["native", "kernel", "onnx"] {
            write(&format!("crates/{name}/src/lib.rs"), name);
        }
        let code = || code_of("load_object", folder.path(), &metadata).unwrap();
        let before = code();
        assert_eq!(before.len(), 12);
        write("crates/onnx/src/lib.rs", "changed");
        write("crates/kernel/tests/all.rs", "a test");
        assert_eq!(code(), before);
        write("crates/kernel/src/lib.rs", "changed");
        assert_ne!(code(), before);
    }

    #[test]
    fn every_target_of_the_manifest_exercises_crates_that_are_there() {
        let root = workspace::root();
        for target in super::super::all(&root.join("fuzz")).unwrap() {
            assert!(!exercised(&target).is_empty(), "{target}");
            for name in exercised(&target) {
                let folder = name.strip_prefix("kiln-").unwrap();
                assert!(root.join("crates").join(folder).is_dir(), "{name}");
            }
        }
    }
}
