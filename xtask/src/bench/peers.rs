//! Kiln and its peers on the same cases, through the scripts of `benches/peers`.
//!
//! The scripts print every case; here they are called in order, and their output becomes the README's table.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::readme::{self, Case};
use crate::build::release_command;
use crate::{models, step};

/// The models that have cases.
const MODELS: [&str; 4] = ["ocr-cls", "ocr-rec", "ocr-det", "minilm"];

/// The recurrent layers that have cases; measured if a word names them.
const RECURRENT: [&str; 6] = [
    "lstm-256",
    "lstm-128x2",
    "gru-256",
    "rnn-256",
    "scan-128",
    "loop-sum",
];

/// Builds the `kiln` command, writes the cases, measures, prints.
pub(crate) fn run(root: &Path, target: &Path, python: &Path, words: &[String]) -> Result<()> {
    let models = wanted(words);
    if models.is_empty() {
        println!(
            "bench: no model has {} in its name, so the peers are left out; there are {}",
            words.join(" or "),
            [&MODELS[..], &RECURRENT].concat().join(", ")
        );
        return Ok(());
    }
    let kiln = release_command(root, target)?;
    let folder = target.join("peers");
    let cases = folder.join("cases");
    let mut make = script(root, python, "make_cases.py");
    make.arg(&cases).arg(models::folder(root));
    if models.iter().any(|model| MODELS.contains(model)) {
        step::run("cases, and what onnxruntime answers", &mut make)?;
    }
    let recurrent = models.iter().filter(|model| RECURRENT.contains(model));
    let mut make = script(root, python, "make_recurrent.py");
    make.arg(&cases).args(recurrent.clone());
    if recurrent.count() > 0 {
        step::run("cases of recurrent layers", &mut make)?;
    }

    let measured = folder.join("measured.jsonl");
    let mut side_by_side = script(root, python, "side_by_side.py");
    side_by_side.arg(&cases).arg(kiln);
    side_by_side.arg("--models").arg(models.join(","));
    side_by_side.arg("--json").arg(&measured);
    step::run("Kiln beside its peers", &mut side_by_side)?;

    let text = std::fs::read_to_string(&measured)
        .with_context(|| format!("cannot read {}", measured.display()))?;
    print!("\n{}", readme::table(&read(&text)?));
    Ok(())
}

/// Models whose names contain one of the words; without words all except the recurrent layers.
fn wanted(words: &[String]) -> Vec<&'static str> {
    let has_word = |model: &&str| words.iter().any(|word| model.contains(word.as_str()));
    match words {
        [] => MODELS.to_vec(),
        _ => MODELS
            .into_iter()
            .chain(RECURRENT)
            .filter(has_word)
            .collect(),
    }
}

pub(super) fn script(root: &Path, python: &Path, name: &str) -> Command {
    let mut command = Command::new(python);
    command
        .current_dir(root)
        .arg(root.join("benches/peers").join(name));
    command
}

/// One case per line.
fn read(text: &str) -> Result<Vec<Case>> {
    let case = |(at, line): (usize, &str)| {
        serde_json::from_str(line)
            .with_context(|| format!("line {} of the measurements is not a case", at + 1))
    };
    text.lines().enumerate().map(case).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bench_words_select_models() {
        assert_eq!(wanted(&[]), MODELS);
        let words =
            |words: &[&str]| wanted(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(words(&["rec", "mini"]), ["ocr-rec", "minilm"]);
        assert_eq!(words(&["lstm"]), ["lstm-256", "lstm-128x2"]);
        assert!(words(&["softmax"]).is_empty());
    }

    #[test]
    fn missing_measurements_are_null_and_unknown_cases_are_errors() {
        let line = r#"{"model":"minilm","case":"000-1x8_1x8","error":1e-6,"ort":2.0,"ov":null,"kiln":1.5,"first":365.2,"compiles":11}"#;
        let cases = read(line).unwrap();
        assert_eq!((cases[0].ov, cases[0].kiln), (None, Some(1.5)));
        let error = read(&format!("{line}\nTraceback")).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }
}
