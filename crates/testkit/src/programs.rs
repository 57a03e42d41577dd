//! Graphs as compiled programs, compared with the interpreter.
//!
//! The graph is optimised, fused and built as the facade does it; the runtime, with its compiler and device, is the
//! caller's. [`smallest`] finds the first wrong value, as a separate graph.

use crate::kernels::BackwardPool;
use crate::oracle::{
    Unexplained, explain, explain_near, is_of_data, may_fail_with, may_leave_out, small_limits,
};
use crate::random::SplitMix64;
use kiln_backend::{CallerOnly, KernelCompiler, Target, TaskPool};
use kiln_fusion::FusionOptions;
use kiln_interpreter::{InterpretError, InterpretOptions, interpret};
use kiln_ir::Graph;
use kiln_lazy_runtime::{
    CompiledProgram, Planner, PreferredLayouts, Runtime, RuntimeError, RuntimeOptions, SpinPool,
};
use kiln_native::NativeExecutor;
use kiln_passes::{PassContext, PassOptions, eliminate_dead_ops, optimize};
use kiln_program::{BuildOptions, LayoutPreferences, Program};
use kiln_scalar::Mode;
use kiln_symbolic_shape::FactSelection;
use kiln_tensor::{DType, Element, Tensor, TensorError, bf16, f16};
use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Plans an optimised graph as the facade does.
#[derive(Clone)]
pub struct GraphPlanner {
    /// The graph, optimised.
    pub graph: Graph,
    /// Whether ops are fused.
    pub fuse: bool,
    /// How buffers are laid out.
    pub layouts: Arc<dyn LayoutPreferences + Send + Sync>,
    /// Build options of the program.
    pub build: BuildOptions,
}

impl Planner for GraphPlanner {
    fn plan(&self, facts: &FactSelection) -> Result<Program, Box<dyn Error + Send + Sync>> {
        let options = FusionOptions::new()
            .with_fusion(self.fuse)
            .with_facts(facts.clone());
        let plan = kiln_fusion::plan(&self.graph, &options)?;
        let graph = self.graph.clone();
        Ok(kiln_program::build(
            graph,
            &plan,
            &*self.layouts,
            &self.build,
        )?)
    }
}

/// A runtime that compiles for a target with one thread, and launches on a pool.
pub fn runtime(
    compiler: &Arc<dyn KernelCompiler>,
    target: Target,
    pool: Arc<dyn TaskPool>,
) -> Arc<Runtime> {
    let options = RuntimeOptions::new()
        .with_target(target)
        .with_compile_threads(NonZeroUsize::MIN);
    let device = NativeExecutor::new().with_pool(pool);
    Arc::new(Runtime::new(
        Some(Arc::clone(compiler)),
        Arc::new(device),
        options,
    ))
}

/// A runtime per target, each with a different number of threads.
pub fn runtimes(
    compiler: &Arc<dyn KernelCompiler>,
    targets: impl IntoIterator<Item = Target>,
) -> Vec<Arc<Runtime>> {
    let made = targets.into_iter().enumerate().map(|(position, target)| {
        let pool: Arc<dyn TaskPool> = match position % 3 {
            0 => Arc::new(CallerOnly),
            1 => Arc::new(BackwardPool::new(3)),
            _ => Arc::new(SpinPool::new(2)),
        };
        runtime(compiler, target, pool)
    });
    made.collect()
}

/// How a program fails or differs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramFinding {
    /// It cannot be planned.
    #[error("no plan: {0}")]
    Plan(String),
    /// It fails where the interpreter has outputs.
    #[error("{target}: fails where the interpreter does not: {} {source}", .source.code())]
    Run {
        /// The target.
        target: String,
        /// The reason.
        source: RuntimeError,
    },
    /// It fails with a different code than the interpreter, or has outputs where the interpreter has none.
    #[error(
        "{target}: the interpreter fails with {expected}, {expected_code}; found {}",
        found.as_deref().unwrap_or("outputs")
    )]
    Code {
        /// The target.
        target: String,
        /// The interpreter's code.
        expected_code: &'static str,
        /// The interpreter's error.
        expected: InterpretError,
        /// The program's error and code; `None` if it has outputs.
        found: Option<String>,
    },
    /// A wrong output.
    #[error("{target}: output {output}{source}")]
    Output {
        /// The target.
        target: String,
        /// Which output.
        output: usize,
        /// The difference.
        source: Unexplained,
    },
    /// A wrong number of outputs.
    #[error("{target}: expected {expected} outputs, found {found}")]
    Count {
        /// The target.
        target: String,
        /// The expected number.
        expected: usize,
        /// The actual number.
        found: usize,
    },
}

/// One graph on several runtimes.
#[derive(Debug)]
pub struct Compared {
    graph: Graph,
    optimized: Graph,
    programs: Vec<CompiledProgram>,
}

impl Compared {
    /// Plans a graph for each runtime.
    ///
    /// # Errors
    /// If it cannot be optimised or planned.
    pub fn new(
        graph: &Graph,
        runtimes: &[Arc<Runtime>],
        fuse: bool,
    ) -> Result<Self, ProgramFinding> {
        let (optimized, _) = optimize(graph.clone(), &mut PassOptions::default())
            .map_err(|error| ProgramFinding::Plan(error.to_string()))?;
        let mut programs = Vec::new();
        for runtime in runtimes {
            let planner: Arc<dyn Planner> = Arc::new(GraphPlanner {
                graph: optimized.clone(),
                fuse,
                layouts: Arc::new(PreferredLayouts::of(Arc::clone(runtime))),
                build: BuildOptions::default(),
            });
            let program = CompiledProgram::new(Arc::clone(runtime), planner);
            programs.push(program.map_err(|error| ProgramFinding::Plan(error.to_string()))?);
        }
        Ok(Self {
            graph: graph.clone(),
            optimized,
            programs,
        })
    }

    /// The programs, one per runtime.
    pub fn programs(&self) -> &[CompiledProgram] {
        &self.programs
    }

    /// Runs every program and compares; false if the interpreter has no outputs either.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&self, inputs: &[Tensor]) -> Result<bool, ProgramFinding> {
        let promoted = interpret(&self.graph, inputs, &options(Mode::Promoted));
        let declared = interpret(&self.graph, inputs, &options(Mode::Declared));
        let references = promoted.ok().zip(declared.ok());
        for program in &self.programs {
            let target = target_of(program);
            let ran = program.run(inputs);
            // An op that fails and whose results are unused may be omitted.
            let Some((promoted, declared)) = &references else {
                continue;
            };
            let found = ran.map_err(|source| ProgramFinding::Run {
                target: target.clone(),
                source,
            })?;
            if found.len() != declared.len() {
                return Err(ProgramFinding::Count {
                    target,
                    expected: declared.len(),
                    found: found.len(),
                });
            }
            for (output, ((promoted, declared), found)) in
                promoted.iter().zip(declared).zip(&found).enumerate()
            {
                if explain(promoted, declared, found).is_ok() {
                    continue;
                }
                let nearby = self.nearby(inputs, output);
                explain_near(promoted, declared, &nearby, found).map_err(|source| {
                    ProgramFinding::Output {
                        target: target.clone(),
                        output,
                        source,
                    }
                })?;
            }
        }
        Ok(references.is_some())
    }

    /// As [`check`](Self::check); and if the interpreter fails, every program must fail with the same code, in the
    /// sense of [`may_fail_with`]. Rejections because of the interpreter's own limits are skipped; data faults in an op
    /// that the passes remove do not count, nor do those in elements that kernels omit, in the sense of
    /// [`may_leave_out`].
    ///
    /// # Errors
    /// The first difference.
    pub fn check_codes(&self, inputs: &[Tensor]) -> Result<bool, ProgramFinding> {
        let fault = |graph| interpret(graph, inputs, &options(Mode::Declared)).err();
        let limits = ["E0832", "E0833", "E0834", "E0835"];
        let (written, optimized) = (fault(&self.graph), fault(&self.optimized));
        let all = written.iter().chain(&optimized);
        if all.into_iter().any(|error| limits.contains(&error.code())) {
            return Ok(false);
        }
        let is_kept = |error: &InterpretError| !is_of_data(error.code());
        let Some(expected) = optimized.or_else(|| written.filter(is_kept)) else {
            return self.check(inputs);
        };
        for program in &self.programs {
            let found = match program.run(inputs) {
                Ok(_) if may_leave_out(&self.optimized, expected.code()) => continue,
                Ok(_) => None,
                Err(error) if may_fail_with(&self.optimized, expected.code(), error.code()) => {
                    continue;
                }
                Err(error) => Some(format!("{error}, {}", error.code())),
            };
            return Err(ProgramFinding::Code {
                target: target_of(program),
                expected_code: expected.code(),
                expected,
                found,
            });
        }
        Ok(false)
    }

    /// An output in `f64`, for inputs whose floats are perturbed by a rounding.
    fn nearby(&self, inputs: &[Tensor], output: usize) -> Vec<Tensor> {
        let options = options(Mode::Promoted);
        let run = |seed| {
            let mut random = SplitMix64::new(seed);
            let inputs: Result<Vec<_>, _> = inputs
                .iter()
                .map(|input| off_by_a_rounding(input, &mut random))
                .collect();
            let mut outputs = interpret(&self.graph, &inputs.ok()?, &options).ok()?;
            Some(outputs.swap_remove(output))
        };
        (0..N_NEARBY).filter_map(run).collect()
    }
}

fn target_of(program: &CompiledProgram) -> String {
    let target = program.runtime().target();
    target.map_or_else(|| "no target".to_owned(), ToString::to_string)
}

fn options(mode: Mode) -> InterpretOptions<'static> {
    InterpretOptions {
        mode,
        limits: small_limits(),
        ..InterpretOptions::default()
    }
}

/// The number of perturbed inputs.
const N_NEARBY: u64 = 4;

/// A tensor whose floats are multiplied by 1 - e, 1 or 1 + e, where e is the distance from 1 to the next float of its type.
fn off_by_a_rounding(tensor: &Tensor, random: &mut SplitMix64) -> Result<Tensor, TensorError> {
    let mut factor = |step: f64| 1.0 + step * [-1.0, 0.0, 1.0][(random.next_u64() % 3) as usize];
    match tensor.dtype() {
        DType::F64 => map(tensor, |x: f64| x * factor(f64::EPSILON)),
        DType::F32 => map(tensor, |x: f32| {
            (f64::from(x) * factor(f64::from(f32::EPSILON))) as f32
        }),
        DType::F16 => map(tensor, |x: f16| {
            f16::from_f64(x.to_f64() * factor(f16::EPSILON.to_f64()))
        }),
        DType::BF16 => map(tensor, |x: bf16| {
            bf16::from_f64(x.to_f64() * factor(bf16::EPSILON.to_f64()))
        }),
        _ => Ok(tensor.clone()),
    }
}

fn map<T: Element>(tensor: &Tensor, f: impl FnMut(T) -> T) -> Result<Tensor, TensorError> {
    let elements: Vec<T> = tensor.to_vec::<T>()?.into_iter().map(f).collect();
    Tensor::from_vec(tensor.shape(), elements)
}

/// The first value of a graph's body that is wrong on these inputs, as a graph that computes nothing else; with the
/// difference. For a graph that fails; `None` if every value is correct by itself.
pub fn smallest(
    graph: &Graph,
    runtimes: &[Arc<Runtime>],
    fuse: bool,
    inputs: &[Tensor],
) -> Option<(Graph, ProgramFinding)> {
    let values: Vec<_> = graph
        .region(graph.body())
        .ops
        .iter()
        .flat_map(|&op| graph.op(op).results.iter().copied())
        .collect();
    for value in values {
        if graph.tensor_ty(value).is_none() {
            continue;
        }
        let mut part = graph.clone();
        part.set_outputs([("y", value)]);
        let part = match eliminate_dead_ops(part.clone(), &mut PassContext::new()) {
            Ok(changed) => changed.graph,
            Err(_) => part,
        };
        let finding =
            Compared::new(&part, runtimes, fuse).and_then(|compared| compared.check(inputs));
        if let Err(finding) = finding {
            return Some((part, finding));
        }
    }
    None
}
