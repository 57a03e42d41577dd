//! The `kiln` command: run, bench and inspect tensor programs, and look at the machine.
//!
//! Results go to standard output, news and errors to standard error. The exit status is 0 when all
//! went well, 1 when something failed, 2 when the arguments make no sense.

#![forbid(unsafe_code)]

mod bench;
mod cases;
mod doctor;
mod inspect;
mod logging;
mod model;
mod progress;
mod report;
mod run;
mod statistics;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Compiles and runs tensor programs whose shapes change from call to call.
#[derive(Parser)]
#[command(
    version,
    about,
    propagate_version = true,
    after_help = "Logs: KILN_LOG=debug (or `kiln_passes=trace,info`, …) writes them, with the time of every stage, to standard error."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a model on inputs from files
    Run(run::Run),
    /// Measure how long calls take
    Bench(bench::Bench),
    /// Show a model's graph after any stage
    Inspect(inspect::Inspect),
    /// Say what this machine has, what is missing, and how to get it
    Doctor(doctor::Doctor),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    logging::start();
    let done = match arguments.command {
        Command::Run(run) => run.run(),
        Command::Bench(bench) => bench.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Doctor(doctor) => doctor.run(),
    };
    match done {
        Ok(failures) if failures.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => report::failed(&error),
    }
}
