//! A model called with many inputs in one process: the outcome of loading it and of each call, the results as files.
//!
//! Nothing is compared here: the calling script compares the files.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use kiln::internals::tensor::{read_npy, write_npy};
use kiln::{Cache, Device, ErrorKind, Model, Options, Tensor};
use serde::{Deserialize, Serialize};

use crate::verdict::Outcome;

/// A request for calls, on a line of standard input.
#[derive(Deserialize)]
pub(crate) struct Calls {
    /// The folder with `model.onnx` and `cases/CASE/INPUT.npy`.
    folder: PathBuf,
    /// In the command line's form.
    device: String,
    /// The names of the cases, in the order of the calls.
    cases: Vec<String>,
    /// The prefix of the files of results: `cases/CASE/PREFIX.INDEX.npy`.
    prefix: String,
}

/// The outcome.
#[derive(Serialize)]
pub(crate) struct Answers {
    /// Why the model does not load.
    refused: Option<Outcome>,
    /// Each call.
    calls: Vec<Outcome>,
}

/// Loads the model and makes the calls.
pub(crate) fn run(request: &Calls) -> Answers {
    // Models are many and small: code that outlives them would only fill a cache.
    let loaded = guarded(|| {
        let options = Options::new()
            .device(request.device.parse::<Device>()?)
            .cache(Cache::off());
        Ok(options.load(request.folder.join("model.onnx"))?)
    });
    let model = match loaded {
        Ok(model) => model,
        Err(refused) => {
            return Answers {
                refused: Some(refused),
                calls: Vec::new(),
            };
        }
    };
    let call = |case: &String| {
        let folder = request.folder.join("cases").join(case);
        match guarded(|| self::call(&model, &folder, &request.prefix)) {
            Ok(()) => Outcome::passed(),
            Err(outcome) => outcome,
        }
    };
    Answers {
        refused: None,
        calls: request.cases.iter().map(call).collect(),
    }
}

/// The error of a call: of Kiln, or of the files.
enum Failure {
    Kiln(kiln::Error),
    Files(anyhow::Error),
}

impl From<kiln::Error> for Failure {
    fn from(error: kiln::Error) -> Self {
        Self::Kiln(error)
    }
}

fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Outcome> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(Failure::Kiln(error))) if error.kind() == ErrorKind::Internal => {
            Err(Outcome::failed(format!("panicked: {error}")))
        }
        Ok(Err(Failure::Kiln(error))) => Err(Outcome::of_error(&error)),
        Ok(Err(Failure::Files(error))) => Err(Outcome::failed(format!("{error:#}"))),
        Err(_) => Err(Outcome::failed("panicked")),
    }
}

fn call(model: &Model, folder: &Path, prefix: &str) -> Result<(), Failure> {
    let mut inputs = Vec::new();
    for input in model.inputs() {
        let path = folder.join(format!("{}.npy", input.name()));
        inputs.push((input.name(), read(&path).map_err(Failure::Files)?));
    }
    let outputs = model.run(&inputs)?;
    for (index, (_, tensor)) in outputs.iter().enumerate() {
        let path = folder.join(format!("{prefix}.{index}.npy"));
        write(&path, tensor).map_err(Failure::Files)?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<Tensor> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(read_npy(&mut BufReader::new(file))?)
}

fn write(path: &Path, tensor: &Tensor) -> Result<()> {
    let mut file = BufWriter::new(
        File::create(path).with_context(|| format!("cannot write {}", path.display()))?,
    );
    write_npy(tensor, &mut file)?;
    Ok(file.flush()?)
}
