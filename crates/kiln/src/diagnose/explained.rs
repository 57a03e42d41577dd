//! The result of compiling a graph, in words: steps, facts, near misses, compiles.

use crate::device::Device;
use crate::error::{Error, Failure};
use kiln_fusion::FusionPlan;
use kiln_ir::{Definition, Graph, Op, OpId, ValueId};
use kiln_lazy_runtime::{CompilationStats, CompileRecord, VariantRecord};
use kiln_program::{Action, Program};
use kiln_symbolic_shape::FactSelection;
use std::fmt;

/// The maximum number of names listed in an error.
const LISTED: usize = 12;

/// The result of compiling a graph. Prints as a report.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explained {
    /// What executes the model.
    pub device: Device,
    /// The number of ops of the graph, constants excluded.
    pub ops: usize,
    /// The steps of a call, in order, those of nested regions included.
    pub steps: Vec<ExplainedStep>,
    /// The facts that the main plan rests on; if one does not hold, another plan is made.
    pub facts: Vec<String>,
    /// The plans made so far for sizes for which facts do not hold: the facts that each does not need, and its number
    /// of launches.
    pub other_plans: Vec<String>,
    /// Near misses: fusions that an additional fact would have allowed.
    pub near_misses: Vec<String>,
    /// Planning that ended early because a budget was spent.
    pub cut_short: Vec<String>,
    /// Ops that were planned as one kernel, which then turned out to be impossible.
    pub taken_apart: Vec<String>,
    /// How many different kernels the steps launch.
    pub kernels: usize,
    /// The compiles so far.
    pub compiles: Vec<CompileRecord>,
    /// Variants for frequent sizes: why each was made, and what it gained.
    pub variants: Vec<VariantRecord>,
    /// Counters of events so far.
    pub stats: CompilationStats,
}

/// A step of a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExplainedStep {
    /// The kind: `kernel`, `builtin`, `interpret`.
    pub kind: &'static str,
    /// A name made from its ops.
    pub name: String,
    /// The class of its kernel.
    pub class: Option<&'static str>,
    /// Its number of ops.
    pub ops: usize,
    /// The values it computes.
    pub gives: Vec<String>,
    /// Why it is interpreted.
    pub reason: Option<String>,
}

impl Explained {
    pub(crate) fn new(
        graph: &Graph,
        fusion: &FusionPlan,
        program: &Program,
        device: Device,
        others: &[(FactSelection, Program)],
        (compiles, variants): (Vec<CompileRecord>, Vec<VariantRecord>),
        stats: CompilationStats,
    ) -> Self {
        let dims = graph.dims();
        let steps = program.steps().map(|step| {
            let class = match &step.action {
                Action::Kernel(launch) => Some(
                    program
                        .kernel(launch.kernel)
                        .classification()
                        .class
                        .as_word(),
                ),
                _ => None,
            };
            let reason = match &step.action {
                Action::Interpret { reason, .. } => Some(reason.clone()),
                _ => None,
            };
            ExplainedStep {
                kind: step.action.as_word(),
                name: step.name.clone(),
                class,
                ops: step.ops.len(),
                gives: gives(graph, &step.ops),
                reason,
            }
        });
        let facts = fusion.facts();
        let facts = facts
            .iter()
            .map(|fact| format!("{}, for {}", fact.name(dims), fact.origin.escape_debug()));
        let others = others.iter().map(|(facts, program)| {
            let launches = program.counts().get("kernel").copied().unwrap_or(0);
            format!(
                "{facts}: {launches} launches of {} kernels",
                program.kernels().len()
            )
        });
        let near = fusion.near_misses().iter().map(|near| {
            let (first, second) = (op_name(graph, near.producer), op_name(graph, near.consumer));
            let (left, right) = (dims.display(near.fact.left), dims.display(near.fact.right));
            format!(
                "{first} and {second}, were {left} == {right} known: {}",
                near.reason
            )
        });
        let apart = fusion.rejected().iter().map(|(ops, reason)| {
            let names = ops.iter().map(|&op| op_name(graph, op));
            format!("{}: {reason}", names.collect::<Vec<_>>().join(", "))
        });
        let computes = |op: &Op| !matches!(op, Op::Constant(_));
        Self {
            device,
            ops: graph.ops().filter(|(_, data)| computes(&data.op)).count(),
            steps: steps.collect(),
            facts: facts.collect(),
            other_plans: others.collect(),
            near_misses: near.collect(),
            cut_short: fusion.cut_short(),
            taken_apart: apart.collect(),
            kernels: program.kernels().len(),
            compiles,
            variants,
            stats,
        }
    }

    /// The number of steps of a kind.
    pub fn count(&self, kind: &str) -> usize {
        self.steps.iter().filter(|step| step.kind == kind).count()
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} ops became {} steps: {} launches of {} kernels, {} interpreted, on device {}",
            self.ops,
            self.steps.len(),
            self.count("kernel"),
            self.kernels,
            self.count("interpret"),
            self.device
        )?;
        writeln!(f, "\nsteps, in order")?;
        for (number, step) in self.steps.iter().enumerate() {
            let ExplainedStep {
                kind,
                name,
                class,
                ops,
                ..
            } = step;
            let class = class.unwrap_or("");
            let gives = step.gives.join(", ");
            writeln!(
                f,
                "{number:5}  {kind:9} {class:12} {ops:3} ops  {name}  -> {gives}"
            )?;
            if let Some(reason) = &step.reason {
                writeln!(f, "       interpreted: {reason}")?;
            }
        }
        section(f, "facts that the plan rests on", &self.facts)?;
        if !self.other_plans.is_empty() {
            section(f, "plans where facts do not hold", &self.other_plans)?;
        }
        section(f, "near misses", &self.near_misses)?;
        section(f, "taken apart", &self.taken_apart)?;
        if !self.cut_short.is_empty() {
            section(f, "budgets spent", &self.cut_short)?;
        }
        let compiles: Vec<_> = self.compiles.iter().map(ToString::to_string).collect();
        section(f, "compiles", &compiles)?;
        let variants: Vec<_> = self.variants.iter().map(ToString::to_string).collect();
        section(f, "variants", &variants)?;
        if !compiles.is_empty() {
            write!(f, "\n{}", self.stats.to_report())?;
        }
        Ok(())
    }
}

fn section(f: &mut fmt::Formatter<'_>, title: &str, lines: &[String]) -> fmt::Result {
    if lines.is_empty() {
        return writeln!(f, "\n{title}: none");
    }
    writeln!(f, "\n{title}: {}", lines.len())?;
    lines.iter().try_for_each(|line| writeln!(f, "  {line}"))
}

/// The results of ops that other ops read.
fn gives(graph: &Graph, ops: &[OpId]) -> Vec<String> {
    let read_inside: Vec<ValueId> = ops
        .iter()
        .flat_map(|&op| graph.op(op).operands.iter().copied())
        .collect();
    let results = ops.iter().flat_map(|&op| graph.op(op).results.iter());
    results
        .filter(|result| !read_inside.contains(result))
        .map(|&result| value_name(graph, result))
        .collect()
}

/// The nodes of the source model that ops came from, in order, each once.
pub(crate) fn origins(graph: &Graph, ops: &[OpId]) -> Vec<String> {
    let mut nodes: Vec<String> = Vec::new();
    for &op in ops {
        if let Some(origin) = graph.op(op).origin.as_deref()
            && !nodes.iter().any(|node| node == origin)
        {
            nodes.push(origin.to_owned());
        }
    }
    nodes
}

/// A value for messages: its name, or its number as the fusion stage prints it.
pub(crate) fn value_name(graph: &Graph, value: ValueId) -> String {
    match graph.value(value).name.as_deref() {
        Some(name) => format!("%{}", name.escape_debug()),
        None => value.to_string(),
    }
}

/// An op for messages: its mnemonic and its first result.
pub(crate) fn op_name(graph: &Graph, op: OpId) -> String {
    let data = graph.op(op);
    match data.results.first() {
        Some(&result) => format!("{} {}", data.op.mnemonic(), value_name(graph, result)),
        None => format!("{} ({op})", data.op.mnemonic()),
    }
}

/// The op with a name: that of a value it computes (with or without `%`), its own (`op7`), or that of the source node
/// from which it came; if there are several such ops, the last.
///
/// # Errors
/// When there is no such op.
pub(crate) fn op_named(graph: &Graph, name: &str) -> Result<OpId, Error> {
    let bare = name.strip_prefix('%').unwrap_or(name);
    let by_value = graph.ops().find(|(_, data)| {
        data.results.iter().any(|&result| {
            graph.value(result).name.as_deref() == Some(bare) || result.to_string() == name
        })
    });
    let by_id = || graph.ops().find(|(op, _)| op.to_string() == name);
    let by_origin = || {
        let from = |(_, data): &(OpId, &kiln_ir::OpData)| data.origin.as_deref() == Some(name);
        graph.ops().filter(from).last()
    };
    if let Some((op, _)) = by_value.or_else(by_id).or_else(by_origin) {
        return Ok(op);
    }
    // The graph's outputs have separate names.
    let mut outputs = graph.output_names().iter().zip(graph.outputs());
    let output = outputs.find(|(output, _)| &***output == bare);
    if let Some((_, &value)) = output
        && let Definition::Result { op, .. } = graph.value(value).definition
    {
        return Ok(op);
    }
    let names = graph.ops().flat_map(|(_, data)| {
        let named = |&&result: &&ValueId| graph.value(result).name.is_some();
        let results = data.results.iter().filter(named);
        results.map(|&result| value_name(graph, result))
    });
    Err(Failure::UnknownValue {
        name: name.escape_debug().to_string(),
        expected: listed(names.collect(), bare),
    }
    .into())
}

/// A few names for an error, those similar to the requested one first.
pub(crate) fn listed(names: Vec<String>, like: &str) -> String {
    let like = like.to_lowercase();
    let (mut near, far): (Vec<String>, Vec<String>) = names
        .into_iter()
        .partition(|name| name.to_lowercase().contains(&like));
    near.extend(far);
    let more = near.len().saturating_sub(LISTED);
    near.truncate(LISTED);
    let mut text = near.join(", ");
    if more > 0 {
        text.push_str(&format!(", and {more} more"));
    }
    if text.is_empty() {
        text.push_str("there are none");
    }
    text
}
