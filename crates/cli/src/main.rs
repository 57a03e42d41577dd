//! The `kiln` command: runs, serves, measures, inspects, explains and checks tensor programs, and inspects the machine.
//!
//! Results go to standard output, notices and errors to standard error. The exit status is 0 on success, 1 on failure,
//! 2 for invalid arguments, 130 when Ctrl-C cancelled a call.

#![deny(unsafe_code)]

mod bench;
mod cache;
mod cases;
#[cfg(feature = "llvm")]
#[cfg(feature = "onnx")]
mod check;
mod compare;
mod compile;
mod doctor;
#[cfg(feature = "llvm")]
mod estimates;
mod explain;
mod importing;
mod inputs;
mod inspect;
mod interrupts;
mod logging;
mod model;
mod page;
mod profile;
mod progress;
#[cfg(feature = "onnx")]
mod quantize;
mod report;
mod repro;
mod run;
#[cfg(feature = "serve")]
mod serve;
mod shell;
mod statistics;
mod timing;

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Compiles and runs tensor programs whose shapes change from call to call.
#[derive(Parser)]
#[command(
    name = "kiln",
    version,
    about,
    propagate_version = true,
    help_template = "{about-with-newline}\n{usage-heading} {usage}\n{after-help}\n\nOptions:\n{options}",
    after_help = "Calling a model:
  run          Call a model on inputs from files or on random inputs
  bench        Measure call times, optionally against onnxruntime
  serve        Serve models over HTTP and gRPC with the Open Inference Protocol

Looking inside:
  report       Write an HTML page about a call: timeline, fused graph, memory, what to try next
  profile      Measure each step of a call
  explain      Explain which kernels a model's ops became, and why two ops were or were not fused
  inspect      Show a model at any stage, from its graph to machine code

Checking:
  check        Show what an ONNX model contains, and whether all of it is supported
  compare      Check compiled code against the interpreter on your inputs

Compiled code:
  compile      Compile and store everything that calls to a model may need
  cache        List, count, check or remove stored code

Models:
  quantize     Quantise an ONNX model, and write the result as ONNX

This machine:
  doctor       Show what this machine has, what is missing, and how to install it
  completions  Print completions for bash, zsh or fish
  man          Write manual pages
  help         Print this help, or the help of a command

Logs: KILN_LOG=debug (or `kiln_passes=trace,info`, …) writes logs, with the time of every stage, to standard error.
Compiled code is stored in KILN_CACHE_DIR (`off` for nowhere), by default in the user's cache folder; see `kiln cache`."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a model on inputs from files or on random inputs
    Run(run::Run),
    /// Measure call times
    Bench(bench::Bench),
    /// Compile and store everything that calls to a model may need
    Compile(compile::Compile),
    /// Show a model at any stage, from its graph to machine code
    Inspect(inspect::Inspect),
    /// Explain which kernels a model's ops became, and why two ops were or were not fused
    Explain(explain::Explain),
    /// Check compiled code against the interpreter on your inputs
    Compare(compare::Compare),
    /// Show what an ONNX model contains, whether all of it is supported, and how much memory a call needs
    #[cfg(feature = "llvm")]
    #[cfg(feature = "onnx")]
    Check(check::Check),
    /// Measure each step of a call
    Profile(profile::Profile),
    /// Write an HTML page about a call: timeline, fused graph, steps, memory, near misses, what to try next
    Report(page::Page),
    /// Quantise an ONNX model, and write the result as ONNX
    #[cfg(feature = "onnx")]
    Quantize(quantize::Quantize),
    /// Serve models over HTTP and gRPC with the Open Inference Protocol
    #[cfg(feature = "serve")]
    Serve(serve::Serve),
    /// List, count, check or remove stored code
    Cache(cache::Cache),
    /// Show what this machine has, what is missing, and how to install it
    Doctor(doctor::Doctor),
    /// Print completions for a shell: source <(kiln completions bash)
    Completions(shell::Completions),
    /// Write manual pages to a folder
    Man(shell::Man),
}

fn main() -> ExitCode {
    #[cfg(feature = "llvm")]
    kiln::compile_worker::main_if_worker();
    let arguments = Arguments::parse();
    // The server also starts what sends its spans.
    #[cfg(feature = "serve")]
    let starts_logs = matches!(arguments.command, Command::Serve(_));
    #[cfg(not(feature = "serve"))]
    let starts_logs = false;
    if !starts_logs {
        logging::start();
    }
    let done = match arguments.command {
        Command::Run(run) => run.run(),
        Command::Bench(bench) => bench.run(),
        Command::Compile(compile) => compile.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Explain(explain) => explain.run(),
        Command::Compare(compare) => compare.run(),
        #[cfg(feature = "llvm")]
        #[cfg(feature = "onnx")]
        Command::Check(check) => check.run(),
        Command::Profile(profile) => profile.run(),
        Command::Report(page) => page.run(),
        #[cfg(feature = "onnx")]
        Command::Quantize(quantize) => quantize.run(),
        #[cfg(feature = "serve")]
        Command::Serve(serve) => serve.run(),
        Command::Cache(cache) => cache.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Completions(completions) => completions.run(Arguments::command()),
        Command::Man(man) => man.run(Arguments::command()),
    };
    match done {
        Ok(failures) if failures.is_empty() => ExitCode::SUCCESS,
        Ok(_) => interrupts::exit_code().unwrap_or(ExitCode::FAILURE),
        Err(error) => {
            let code = report::failed(&error);
            interrupts::exit_code().unwrap_or(code)
        }
    }
}

#[cfg(test)]
#[cfg(all(feature = "llvm", feature = "onnx", feature = "serve"))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_command_is_in_a_group_of_the_help() {
        let help = Arguments::command().render_help().to_string();
        for command in Arguments::command().get_subcommands() {
            let line = format!("\n  {:12} ", command.get_name());
            assert_eq!(help.matches(&line).count(), 1, "{}", command.get_name());
        }
    }

    #[test]
    fn exactly_the_options_are_on_the_page_of_the_command() {
        let page = include_str!("../../../docs/book/src/reference/command-line.md");
        let words = page.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
        let described: BTreeSet<String> = words
            .filter_map(|word| word.strip_prefix("--"))
            .filter(|name| name.starts_with(char::is_alphabetic))
            .map(str::to_owned)
            .collect();
        let mut known = BTreeSet::new();
        let mut commands = vec![Arguments::command()];
        while let Some(command) = commands.pop() {
            let names = command
                .get_arguments()
                .filter_map(|option| option.get_long());
            known.extend(names.map(str::to_owned));
            commands.extend(command.get_subcommands().cloned());
        }
        assert_eq!(described, known);
    }
}
