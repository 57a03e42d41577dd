//! Runs ONNX's test cases: folders of cases come in by standard input, a line each, and a line of JSON goes out for
//! each, in order.
//!
//! What watches it, and ends it when a case takes too long, is `cargo xtask conformance`. A case that ends the process
//! is therefore no answer, which counts as a failure.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    reason = "the answers are what a pipe carries away"
)]

mod case;
mod compare;
mod verdict;

use std::io::{BufRead, Write};

use serde::Deserialize;

/// A line of standard input.
#[derive(Deserialize)]
struct Request {
    /// The case's folder.
    folder: std::path::PathBuf,
    rtol: f64,
    atol: f64,
}

fn main() -> anyhow::Result<()> {
    let stdin = std::io::stdin().lock();
    for line in stdin.lines() {
        let request: Request = serde_json::from_str(&line?)?;
        let tolerance = compare::Tolerance {
            relative: request.rtol,
            absolute: request.atol,
        };
        let answer = case::run(&request.folder, tolerance);
        let mut stdout = std::io::stdout().lock();
        serde_json::to_writer(&mut stdout, &answer)?;
        writeln!(stdout)?;
        stdout.flush()?;
    }
    Ok(())
}
