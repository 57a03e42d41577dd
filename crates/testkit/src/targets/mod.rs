//! The functions of the fuzz targets; a test replays kept inputs through them.
//!
//! Each accepts any bytes and panics only when Kiln broke a guarantee: a law of the text, a graph that passed the verifiers
//! and made a later stage panic or disagree. Bad input is not a finding.

mod compiled;
mod files;
mod graphs;
mod kernels;
mod seeds;
mod sizes;
mod stored;

use std::sync::Arc;

use kiln_backend::KernelCompiler;

pub use compiled::run_compiled;
pub use files::{load_object, read_array};
pub use graphs::{import_onnx, interpret_graph, plan_graph, read_graph, run_onnx};
pub use kernels::{read_kernel, run_kernel};
pub use seeds::{Seed, seeds};
pub use sizes::prove_sizes;
pub use stored::{example_bundle, example_entry, read_bundle, read_entry, read_program};

/// A target: its name, which is that of its folders under `fuzz/`, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// A target that goes through machine code, with a compiler for it.
pub type CompiledTarget = (&'static str, fn(&Arc<dyn KernelCompiler>, &[u8]));

/// Every target that needs no compiler.
pub const TARGETS: [Target; 12] = [
    ("read_graph", read_graph),
    ("import_onnx", import_onnx),
    ("run_onnx", run_onnx),
    ("plan_graph", plan_graph),
    ("interpret_graph", interpret_graph),
    ("read_kernel", read_kernel),
    ("read_program", read_program),
    ("read_entry", read_entry),
    ("read_bundle", read_bundle),
    ("read_array", read_array),
    ("load_object", load_object),
    ("prove_sizes", prove_sizes),
];

/// Every target that goes through machine code.
pub const COMPILED_TARGETS: [CompiledTarget; 2] =
    [("run_kernel", run_kernel), ("run_compiled", run_compiled)];

/// The number of bytes before a text that choose the inputs on which its graph is run.
const CHOICE_BYTES: usize = 16;

/// Checks that a terminal can show a message.
fn assert_plain(message: &str) {
    let is_plain = message.chars().all(|c| c == '\n' || !c.is_control());
    assert!(is_plain, "{message:?}");
}

#[allow(clippy::panic, reason = "a panic is how a fuzz target reports")]
fn fail_with(error: &str) -> ! {
    panic!("{error}")
}
