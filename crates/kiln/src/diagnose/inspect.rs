//! A model at each stage, and why: graphs, kernels, programs, code, explanations.

use super::explained::{self, Explained};
use super::stage::Stage;
use super::{Explanation, compile_records, variant_records};
use crate::compiled::GraphPlanner;
use crate::error::{Error, Failure};
use crate::guard::guarded;
use crate::model::{Instance, Model};
use crate::options::Options;
use kiln_ir::Graph;
use kiln_kernel::VerifiedKernel;
use kiln_passes::pass_names;
use kiln_program::Program;
use std::fmt::Write;

/// The graph at a stage. For the stage of a pass, the passes are run again, which takes as long as loading.
///
/// # Errors
/// When the model is not a graph at that stage; when the rank of an input is open or the graph depends on data, so that
/// there are several graphs, or none yet.
///
/// ```
/// use kiln::diagnose::{self, Stage};
/// use kiln::{Model, Source};
///
/// let model = Model::load(Source::text("graph @twice(%x: f32[N]) -> f32[N] {
///   %a = neg %x
///   %b = neg %a
///   return %b
/// }"))?;
/// assert_eq!(diagnose::graph(&model, Stage::Import)?.ops().count(), 2);
/// assert_eq!(diagnose::graph(&model, Stage::Optimized)?.ops().count(), 0);
/// # Ok::<(), kiln::Error>(())
/// ```
pub fn graph(model: &Model, stage: Stage) -> Result<Graph, Error> {
    guarded("inspecting the model", || {
        graph_of(&*model.only_instance()?, stage, model.options())
    })
}

fn graph_of(instance: &Instance, stage: Stage, options: &Options) -> Result<Graph, Error> {
    match stage {
        Stage::Import => Ok(instance.imported(options)?.clone()),
        Stage::Optimized => Ok(instance.optimized().clone()),
        Stage::Pass(name) if pass_names().any(|pass| pass == name) => {
            instance.after_pass(name, options)
        }
        _ => Err(stage.no_graph()),
    }
}

/// The model at a stage, as text.
///
/// # Errors
/// When the rank of an input is open, or code of an interpreted model is requested.
///
/// ```
/// use kiln::diagnose::{self, Stage};
/// use kiln::{Model, Source};
///
/// let model = Model::load(Source::text("graph @f(%x: f32[N]) -> f32[N] {
///   %a = exp %x
///   %b = sqrt %a
///   return %b
/// }"))?;
/// assert!(diagnose::inspect(&model, Stage::Fusion)?.contains("1 kernels"));
/// assert!(diagnose::inspect(&model, Stage::Kernels)?.contains("sqrt(exp("));
/// # Ok::<(), kiln::Error>(())
/// ```
pub fn inspect(model: &Model, stage: Stage) -> Result<String, Error> {
    guarded("inspecting the model", || inspected(model, stage, None))
}

/// The same for only the kernels with this name, if the stage shows kernels.
///
/// # Errors
/// As [`inspect`], and when there is no kernel of that name.
pub fn inspect_kernel(model: &Model, stage: Stage, name: &str) -> Result<String, Error> {
    guarded("inspecting the model", || {
        inspected(model, stage, Some(name))
    })
}

fn inspected(model: &Model, stage: Stage, name: Option<&str>) -> Result<String, Error> {
    let (instance, options) = (model.only_instance()?, model.options());
    match stage {
        Stage::Import | Stage::Pass(_) | Stage::Optimized => {
            let graph = graph_of(&instance, stage, options)?;
            Ok(kiln_ir::text::print(&graph).to_string())
        }
        Stage::Fusion => Ok(planner(&instance, options).fusion()?.to_string()),
        Stage::Program => {
            let planner = planner(&instance, options);
            let program = planner.program(&planner.fusion()?)?;
            Ok(format!("{program}{}", dispatches(&instance, &program)))
        }
        Stage::Kernels | Stage::Loops | Stage::Llvm | Stage::Assembly => {
            let planner = planner(&instance, options);
            let program = planner.program(&planner.fusion()?)?;
            let mut text = String::new();
            for kernel in kernels(&program, name)? {
                let shown = match stage {
                    Stage::Kernels => {
                        let form = kernel.kernel().clone();
                        kiln_kernel::text::print(&form.renamed(kernel.name()))
                    }
                    Stage::Loops => loops(&instance, &kernel)?,
                    _ => listing(&instance, &kernel, stage)?,
                };
                // Writing to a string never fails.
                let _written = writeln!(text, "{}", shown.trim_end());
            }
            Ok(text)
        }
    }
}

/// The result of compiling the graph: steps, facts that the plan rests on, fusions that a fact would have allowed, and
/// the compiles so far.
///
/// # Errors
/// When the rank of an input is open, or no program can be made.
pub fn explain(model: &Model) -> Result<Explained, Error> {
    guarded("explaining", || {
        let instance = model.only_instance()?;
        let planner = planner(&instance, model.options());
        let fusion = planner.fusion()?;
        let program = planner.program(&fusion)?;
        let compiled = instance.executable().compiled();
        let others =
            compiled.map_or_else(Vec::new, kiln_lazy_runtime::CompiledProgram::other_plans);
        Ok(Explained::new(
            instance.optimized(),
            &fusion,
            &program,
            model.device(),
            &others,
            (compile_records(model), variant_records(model)),
            model.compilation_stats(),
        ))
    })
}

/// Why two ops are in one kernel, or why not. An op is identified by its own name, by the name of a value it computes,
/// or by the node of the source model from which it came.
///
/// # Errors
/// When there is no such op, or the rank of an input is open.
///
/// ```
/// use kiln::{Model, Source, diagnose};
///
/// let model = Model::load(Source::text("graph @f(%x: f32[N, K], %w: f32[K, M]) -> f32[N, M] {
///   %product = matmul %x, %w
///   %y = relu %product
///   return %y
/// }"))?;
/// let why = diagnose::explain_pair(&model, "product", "y")?;
/// assert!(why.together.is_some());
/// # Ok::<(), kiln::Error>(())
/// ```
pub fn explain_pair(model: &Model, a: &str, b: &str) -> Result<Explanation, Error> {
    guarded("explaining", || {
        let instance = model.only_instance()?;
        let graph = instance.optimized();
        let (a, b) = (
            explained::op_named(graph, a)?,
            explained::op_named(graph, b)?,
        );
        let fusion = planner(&instance, model.options()).fusion()?;
        Ok(fusion.explain(graph, a, b)?)
    })
}

/// A planner that makes the plans that the executable's runtime would make; without a runtime, all buffers are
/// row-major.
pub(super) fn planner(instance: &Instance, options: &Options) -> GraphPlanner {
    let planner = GraphPlanner::new(instance.optimized().clone())
        .with_memory(options.memory)
        .for_device(&instance.executable().device(), &options.limits.fusion);
    #[cfg(feature = "native")]
    if let Some(compiled) = instance.executable().native() {
        return planner.with_layouts(compiled.shared.layouts());
    }
    planner
}

/// How each kernel of a program is dispatched, if there is a compiler.
#[cfg(feature = "native")]
fn dispatches(instance: &Instance, program: &Program) -> String {
    let mut text = String::new();
    let Some(runtime) = instance.executable().runtime() else {
        return text;
    };
    for (id, kernel) in program.kernels() {
        let (name, kernel) = (&kernel.name, &kernel.kernel);
        for line in runtime.dispatch(kernel).lines(kernel.kernel().dims()) {
            // Writing to a string never fails.
            let _written = writeln!(text, "{id} @{name} {line}");
        }
    }
    text
}

#[cfg(not(feature = "native"))]
fn dispatches(_instance: &Instance, _program: &Program) -> String {
    String::new()
}

/// The loop nests of a kernel, under the schedule without a predicate.
#[cfg(feature = "native")]
fn loops(instance: &Instance, kernel: &VerifiedKernel) -> Result<String, Error> {
    let scheduled = instance.executable().runtime().and_then(|runtime| {
        let schedule = runtime.dispatch(kernel).launches_for_all().next().cloned();
        Some((runtime.target()?, schedule?))
    });
    let Some((target, schedule)) = scheduled else {
        return Err(Failure::not_compiled("loops"));
    };
    let name = kernel.name();
    Ok(format!(
        "// @{name}, {schedule}, for {target}\n{}",
        schedule.text
    ))
}

#[cfg(not(feature = "native"))]
fn loops(_instance: &Instance, _kernel: &VerifiedKernel) -> Result<String, Error> {
    Err(Failure::not_compiled("loops"))
}

/// A kernel in the compiler's own form, or as machine code.
#[cfg(feature = "native")]
fn listing(instance: &Instance, kernel: &VerifiedKernel, stage: Stage) -> Result<String, Error> {
    use kiln_backend::Listing;
    let compiled = instance.executable().runtime().and_then(|runtime| {
        // The schedule without a predicate: specialised ones come before it.
        let schedule = runtime.dispatch(kernel).launches_for_all().next().cloned();
        Some((runtime.compiler()?, runtime.target()?, schedule?))
    });
    let Some((compiler, target, schedule)) = compiled else {
        return Err(Failure::not_compiled("machine code"));
    };
    let form = if stage == Stage::Llvm {
        Listing::Source
    } else {
        Listing::Assembly
    };
    let name = kernel.name();
    let text = compiler.listing(kernel, target, &schedule, form)?;
    let comment = if stage == Stage::Llvm { ';' } else { '#' };
    Ok(format!(
        "{comment} @{name}, {schedule}, for {target}\n{text}"
    ))
}

#[cfg(not(feature = "native"))]
fn listing(_instance: &Instance, _kernel: &VerifiedKernel, _stage: Stage) -> Result<String, Error> {
    Err(Failure::not_compiled("machine code"))
}

/// The kernels of a program in order, or those with this name; each has the name of the steps that launch it.
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
            expected: explained::listed(names().collect(), name),
        }
        .into());
    }
    Ok(all
        .into_iter()
        .filter(|kernel| kernel.name() == name)
        .collect())
}
