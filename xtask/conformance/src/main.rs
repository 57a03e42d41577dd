//! Runs ONNX's test cases, and calls of generated models: requests come on standard input, a line of JSON each, and a line
//! of JSON is returned for each, in order.
//!
//! `cargo xtask conformance` watches it, and ends it when a case takes too long. A case that ends the process therefore
//! gets no reply, which counts as a failure.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    reason = "the answers are what a pipe carries away"
)]

mod calls;
mod case;
mod compare;
mod verdict;

use std::io::{BufRead, Write};

use serde::Deserialize;

/// A line of standard input.
#[derive(Deserialize)]
#[serde(untagged)]
enum Request {
    /// Run a case, and compare with its expected results.
    Case {
        /// The case's folder.
        folder: std::path::PathBuf,
        rtol: f64,
        atol: f64,
    },
    /// Call a model, and write the results.
    Calls(calls::Calls),
}

fn main() -> anyhow::Result<()> {
    let stdin = std::io::stdin().lock();
    for line in stdin.lines() {
        let request: Request = serde_json::from_str(&line?)?;
        let mut stdout = std::io::stdout().lock();
        match request {
            Request::Case { folder, rtol, atol } => {
                let tolerance = compare::Tolerance {
                    relative: rtol,
                    absolute: atol,
                };
                serde_json::to_writer(&mut stdout, &case::run(&folder, tolerance))?;
            }
            Request::Calls(calls) => serde_json::to_writer(&mut stdout, &calls::run(&calls))?,
        }
        writeln!(stdout)?;
        stdout.flush()?;
    }
    Ok(())
}
