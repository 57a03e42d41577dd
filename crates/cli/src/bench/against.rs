//! `kiln bench --against onnxruntime`: the same calls in onnxruntime, run by the environment's Python.
//!
//! A small script loads the model, and for each line on its standard input makes one call and prints its time, so that
//! the two sides run in interleaved rounds. Inputs are passed as files.

use crate::inputs::Inputs;
use anyhow::{Context, Error, bail, ensure};
use clap::ValueEnum;
use kiln::internals::tensor::write_npy;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

const SCRIPT: &str = include_str!("onnxruntime.py");

/// What Kiln is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    /// The onnxruntime package of the Python interpreter.
    Onnxruntime,
}

/// A running script with a model and the inputs of one call.
pub(crate) struct Against {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    folder: PathBuf,
    /// As the script names itself: `onnxruntime 1.20.1`.
    pub(crate) version: String,
}

impl Against {
    /// Loads the model in the script, with files of these inputs.
    ///
    /// # Errors
    /// When there is no Python, it has no onnxruntime, or onnxruntime refuses the model.
    pub(crate) fn start(
        python: &Path,
        model: &Path,
        inputs: &Inputs,
        threads: usize,
    ) -> Result<Self, Error> {
        let folder = std::env::temp_dir().join(format!("kiln-bench-{}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let mut files = Vec::new();
        for (number, (name, tensor)) in inputs.iter().enumerate() {
            let path = folder.join(format!("{number}.npy"));
            let context = || format!("cannot write {}", path.display());
            let mut file = BufWriter::new(File::create(&path).with_context(context)?);
            write_npy(tensor, &mut file)
                .map_err(kiln::Error::from)
                .with_context(context)?;
            file.flush().with_context(context)?;
            files.push(format!("{name}={}", path.display()));
        }
        let mut child = Command::new(python)
            .args(["-c", SCRIPT])
            .arg(model)
            .arg(threads.to_string())
            .args(files)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}: pass --python FILE", python.display()))?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("cannot talk to {}", python.display());
        };
        let mut started = Self {
            child,
            requests,
            answers: BufReader::new(answers),
            folder,
            version: String::new(),
        };
        started.version = started.answer()?;
        Ok(started)
    }

    /// The time of one call.
    pub(crate) fn call(&mut self) -> Result<Duration, Error> {
        writeln!(self.requests, "call").context("the script of onnxruntime ended")?;
        let seconds: f64 = self.answer()?.parse().context("expected a time")?;
        Ok(Duration::try_from_secs_f64(seconds)?)
    }

    /// A line of the script: what it found, or why it cannot.
    fn answer(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let line = line.trim();
        match line.split_once(' ') {
            Some(("ok", answer)) => Ok(answer.to_owned()),
            Some(("missing", module)) => bail!(
                "{module} is not installed for this Python: python3 -m pip install numpy onnxruntime"
            ),
            Some(("failed", reason)) => bail!("onnxruntime: {reason}"),
            _ => bail!("the script of onnxruntime ended without an answer"),
        }
    }
}

impl Drop for Against {
    fn drop(&mut self) {
        // It ends at the end of its input; nothing can be done about one that does not.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
        let _left_behind = fs::remove_dir_all(&self.folder);
    }
}

/// One sentence on two medians, in milliseconds.
pub(crate) fn verdict(case: &str, kiln: f64, peer: f64, version: &str) -> String {
    let (first, second) = (format!("{kiln:.3} ms"), format!("{peer:.3} ms"));
    let comparison = match (kiln, peer) {
        (kiln, peer) if kiln <= 0.0 || peer <= 0.0 => "too short to compare".to_owned(),
        (kiln, peer) if (kiln / peer - 1.0).abs() < 0.03 => "as fast".to_owned(),
        (kiln, peer) if kiln < peer => format!("Kiln is {:.2} times as fast", peer / kiln),
        (kiln, peer) => format!("Kiln takes {:.2} times as long", kiln / peer),
    };
    format!("{case}: Kiln {first}, {version} {second}: {comparison} (medians of interleaved calls)")
}

/// What the peer can load.
pub(crate) fn check_model(model: &Path) -> Result<(), Error> {
    let is_onnx = model
        .extension()
        .is_some_and(|extension| extension == "onnx");
    ensure!(
        is_onnx,
        "--against onnxruntime: expected an ONNX model, found {}",
        model.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_names_the_faster() {
        assert_eq!(
            verdict("inputs", 1.0, 2.5, "onnxruntime 1.2"),
            "inputs: Kiln 1.000 ms, onnxruntime 1.2 2.500 ms: Kiln is 2.50 times as fast (medians of interleaved calls)"
        );
        assert!(verdict("a", 3.0, 2.0, "x").contains("Kiln takes 1.50 times as long"));
        assert!(verdict("a", 1.01, 1.0, "x").contains("as fast"));
    }
}
