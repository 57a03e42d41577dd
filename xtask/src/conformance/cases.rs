//! The cases: written once by `generate.py`, then read from their list.
//!
//! Invariant: the list of packages is written after the cases, so partially written cases, or those of a different
//! version, are rewritten.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::PACKAGES;
use crate::{python, step};

const SCRIPT: &str = "xtask/conformance/generate.py";

/// One of ONNX's test cases, as listed by `generate.py`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Case {
    /// `node`, `simple` and so on.
    pub(crate) set: String,
    pub(crate) name: String,
    /// The operator that it tests.
    pub(crate) op: String,
    pub(crate) domain: String,
    /// Whether it is another case with the operator replaced by its function body.
    pub(crate) expanded: bool,
    pub(crate) rtol: f64,
    pub(crate) atol: f64,
}

/// Every case, by set and name.
pub(super) fn all(root: &Path, folder: &Path) -> Result<Vec<Case>> {
    let cases = folder.join("cases");
    let made_of = folder.join("made_of.txt");
    let script = std::fs::read_to_string(root.join(SCRIPT))
        .with_context(|| format!("cannot read {SCRIPT}"))?;
    let packages = std::fs::read_to_string(root.join(PACKAGES.list))
        .with_context(|| format!("cannot read {}", PACKAGES.list))?;
    let wanted = packages + &script;
    if std::fs::read_to_string(&made_of).is_ok_and(|made_of| made_of == wanted) {
        return read(&cases);
    }
    let python = python::python(root, folder.join("python"), &PACKAGES)?;
    let mut generate = Command::new(python);
    generate.arg(root.join(SCRIPT)).arg(&cases);
    step::run("writing ONNX's test cases", &mut generate)?;
    std::fs::write(&made_of, wanted).context("cannot record what the cases are made of")?;
    read(&cases)
}

/// The cases that a folder's list names.
pub(super) fn read(cases: &Path) -> Result<Vec<Case>> {
    let list = cases.join("cases.jsonl");
    let text = std::fs::read_to_string(&list)
        .with_context(|| format!("cannot read {}", list.display()))?;
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<Case>> {
    let lines = text.lines().map(serde_json::from_str);
    lines
        .collect::<Result<_, _>>()
        .context("the list of cases is damaged")
}

impl Case {
    /// Its folder.
    pub(super) fn folder(&self, folder: &Path) -> PathBuf {
        folder.join("cases").join(&self.set).join(&self.name)
    }

    /// Whether it counts towards the totals.
    pub(super) fn is_node(&self) -> bool {
        self.set == "node"
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn case(set: &str, name: &str, op: &str, expanded: bool) -> Case {
        Case {
            set: set.to_owned(),
            name: name.to_owned(),
            op: op.to_owned(),
            domain: "ai.onnx".to_owned(),
            expanded,
            rtol: 1e-3,
            atol: 1e-7,
        }
    }

    #[test]
    fn the_list_is_a_line_of_json_per_case() {
        let line = r#"{"set":"node","name":"test_abs","op":"Abs","domain":"ai.onnx","expanded":false,"rtol":0.001,"atol":1e-7}"#;
        let cases = parse(&format!("{line}\n{line}\n")).unwrap();
        assert_eq!(cases.len(), 2);
        assert!(cases[0].is_node());
        assert_eq!(
            cases[0].folder(Path::new("t")),
            Path::new("t/cases/node/test_abs")
        );
        assert!(parse("{").is_err());
    }
}
