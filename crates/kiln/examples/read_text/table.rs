//! What the example prints: the models' signatures, a row per picture, and a summary.

use crate::boxes::Place;
use crate::reader::{Line, TextReader};
use kiln::{CompilationStats, ValueDescription};
use std::collections::BTreeSet;
use std::io::{Write, stderr, stdout};
use std::path::Path;
use std::time::Duration;

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

/// A picture, read by the interpreter and by compiled code.
pub(crate) struct Row {
    pub(crate) interpreted: Line,
    /// The first call with a picture of this width.
    pub(crate) compiled: Line,
    /// The same call again.
    pub(crate) again: Duration,
}

pub(crate) fn header() {
    cells([
        "picture",
        "bound to",
        "direction",
        "text",
        "interpreter",
        "this width",
        "compiling",
        "again",
    ]);
}

pub(crate) fn row(path: &Path, row: &Row) {
    let line = &row.compiled;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let direction = if line.is_turned { "turned" } else { "upright" };
    let compiling = match line.compiles {
        0 => "0 compiles".to_owned(),
        compiles => format!("{compiles} in {}", milliseconds(line.compile_time)),
    };
    cells([
        &name,
        &format!("f32{:?}", line.shape),
        &format!("{direction} {:.0} %", line.turn_confidence * 100.0),
        &format!("{} ({:.0} %)", line.text, line.confidence * 100.0),
        &milliseconds(row.interpreted.elapsed),
        &milliseconds(line.elapsed),
        &compiling,
        &milliseconds(row.again),
    ]);
}

/// How many places of text a picture has.
pub(crate) fn found(path: &Path, places: usize, elapsed: Duration) {
    let (name, time) = (path.display(), milliseconds(elapsed));
    print(&format!("{name}: {places} places of text, found in {time}"));
    print(&format!(
        "{:>5} {:>5} {:>5} {:>5}  text",
        "left", "top", "right", "below"
    ));
}

/// A place and its text.
pub(crate) fn place(place: &Place, line: &Line) {
    let Place {
        left,
        top,
        right,
        bottom,
    } = place;
    print(&format!(
        "{left:>5} {top:>5} {right:>5} {bottom:>5}  {} ({:.0} %)",
        line.text,
        line.confidence * 100.0
    ));
}

/// Compilation statistics over all pictures.
pub(crate) fn summary(rows: &[Row], stats: &CompilationStats) {
    let later: u64 = rows.iter().skip(1).map(|row| row.compiled.compiles).sum();
    let sum = |time: fn(&Row) -> Duration| rows.iter().skip(1).map(time).sum::<Duration>();
    print("");
    let widths: BTreeSet<_> = rows.iter().map(|row| row.compiled.shape.last()).collect();
    print(&format!(
        "The first picture compiled {} kernels; the {} after it, of {} other widths, {later}.",
        rows.first().map_or(0, |row| row.compiled.compiles),
        rows.len().saturating_sub(1),
        widths.len().saturating_sub(1),
    ));
    print(&format!(
        "Those took {} interpreted, {} compiled at their new widths, {} at widths seen before.",
        milliseconds(sum(|row| row.interpreted.elapsed)),
        milliseconds(sum(|row| row.compiled.elapsed)),
        milliseconds(sum(|row| row.again)),
    ));
    print(&format!(
        "Steps left to the interpreter: {}; contractions left to plain loops: {}.",
        stats.interpreted_steps, stats.fallback_contractions
    ));
}

fn milliseconds(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1e3;
    let digits = if milliseconds < 10.0 { 1 } else { 0 };
    format!("{milliseconds:.digits$} ms")
}

fn cells(cells: [&str; 8]) {
    let [
        picture,
        bound,
        direction,
        text,
        interpreter,
        width,
        compiling,
        again,
    ] = cells;
    print(&format!(
        "{picture:16} {bound:20} {direction:14} {text:40} {interpreter:>11} {width:>11} {compiling:>16} {again:>9}"
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
