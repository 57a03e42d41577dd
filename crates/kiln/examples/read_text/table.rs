//! What the example prints: the models' signatures, then a row per picture.

use crate::reader::{Line, TextReader};
use kiln::ValueDescription;
use std::io::{Write, stderr, stdout};
use std::path::Path;

/// The models with their symbolic shapes.
pub(crate) fn models(reader: &TextReader) {
    print("Two models, loaded once, for pictures of any width:");
    for (name, model) in [
        ("classifier", &reader.classifier),
        ("recogniser", &reader.recogniser),
    ] {
        print(&format!("  {name:10}  takes  {}", list(model.inputs())));
        print(&format!("  {:10}  gives  {}", "", list(model.outputs())));
    }
    print("");
}

pub(crate) fn header() {
    cells(["picture", "bound to", "direction", "text", "sure", "time"]);
}

pub(crate) fn row(path: &Path, line: &Line) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let direction = if line.is_turned { "turned" } else { "upright" };
    cells([
        &name,
        &format!("f32{:?}", line.shape),
        &format!("{direction} {:.1} %", line.turn_confidence * 100.0),
        &line.text,
        &format!("{:.0} %", line.confidence * 100.0),
        &format!("{:.0} ms", line.elapsed.as_secs_f64() * 1e3),
    ]);
}

fn cells([picture, bound, direction, text, sure, time]: [&str; 6]) {
    print(&format!(
        "{picture:16} {bound:20} {direction:16} {text:34} {sure:>5} {time:>9}"
    ));
}

/// Writes to standard error.
pub(crate) fn note(text: &str) {
    let _closed = writeln!(stderr(), "{text}");
}

fn print(text: &str) {
    let _closed = writeln!(stdout(), "{text}");
}

fn list(values: &[ValueDescription]) -> String {
    values
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}
