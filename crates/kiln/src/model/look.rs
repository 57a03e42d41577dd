//! Looking into a model: what became of its graph, which ops became one kernel and why, and what
//! each step of a call cost.
//!
//! Nothing here changes a model. Plans that are shown are made again, with the same result.

use super::executable::Executable;
use super::instance::Instance;
use super::{Model, call, instance};
use crate::compiled::GraphPlanner;
use crate::error::{Error, Failure};
use crate::explain::{self, Explained};
use crate::guard::guarded;
use crate::options::Options;
use crate::outputs::Outputs;
use kiln_fusion::{Explanation, FusionPlan};
use kiln_ir::Graph;
use kiln_kernel::VerifiedKernel;
use kiln_lazy_runtime::StepProfile;
use kiln_program::Program;
use kiln_tensor::Tensor;
use std::fmt::Write;

/// The stages after the passes, which print but are no graphs.
const FUSION: &str = "fusion";
const KERNELS: &str = "kernels";
const PROGRAM: &str = "program";
const LLVM: &str = "llvm";
const ASSEMBLY: &str = "asm";

/// Every stage that [`Model::inspect`] knows beyond graphs.
pub(super) const BEYOND_GRAPHS: [&str; 5] = [FUSION, KERNELS, PROGRAM, LLVM, ASSEMBLY];

impl Model {
    /// The optimised graph.
    ///
    /// # Errors
    /// When the rank of an input is open, or the graph depends on data: then there are several, or none yet.
    pub fn graph(&self) -> Result<Graph, Error> {
        guarded("a look at the model", || {
            Ok(self.only_instance()?.optimized().clone())
        })
    }

    /// The names of the stages a graph goes through, for [`stage`](Self::stage): `import`, then the
    /// passes, then `optimized`.
    pub fn stages(&self) -> Vec<&'static str> {
        instance::stages()
    }

    /// The names of all stages, for [`inspect`](Self::inspect): those of graphs, then those that
    /// come after.
    pub fn all_stages(&self) -> Vec<&'static str> {
        let mut stages = instance::stages();
        stages.extend(BEYOND_GRAPHS);
        stages
    }

    /// The graph after a stage; after a pass that ran several times, as the last run left it. Runs
    /// the passes again, so it takes as long as loading.
    ///
    /// # Errors
    /// When there is no stage of that name, or the rank of an input is open.
    ///
    /// ```
    /// let text = "graph @twice(%x: f32[N]) -> f32[N] {
    ///   %a = neg %x
    ///   %b = neg %a
    ///   return %b
    /// }";
    /// let model = kiln::Model::from_text(text)?;
    /// assert_eq!(model.stage("import")?.ops().count(), 2);
    /// assert_eq!(model.stage("optimized")?.ops().count(), 0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn stage(&self, name: &str) -> Result<Graph, Error> {
        guarded("a look at the model", || {
            self.only_instance()?.stage(name, &self.0.options)
        })
    }

    /// What the model is at a stage, as text: one of [`stages`](Self::stages), where it is a graph,
    /// or beyond them `fusion` (which ops become one kernel), `kernels` (their text), `program`
    /// (steps, where buffers lie, and by which schedules kernels are launched), `llvm` and `asm` (each
    /// kernel as the compiler's own form and as machine code, as a call with unremarkable sizes would
    /// have it).
    ///
    /// # Errors
    /// When there is no stage of that name, the rank of an input is open, or code is asked of a
    /// model that is interpreted.
    ///
    /// ```
    /// let model = kiln::Model::from_text("graph @f(%x: f32[N]) -> f32[N] {
    ///   %a = exp %x
    ///   %b = sqrt %a
    ///   return %b
    /// }")?;
    /// assert!(model.inspect("fusion")?.contains("1 kernels"));
    /// assert!(model.inspect("kernels")?.contains("sqrt(exp("));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn inspect(&self, stage: &str) -> Result<String, Error> {
        self.inspect_kernels(stage, None)
    }

    /// [`inspect`](Self::inspect) with only the kernels of a name, where the stage is about kernels.
    ///
    /// # Errors
    /// As [`inspect`](Self::inspect), and when there is no kernel of that name.
    pub fn inspect_kernels(&self, stage: &str, name: Option<&str>) -> Result<String, Error> {
        guarded("a look at the model", || self.inspected(stage, name))
    }

    fn inspected(&self, stage: &str, name: Option<&str>) -> Result<String, Error> {
        let (instance, options) = (self.only_instance()?, &self.0.options);
        match stage {
            FUSION => Ok(instance.planner(options).fusion()?.to_string()),
            PROGRAM => {
                let program = instance.program(&instance.planner(options).fusion()?, options)?;
                Ok(format!("{program}{}", instance.dispatches(&program)))
            }
            KERNELS | LLVM | ASSEMBLY => {
                let program = instance.program(&instance.planner(options).fusion()?, options)?;
                let mut text = String::new();
                for kernel in kernels(&program, name)? {
                    let shown = match stage {
                        KERNELS => {
                            let form = kernel.kernel().clone();
                            kiln_kernel::text::print(&form.renamed(kernel.name()))
                        }
                        _ => instance.listing(&kernel, stage)?,
                    };
                    // Writing to a string does not fail.
                    let _written = writeln!(text, "{}", shown.trim_end());
                }
                Ok(text)
            }
            _ if !self.stages().contains(&stage) => Err(Failure::UnknownStage {
                name: stage.escape_debug().to_string(),
                expected: self.all_stages().join(", "),
            }
            .into()),
            _ => {
                let graph = instance.stage(stage, &self.0.options)?;
                Ok(kiln_ir::text::print(&graph).to_string())
            }
        }
    }

    /// What the graph became: steps, facts that the plan rests on, joins that a fact would have
    /// allowed, and what was compiled so far.
    ///
    /// # Errors
    /// When the rank of an input is open, or no program can be made.
    pub fn explain(&self) -> Result<Explained, Error> {
        guarded("explaining", || {
            let (instance, options) = (self.only_instance()?, &self.0.options);
            let fusion = instance.planner(options).fusion()?;
            let program = instance.program(&fusion, options)?;
            let compiled = instance.executable().compiled();
            let others =
                compiled.map_or_else(Vec::new, kiln_lazy_runtime::CompiledProgram::other_plans);
            Ok(Explained::new(
                instance.optimized(),
                &fusion,
                &program,
                self.device(),
                &others,
                (self.compile_records(), self.variant_records()),
                self.compilation_stats(),
            ))
        })
    }

    /// Why two ops are in one kernel, or why not. An op goes by its own name, by the name of a value
    /// it gives, or by the node of the source model it came from.
    ///
    /// # Errors
    /// When there is no such op, or the rank of an input is open.
    ///
    /// ```
    /// let model = kiln::Model::from_text("graph @f(%x: f32[N, K], %w: f32[K, M]) -> f32[N, M] {
    ///   %product = matmul %x, %w
    ///   %y = relu %product
    ///   return %y
    /// }")?;
    /// let why = model.explain_pair("product", "y")?;
    /// assert!(why.together.is_some());
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn explain_pair(&self, a: &str, b: &str) -> Result<Explanation, Error> {
        guarded("explaining", || {
            let (instance, options) = (self.only_instance()?, &self.0.options);
            let graph = instance.optimized();
            let (a, b) = (explain::op_named(graph, a)?, explain::op_named(graph, b)?);
            Ok(instance.planner(options).fusion()?.explain(graph, a, b)?)
        })
    }

    /// [`run`](Self::run), with what each step cost.
    ///
    /// # Errors
    /// As [`run`](Self::run), and when the model is interpreted.
    pub fn run_profiled<'a, N: AsRef<str>>(
        &self,
        inputs: impl IntoIterator<Item = (N, &'a Tensor)>,
    ) -> Result<(Outputs, Vec<StepProfile>), Error> {
        guarded("a call", || {
            let inputs = call::arrange(&self.0.signature, inputs)?;
            let control = self.0.options.control(None);
            let instance = self.instance_for(&inputs, control.as_ref())?;
            let executable = instance.executable();
            if matches!(executable, Executable::Interpreted) {
                return Err(not_compiled("a profile"));
            }
            let inside = self.0.options.enter_first_call();
            let (graph, options) = (instance.optimized(), &self.0.options);
            let (tensors, profile) =
                executable.run_profiled(graph, &inputs, options, control.as_ref())?;
            drop(inside);
            options.tell_first_call();
            Ok((self.outputs_of(&instance, tensors), profile))
        })
    }
}

impl Instance {
    /// Plans as the executable's runtime would have them; without one, row-major throughout.
    pub(super) fn planner(&self, options: &Options) -> GraphPlanner {
        let planner = GraphPlanner::new(self.optimized().clone())
            .for_device(&self.executable().device(), &options.limits.fusion);
        #[cfg(feature = "native")]
        if let Executable::Compiled(compiled) = self.executable() {
            return planner.with_layouts(compiled.shared.layouts());
        }
        planner
    }

    pub(super) fn program(&self, fusion: &FusionPlan, options: &Options) -> Result<Program, Error> {
        Ok(self.planner(options).program(fusion)?)
    }

    /// The ways in which each kernel of a program is launched, where something compiles kernels.
    #[cfg(feature = "native")]
    fn dispatches(&self, program: &Program) -> String {
        let mut text = String::new();
        let Some(runtime) = self.executable().runtime() else {
            return text;
        };
        for (id, kernel) in program.kernels() {
            let (name, kernel) = (&kernel.name, &kernel.kernel);
            for line in runtime.dispatch(kernel).lines(kernel.kernel().dims()) {
                // Writing to a string does not fail.
                let _written = writeln!(text, "{id} @{name} {line}");
            }
        }
        text
    }

    #[cfg(not(feature = "native"))]
    fn dispatches(&self, _program: &Program) -> String {
        String::new()
    }

    /// A kernel as the compiler's own form, or as machine code.
    #[cfg(feature = "llvm")]
    fn listing(&self, kernel: &VerifiedKernel, stage: &str) -> Result<String, Error> {
        use kiln_backend::Listing;
        let compiled = self.executable().runtime().and_then(|runtime| {
            // The schedule that takes every call: specialised ones come before it.
            let schedule = runtime.dispatch(kernel).launches_for_all().next().cloned();
            Some((runtime.compiler()?, runtime.target()?, schedule?))
        });
        let Some((compiler, target, schedule)) = compiled else {
            return Err(not_compiled("machine code"));
        };
        let form = if stage == LLVM {
            Listing::Source
        } else {
            Listing::Assembly
        };
        let name = kernel.name();
        let text = compiler.listing(kernel, target, &schedule, form)?;
        let comment = if stage == LLVM { ';' } else { '#' };
        Ok(format!(
            "{comment} @{name}, {schedule}, for {target}\n{text}"
        ))
    }

    #[cfg(not(feature = "llvm"))]
    fn listing(&self, _kernel: &VerifiedKernel, _stage: &str) -> Result<String, Error> {
        Err(not_compiled("machine code"))
    }
}

/// The kernels of a program in order, or those of a name; each goes by that of the steps that launch it.
fn kernels(program: &Program, name: Option<&str>) -> Result<Vec<VerifiedKernel>, Error> {
    let kernels = program.kernels().values();
    let labelled = kernels.map(|kernel| kernel.kernel.labelled(kernel.name.as_str()));
    let all: Vec<VerifiedKernel> = labelled.collect();
    let Some(name) = name else {
        return Ok(all);
    };
    let name = name.strip_prefix('@').unwrap_or(name);
    let names = || all.iter().map(|kernel| format!("@{}", kernel.name()));
    if !all.iter().any(|kernel| kernel.name() == name) {
        return Err(Failure::UnknownValue {
            name: name.escape_debug().to_string(),
            expected: explain::listed(names().collect(), name),
        }
        .into());
    }
    Ok(all
        .into_iter()
        .filter(|kernel| kernel.name() == name)
        .collect())
}

fn not_compiled(what: &'static str) -> Error {
    let next = if cfg!(feature = "llvm") {
        "ask for `Device::cpu()` (on the command line, --device cpu)"
    } else {
        "build with the feature `llvm`"
    };
    Failure::NotCompiled { what, next }.into()
}
