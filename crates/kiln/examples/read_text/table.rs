//! What the example prints: the models' signatures, then a row per picture.

use crate::reader::{Line, TextReader};
use kiln::Model;
use std::io::{Write, stderr, stdout};
use std::path::Path;

/// The models with their symbolic shapes.
pub(crate) fn models(reader: &TextReader) {
    print("Two models, loaded once, for pictures of any width:");
    print(&format!("  classifier  {}", signature(&reader.classifier)));
    print(&format!("  recogniser  {}", signature(&reader.recogniser)));
    print("");
}

pub(crate) fn header() {
    print(&format!(
        "{:16} {:>9}  {:26} {:>18}  {:34} {:>5} {:>10}",
        "picture", "size", "bound shape", "direction", "text", "sure", "time"
    ));
}

pub(crate) fn row(path: &Path, line: &Line) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let size = format!("{} x 48", line.width);
    let shape = format!("N = 1, H = 48, W = {}", line.width);
    let direction = if line.is_turned { "turned" } else { "upright" };
    let direction = format!("{direction} {:5.1} %", line.turn_confidence * 100.0);
    let sure = format!("{:.0} %", line.confidence * 100.0);
    let time = format!("{:.0} ms", line.elapsed.as_secs_f64() * 1e3);
    print(&format!(
        "{name:16} {size:>9}  {shape:26} {direction:>18}  {:34} {sure:>5} {time:>10}",
        line.text
    ));
}

/// Writes to standard error.
pub(crate) fn note(text: &str) {
    let _closed = writeln!(stderr(), "{text}");
}

fn print(text: &str) {
    let _closed = writeln!(stdout(), "{text}");
}

fn signature(model: &Model) -> String {
    let list = |values: &[kiln::ValueDescription]| {
        values
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    format!("{} -> {}", list(model.inputs()), list(model.outputs()))
}
