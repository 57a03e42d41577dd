//! Reads the text lines in a few pictures: a classifier says which way up a line is, a recogniser
//! reads it, both at the picture's own width.
//!
//! Run it with `cargo run --release -p kiln --example read_text -- MODELS_DIR`, where the folder
//! holds `ocr-cls/model.onnx` and `ocr-rec/model.onnx`.

mod reader;
mod table;

use reader::TextReader;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(models) = std::env::args_os().nth(1) else {
        table::note("usage: read_text MODELS_DIR (with ocr-cls/model.onnx and ocr-rec/model.onnx)");
        return ExitCode::from(2);
    };
    match read_samples(Path::new(&models)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            table::note(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn read_samples(models: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let reader = TextReader::load(models)?;
    table::models(&reader);
    table::header();
    for path in reader::samples()? {
        let line = reader.read(&path)?;
        table::row(&path, &line);
    }
    Ok(())
}
