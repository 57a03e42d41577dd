//! A detailed report on one call of a model, as data and as a page: the time of each step compared with what the
//! machine can achieve, the memory layout, what was compiled, which kernels were nearly fused, and what to try next.
//!
//! The page is rendered in `html`. Invariants: a report is about one call's sizes; every measured quantity has its unit
//! in its name; texts from the model are stored unchanged, and escaped when they are printed.

mod advice;
mod apart;
mod compiles;
mod html;
mod measure;
mod memory;
mod near_misses;
mod rates;
mod seen;
mod steps;
#[cfg(test)]
mod tests;

pub use rates::MachineRates;

use serde::Serialize;

/// A detailed report on a call of a model. [`to_html`](Self::to_html) renders it as a page, `serde` as JSON.
///
/// ```no_run
/// use kiln::{Device, Model, Options, diagnose};
///
/// let model = Options::new().device(Device::cpu()).load("model.onnx")?;
/// let drawn = diagnose::draw_inputs(&model, &[("batch".to_owned(), 8)].into(), 0)?;
/// let report = diagnose::CallReport::measure(&model, &drawn.tensors, 10)?;
/// std::fs::write("report.html", report.to_html())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct CallReport {
    /// The name of the model's graph.
    pub model: String,
    /// The device.
    pub device: String,
    /// The instruction-set level or architecture for which code was compiled, if any was.
    pub target: Option<String>,
    /// The number of threads that a step may use.
    pub threads: usize,
    /// Whether Kiln itself is a debug build, in which everything around kernels is slow.
    pub debug_build: bool,
    /// The inputs, as `name: f32[batch, 3]`, and the shapes that the call gave them.
    pub inputs: Vec<ReportedInput>,
    /// The sizes of the call, by symbol.
    pub sizes: Vec<(String, i64)>,
    /// The machine's best rates, as measured along with the call.
    pub rates: Option<MachineRates>,
    /// The number of ops of the graph, constants excluded.
    pub n_ops: usize,
    /// The number of calls of which times are the median.
    pub calls: usize,
    /// The time of the first call, including compilation.
    pub first_ms: f64,
    /// The median time of a call, without the cost of measuring its steps.
    pub call_ms: f64,
    /// The steps, in the order in which they begin; one that runs repeatedly is listed once.
    pub steps: Vec<ReportedStep>,
    /// Every run of a step in one call, in order.
    pub runs: Vec<StepRun>,
    /// The values that steps pass on to others.
    pub edges: Vec<Edge>,
    /// The memory plan of the call; `None` if the sizes need a plan other than the main one.
    pub memory: Option<ReportedMemory>,
    /// The compiles, in order.
    pub compiles: Vec<ReportedCompile>,
    /// The number of kernels that came from memory or a store instead.
    pub kernels_loaded: u64,
    /// Pairs of steps that are not fused, those whose fusion would save most first.
    pub apart: Vec<Apart>,
    /// What to try next, the most promising first.
    pub advice: Vec<Advice>,
}

/// An input of the call.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ReportedInput {
    /// As `name: f32[batch, 3]`.
    pub description: String,
    /// The shape of the tensor that was given.
    pub shape: Vec<usize>,
}

/// A step of the call.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct ReportedStep {
    /// A name made from its ops.
    pub name: String,
    /// The nodes of the source model that it computes, in order, each once.
    pub nodes: Vec<String>,
    /// Its ops, as `add %y: f32[batch, 8]`.
    pub ops: Vec<String>,
    /// The kind: `kernel`, `builtin`, `interpret`, …
    pub kind: String,
    /// The class of its kernel.
    pub class: Option<String>,
    /// The name of its kernel, which other steps may launch too.
    pub kernel: Option<String>,
    /// The schedule that ran, as its strategy and parameters.
    pub schedule: Option<String>,
    /// The values it reads from other steps or from the caller, as `%x: f32[batch, 8]`.
    pub reads: Vec<String>,
    /// The values that other steps read from it.
    pub writes: Vec<String>,
    /// Why it is interpreted, or not fused into a larger kernel.
    pub notes: Vec<String>,
    /// How often it ran in a call.
    pub n_runs: usize,
    /// Its total time in a call, over all runs.
    pub ms: f64,
    /// Its share of the time of all steps.
    pub share: f64,
    /// The largest number of tasks that one of its launches had.
    pub tasks: u64,
    /// Bytes of its operands in a call, over all runs.
    pub bytes: u64,
    /// Scalar operations, if they can be counted.
    pub operations: Option<f64>,
    /// The minimum time at the machine's best rates, divided by the time it took.
    pub of_roofline: Option<f64>,
    /// Which rate that is: `memory`, `cache` or `arithmetic`.
    pub bound: Option<String>,
}

/// One run of a step.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct StepRun {
    /// The step, by position in the report.
    pub step: usize,
    /// When it began, from the beginning of the first.
    pub begin_ms: f64,
    /// How long it took.
    pub ms: f64,
}

/// A value that a step computes and another reads.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Edge {
    /// The step that computes it, by position.
    pub from: usize,
    /// The step that reads it.
    pub to: usize,
    /// As `%y: f32[batch, 8]`.
    pub value: String,
    /// Its size in this call, if it was known when the call began.
    pub bytes: Option<u64>,
}

/// The memory of the call in addition to its inputs and constants.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ReportedMemory {
    /// Bytes of the arena, in which values use the same memory one after another.
    pub arena: usize,
    /// Bytes of the results.
    pub results: usize,
    /// Bytes of scratch on all threads.
    pub scratch: usize,
    /// The peak of live values, over all steps: no placement needs less.
    pub largest_live_set: usize,
    /// The name of that step.
    pub largest_at: String,
    /// The number of steps that positions count.
    pub n_steps: usize,
    /// The values, in the order in which they are first written.
    pub values: Vec<MemoryValue>,
}

/// A value and its place.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct MemoryValue {
    /// Its name in the graph, or its number.
    pub name: String,
    /// Its size.
    pub bytes: usize,
    /// Its offset in the arena; `None` for a result, which has its own memory.
    pub offset: Option<usize>,
    /// The first step that uses it, by position.
    pub from: usize,
    /// The last.
    pub to: usize,
}

/// A compile.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ReportedCompile {
    /// The kernel.
    pub kernel: String,
    /// Its class.
    pub class: String,
    /// Its schedule.
    pub schedule: String,
    /// What it assumes about sizes; empty for the generic kernel.
    pub facts: String,
    /// Why it was compiled.
    pub reason: String,
    /// The time of each stage, in order.
    pub stages: Vec<(String, f64)>,
    /// The total time.
    pub ms: f64,
    /// Bytes of code.
    pub code_bytes: usize,
    /// The error, if there is no code.
    pub error: Option<String>,
}

/// Two steps that are not fused, one of which reads the other's result.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Apart {
    /// The first, by position.
    pub from: usize,
    /// The second.
    pub to: usize,
    /// The values between them.
    pub values: String,
    /// An estimate of what one kernel would save: writing and reading the values, and one launch.
    pub gain_ms: f64,
    /// The reason why they are not fused.
    pub reason: String,
    /// A fact about sizes that would allow fusing them: a near miss.
    pub fact: Option<String>,
}

/// Something to try.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Advice {
    /// What to do, in a few words.
    pub title: String,
    /// What was found, with its figures.
    pub because: String,
    /// A command that does this or shows more.
    pub command: Option<String>,
    /// The time that it could save in each call, if that can be estimated.
    pub gain_ms: Option<f64>,
}
