//! `cargo xtask`: the project's own tasks, from a bare machine to a checked tree.
//!
//! Each subcommand is one module; `tidy` holds one check per file. Not here: anything a user of Kiln runs (that is the
//! `kiln` command). Invariants: builds without LLVM; never names a package host; every step announces itself before it
//! runs.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line speaks through its standard streams"
)]

mod api;
mod bench;
mod bless;
mod build;
mod conformance;
mod coverage;
mod cuda;
mod demo;
mod deny;
mod dist;
mod exporters;
mod flags;
mod fuzz;
mod models;
mod mpi;
mod nightly;
mod outside;
mod python;
mod python_package;
mod ray;
mod report_shots;
mod sanitize;
mod serve_clients;
mod setup;
mod soak;
mod step;
mod stores;
mod suite_build;
mod test;
mod tidy;
mod tune;
mod versions;
mod workspace;

use std::process::ExitCode;

use flags::Task;

fn main() -> ExitCode {
    match flags::parse(lexopt::Parser::from_env()).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> anyhow::Result<()> {
    match task {
        Task::Help => {
            print!("{}", flags::HELP);
            Ok(())
        }
        Task::Setup { cuda } => {
            setup::run().and_then(|()| if cuda { cuda::setup() } else { Ok(()) })
        }
        Task::Build(options) => build::run(&options),
        Task::Models => models::run(),
        Task::Demo => demo::run(),
        Task::Test { cuda: false } => test::run(),
        Task::Test { cuda: true } => cuda::test(),
        Task::Tidy => tidy::run(),
        Task::Conformance(options) => conformance::run(&options),
        Task::CrossCheck { count } => conformance::cross_check(count),
        Task::Exporters(models) => exporters::run(&models),
        Task::Python(options) => python_package::run(options),
        Task::ServeClients => serve_clients::run(),
        Task::ReportShots => report_shots::run(),
        Task::Mpi => mpi::run(),
        Task::Stores => stores::run(),
        Task::Ray => ray::run(),
        Task::Soak {
            minutes,
            serve: false,
        } => soak::run(minutes),
        Task::Soak {
            minutes,
            serve: true,
        } => soak::serve(minutes),
        Task::Versions { earlier } => versions::run(&earlier),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Deny => deny::run(),
        Task::Dist(options) => dist::run(options),
        Task::Sanitize { packages } => sanitize::run(&packages),
        Task::Coverage { packages } => coverage::run(&packages),
        Task::Bench(options) => bench::run(&options),
        Task::Tune => tune::run(),
        Task::Bless(options) => bless::run(&options),
    }
}
