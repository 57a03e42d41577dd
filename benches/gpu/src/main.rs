//! `kiln-gpu`: checks and measures Kiln on a GPU.
//!
//! ```text
//! kiln-gpu probe                 what the device is
//! kiln-gpu kernels CASES.jsonl   kernels against their evaluator, every schedule
//! kiln-gpu graphs CASES.jsonl    graphs against the interpreter
//! kiln-gpu builtins              what is no kernel against the interpreter, and its times
//! kiln-gpu products              products by cuBLASLt against sums on the host, and their rates
//! kiln-gpu lose                  an illegal access, and what follows
//! kiln-gpu measure               copies, maps, rows, products, launches
//! ```
//!
//! Each prints a JSON line per result, then a line for people. The cases are written by testkit's `export_gpu_cases`, which
//! needs LLVM; this program needs neither LLVM nor CUDA to build.
#![cfg_attr(not(feature = "cuda"), forbid(unsafe_code))]
#![allow(clippy::print_stdout, reason = "it is a command")]

#[cfg(feature = "cuda")]
mod builtins;
#[cfg(feature = "cuda")]
mod case;
#[cfg(feature = "cuda")]
mod graphs;
#[cfg(feature = "cuda")]
mod image;
#[cfg(feature = "cuda")]
mod kernels;
#[cfg(feature = "cuda")]
mod launches;
#[cfg(feature = "cuda")]
mod lose;
#[cfg(feature = "cuda")]
mod measure;
#[cfg(feature = "cuda")]
mod probe;
#[cfg(feature = "cuda")]
mod products;

use anyhow::{Error, bail};

#[cfg(feature = "cuda")]
fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["probe"] => probe::run(),
        ["kernels", file] => kernels::run(file, ""),
        ["kernels", file, word] => kernels::run(file, word),
        ["graphs", file] => graphs::run(file),
        ["builtins"] => builtins::run(),
        ["lose"] => lose::run(),
        ["products"] => products::run(),
        ["measure"] => measure::run(""),
        ["measure", word] => measure::run(word),
        _ => {
            bail!("expected probe, kernels FILE, graphs FILE, builtins, products, lose or measure")
        }
    }
}

#[cfg(not(feature = "cuda"))]
fn main() -> Result<(), Error> {
    bail!("built without a GPU backend: build it with `--features cuda`")
}
