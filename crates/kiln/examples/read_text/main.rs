//! Reads the text lines in a few pictures: a classifier tells whether a line is upside down, a recogniser reads it, both at
//! the picture's own width. Each picture is read by the interpreter and by compiled code: the first picture compiles what
//! all later widths use.
//!
//! Run it with `cargo run --release -p kiln --example read_text -- MODELS_DIR`, where the folder holds `ocr-cls/model.onnx` and
//! `ocr-rec/model.onnx`. With a picture of your own, `… -- MODELS_DIR page.png boxes.png`, a detector (`ocr-det/model.onnx`)
//! finds the lines first.

mod boxes;
mod page;
mod reader;
mod table;

use kiln::Device;
use reader::TextReader;
use std::path::Path;
use std::process::ExitCode;
use table::Row;

fn main() -> ExitCode {
    let Some(models) = std::env::args_os().nth(1) else {
        table::note(
            "usage: read_text MODELS_DIR [PICTURE.png [BOXES.png]] (with ocr-cls/model.onnx and ocr-rec/model.onnx, for a picture also ocr-det/model.onnx)",
        );
        return ExitCode::from(2);
    };
    let models = Path::new(&models);
    let done = match std::env::args_os().nth(2) {
        Some(picture) => {
            let drawn = std::env::args_os().nth(3).unwrap_or("boxes.png".into());
            page::read(models, Path::new(&picture), Path::new(&drawn))
        }
        None => read_samples(models),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            table::note(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn read_samples(models: &Path) -> Result<(), Box<dyn std::error::Error>> {
    // The reference interpreter, and the best device of this build.
    let interpreted = TextReader::load(models, Device::interpreter())?;
    let best = match Device::cpu().is_available() {
        true => Device::cpu(),
        false => Device::interpreter(),
    };
    let compiled = TextReader::load(models, best)?;
    table::models(&compiled);
    table::header();
    let mut rows = Vec::new();
    for path in reader::samples()? {
        let row = Row {
            interpreted: interpreted.read(&path)?,
            compiled: compiled.read(&path)?,
            again: compiled.read(&path)?.elapsed,
        };
        if row.interpreted.text != row.compiled.text {
            return Err(format!("{}: compiled code read a different text", path.display()).into());
        }
        table::row(&path, &row);
        rows.push(row);
    }
    table::summary(&rows, &compiled.stats());
    Ok(())
}
