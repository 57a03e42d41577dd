//! Compares a compiled call with the interpreter, and finds the first value at which they diverge.
//!
//! To find it, the program is rebuilt with every value that a step computes as an output, so that each can be compared
//! with the interpreter's, on the model's inputs and on what the step itself read. A wrong step is then reduced to as
//! few ops as possible.

mod reduce;
mod step_check;

use super::comparison::{
    AGREEMENT, Comparison, Difference, Distance, OutputComparison, Reference, Verdict, is_same,
};
use super::explained::{op_name, value_name};
use super::inspect::planner;
use super::repro::{Extent, Repro};
use crate::error::Error;
use crate::guard::guarded;
use crate::inputs::Inputs;
use crate::model::{Executable, Instance, Model, interpret_graph};
use crate::options::Options;
use kiln_fusion::{FusionNode, FusionPlan, NodeKind};
use kiln_interpreter::TraceEvent;
use kiln_ir::{Graph, ValueId};
use kiln_scalar::Mode;
use kiln_tensor::Tensor;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use step_check::{OwnError, StepCheck};

/// The expected results of a call: the imported model, interpreted twice.
///
/// # Errors
/// As [`Call::run`](crate::Call::run).
pub fn reference<'a>(model: &Model, inputs: impl Into<Inputs<'a>>) -> Result<Reference, Error> {
    let inputs = inputs.into();
    guarded("a call", || {
        let inputs = model.arranged(&inputs)?;
        let instance = model.instance_for(&inputs, None)?;
        let options = model.options();
        let imported = instance.imported(options)?;
        let of = |mode| interpret_graph(imported, &inputs, options, mode, None);
        let (promoted, declared) = (of(Mode::Promoted)?, of(Mode::Declared)?);
        Ok(Reference {
            promoted: model.outputs_of(&instance, promoted),
            declared: model.outputs_of(&instance, declared),
            inputs: inputs.into_owned(),
        })
    })
}

/// Runs the model on the reference's inputs and compares its outputs. If an output is off by more than 1e-5, finds the
/// first value of the graph that is.
///
/// # Errors
/// As [`Call::run`](crate::Call::run).
///
/// ```
/// use kiln::{Model, Source, Tensor, diagnose};
///
/// let model = Model::load(Source::text("graph @f(%x: f32[N]) -> f32[N] {
///   %y = exp %x
///   return %y
/// }"))?;
/// let x = Tensor::from_slice(&[3], &[0.0f32, 1.0, -2.0])?;
/// let comparison = diagnose::compare(&model, &diagnose::reference(&model, [("x", &x)])?)?;
/// assert!(comparison.agrees());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn compare(model: &Model, reference: &Reference) -> Result<Comparison, Error> {
    guarded("a comparison", || compared(model, reference))
}

fn compared(model: &Model, reference: &Reference) -> Result<Comparison, Error> {
    let options = model.options();
    let instance = model.instance_for(&reference.inputs, None)?;
    let control = options.control(None);
    let tensors = instance.run(&reference.inputs, options, control.as_ref(), None)?;
    let compiled = model.outputs_of(&instance, tensors);
    let mut outputs = Vec::new();
    let expected = reference.promoted.iter().zip(reference.declared.iter());
    for ((name, found), ((_, promoted), (_, declared))) in compiled.iter().zip(expected) {
        let error = Distance::of(found, promoted)?.error;
        outputs.push(OutputComparison {
            name: name.to_owned(),
            error,
            declared_error: Distance::of(declared, promoted)?.error,
            verdict: if is_off(error, found) {
                Verdict::Different
            } else {
                Verdict::Equal
            },
        });
    }
    let mut comparison = Comparison {
        outputs,
        first_difference: None,
        amplified_at: None,
        repro: None,
        compiled,
    };
    if !comparison.agrees() {
        let fusion = planner(&instance, options).fusion()?;
        let steps = StepValues::compute(&instance, &fusion, reference, &comparison, options)?;
        let first_wrong = steps.find(|value| match value.own {
            Some(own) => own.is_wrong(value.tensor.dtype().is_float()),
            None => is_off(value.found.error, &value.tensor),
        });
        comparison.first_difference = first_wrong.map(|value| steps.describe(value));
        if comparison.first_difference.is_none() && steps.same_outputs {
            let off = steps.find(|value| is_off(value.found.error, &value.tensor));
            comparison.amplified_at = off.map(|value| steps.describe(value));
            for output in &mut comparison.outputs {
                if output.verdict == Verdict::Different && output.error.is_finite() {
                    output.verdict = Verdict::Amplified;
                }
            }
        }
        if !comparison.agrees() {
            let reduced = first_wrong.and_then(|value| steps.reduce(value, options));
            let whole = || whole(model, &instance, reference);
            comparison.repro = Some(reduced.unwrap_or_else(whole));
        }
    }
    Ok(comparison)
}

/// The compiled model, with all its inputs.
fn whole(model: &Model, instance: &Instance, reference: &Reference) -> Repro {
    let names = model.inputs().iter().map(|input| input.name().to_owned());
    Repro {
        graph: instance.optimized().clone(),
        inputs: names.zip(reference.inputs.iter().cloned()).collect(),
        stands_for: Vec::new(),
        extent: Extent::Whole,
    }
}

/// Whether an error is above the tolerance for floats, or non-zero for integers and bools.
fn is_off(error: f64, tensor: &Tensor) -> bool {
    error
        > if tensor.dtype().is_float() {
            AGREEMENT
        } else {
            0.0
        }
}

/// Every value that a step of the program computes, compared, in order of execution.
struct StepValues<'a> {
    graph: &'a Graph,
    nodes: Vec<&'a FusionNode>,
    check: StepCheck<'a>,
    values: Vec<StepValue>,
    by_value: BTreeMap<ValueId, usize>,
    /// Whether the outputs are bitwise equal to those without intermediates kept.
    same_outputs: bool,
}

struct StepValue {
    value: ValueId,
    /// Which step computes it.
    node: usize,
    tensor: Tensor,
    step: String,
    reads: Vec<ValueId>,
    found: Distance,
    own: Option<OwnError>,
    declared: Distance,
}

impl<'a> StepValues<'a> {
    fn compute(
        instance: &'a Instance,
        fusion: &'a FusionPlan,
        reference: &Reference,
        comparison: &Comparison,
        options: &Options,
    ) -> Result<Self, Error> {
        let graph = instance.optimized();
        let inputs = &reference.inputs;
        let nodes: Vec<&FusionNode> = fusion
            .nodes_of(graph.body())
            .iter()
            .map(|&id| fusion.node(id))
            .filter(|node| !matches!(node.kind, NodeKind::Constant | NodeKind::View))
            .collect();
        let tensors = |node: &FusionNode| {
            let outputs = node.outputs.iter().copied();
            let outputs = outputs.filter(|&value| graph.tensor_ty(value).is_some());
            outputs.collect::<Vec<_>>()
        };
        let given: Vec<ValueId> = nodes.iter().flat_map(|node| tensors(node)).collect();
        let mut open = graph.clone();
        let all = given.iter().chain(graph.outputs()).enumerate();
        open.set_outputs(all.map(|(index, &value)| (format!("value{index}"), value)));
        let executable = Executable::build_watched(&open, given.len(), options)?;
        let mut found = executable.run(&open, inputs, options, None)?;
        let outputs = found.split_off(given.len().min(found.len()));
        let promoted = traced(graph, inputs, options, Mode::Promoted, &given)?;
        let declared = traced(graph, inputs, options, Mode::Declared, &given)?;
        let mut this = Self {
            graph,
            check: StepCheck::new(graph, inputs)?,
            nodes,
            values: Vec::new(),
            by_value: BTreeMap::new(),
            same_outputs: same_bits(&outputs, comparison)?,
        };
        let mut found = found.into_iter();
        for (at, &node) in this.nodes.iter().enumerate() {
            let own: Vec<(ValueId, Tensor)> = tensors(node).into_iter().zip(&mut found).collect();
            let borrowed: Vec<(ValueId, &Tensor)> =
                own.iter().map(|(value, tensor)| (*value, tensor)).collect();
            let own_errors = this.check.own_errors(node, &borrowed);
            for (index, (value, tensor)) in own.iter().enumerate() {
                this.check.add(*value, tensor);
                let (Some(promoted), Some(declared)) = (promoted.get(value), declared.get(value))
                else {
                    continue;
                };
                this.by_value.insert(*value, this.values.len());
                this.values.push(StepValue {
                    value: *value,
                    node: at,
                    step: format!("{} @{}", node.id, node.name),
                    reads: node.inputs.clone(),
                    found: Distance::of(tensor, promoted)?,
                    own: own_errors.as_ref().and_then(|all| all.get(index)).copied(),
                    declared: Distance::of(declared, promoted)?,
                    tensor: tensor.clone(),
                });
            }
        }
        Ok(this)
    }

    /// The first value for which a predicate holds.
    fn find(&self, holds: impl Fn(&StepValue) -> bool) -> Option<&StepValue> {
        self.values.iter().find(|value| holds(value))
    }

    /// The smallest set of ops around a value that is wrong in isolation.
    fn reduce(&self, value: &StepValue, options: &Options) -> Option<Repro> {
        let node = self.nodes.get(value.node)?;
        reduce::reduce(&self.check, node, value.value, options)
    }

    /// A value and its context.
    fn describe(&self, value: &StepValue) -> Difference {
        let ops = &mut self.graph.ops();
        let op = ops.find(|(_, data)| data.results.contains(&value.value));
        let op = op.map_or_else(String::new, |(op, data)| {
            let name = op_name(self.graph, op);
            match &data.origin {
                Some(origin) => format!("{name}, from {}", origin.escape_debug()),
                None => name,
            }
        });
        let typed = |value: ValueId| {
            let ty = self.graph.ty(value).display(self.graph.dims());
            format!("{}: {ty}", value_name(self.graph, value))
        };
        let reads = value.reads.iter().map(|&read| {
            match self.by_value.get(&read).and_then(|&at| self.values.get(at)) {
                Some(of) => format!("{}, off by {:.1e}", typed(read), of.found.error),
                None => typed(read),
            }
        });
        Difference {
            value: typed(value.value),
            op,
            step: value.step.clone(),
            error: value.found.error,
            own_error: value.own.map(|own| own.error),
            declared_error: value.declared.error,
            worst: value.found.worst.clone(),
            reads: reads.collect(),
        }
    }
}

/// Whether these are bitwise equal to the comparison's outputs.
fn same_bits(outputs: &[Tensor], comparison: &Comparison) -> Result<bool, Error> {
    let mut pairs = outputs.iter().zip(comparison.compiled.iter());
    pairs.try_fold(true, |same, (a, (_, b))| Ok(same && is_same(a, b)?))
}

/// The interpreter's tensors for these values.
fn traced(
    graph: &Graph,
    inputs: &[Tensor],
    options: &Options,
    mode: Mode,
    wanted: &[ValueId],
) -> Result<BTreeMap<ValueId, Tensor>, Error> {
    let wanted: BTreeSet<ValueId> = wanted.iter().copied().collect();
    let seen = RefCell::new(BTreeMap::new());
    let keep = |event: TraceEvent<'_>| {
        if wanted.contains(&event.value) {
            seen.borrow_mut().insert(event.value, event.tensor.clone());
        }
    };
    interpret_graph(graph, inputs, options, mode, Some(&keep))?;
    Ok(seen.into_inner())
}
