//! Comparing a compiled call with the interpreter, and finding the value at which they part.
//!
//! To find it, the program is made once more with every value that a step gives as an output, so
//! that each can be held against the interpreter's.

use super::Model;
use super::call;
use super::executable::{Executable, interpret_graph};
use super::instance::Instance;
use crate::compare::{
    AGREEMENT, Comparison, Difference, Distance, OutputComparison, Reference, Verdict,
};
use crate::error::Error;
use crate::explain::{op_name, value_name};
use crate::options::Options;
use kiln_fusion::{FusionNode, NodeKind};
use kiln_interpreter::TraceEvent;
use kiln_ir::{Graph, ValueId};
use kiln_scalar::Mode;
use kiln_tensor::Tensor;
use std::cell::RefCell;
use std::collections::BTreeMap;

impl Model {
    /// What a call should give: the model as it was imported, interpreted twice.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn reference<'a, N: AsRef<str>>(
        &self,
        inputs: impl IntoIterator<Item = (N, &'a Tensor)>,
    ) -> Result<Reference, Error> {
        let inputs = call::arrange(&self.0.signature, inputs)?;
        let instance = self.instance_for(&inputs)?;
        let options = &self.0.options;
        let of = |mode| interpret_graph(instance.imported(), &inputs, options, mode, None);
        let (promoted, declared) = (of(Mode::Promoted)?, of(Mode::Declared)?);
        Ok(Reference {
            inputs,
            promoted: self.outputs_of(promoted),
            declared: self.outputs_of(declared),
        })
    }

    /// Runs the model on the reference's inputs and compares what it gives. Where an output is off by
    /// more than 1e-5, finds the first value of the graph that is.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// ```
    /// use kiln::{Model, Tensor};
    ///
    /// let model = Model::from_text("graph @f(%x: f32[N]) -> f32[N] {
    ///   %y = exp %x
    ///   return %y
    /// }")?;
    /// let x = Tensor::from_slice(&[3], &[0.0f32, 1.0, -2.0])?;
    /// let comparison = model.compare(&model.reference([("x", &x)])?)?;
    /// assert!(comparison.agrees());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compare(&self, reference: &Reference) -> Result<Comparison, Error> {
        let instance = self.instance_for(&reference.inputs)?;
        let compiled = self.outputs_of(instance.run(&reference.inputs, &self.0.options)?);
        let mut outputs = Vec::new();
        let expected = reference.promoted.iter().zip(reference.declared.iter());
        for ((name, found), ((_, promoted), (_, declared))) in compiled.iter().zip(expected) {
            let error = Distance::of(found, promoted)?.error;
            let declared_error = Distance::of(declared, promoted)?.error;
            outputs.push(OutputComparison {
                name: name.to_owned(),
                error,
                declared_error,
                verdict: Verdict::of(error, declared_error, found.dtype().is_float()),
            });
        }
        let is = |verdict| {
            outputs
                .iter()
                .any(|output: &OutputComparison| output.verdict == verdict)
        };
        let (mut first_difference, mut amplified_from) = (None, None);
        if is(Verdict::Different) || is(Verdict::Amplified) {
            let values = Intermediates::compute(&instance, &reference.inputs, &self.0.options)?;
            if is(Verdict::Different) {
                first_difference = values.first(|value| value.verdict == Verdict::Different);
            }
            amplified_from = values.first(|value| value.declared.error > AGREEMENT);
        }
        Ok(Comparison {
            outputs,
            first_difference,
            amplified_from,
            compiled,
        })
    }
}

/// Every value that a step of the program gives, compared, in order of execution.
struct Intermediates<'a> {
    graph: &'a Graph,
    values: Vec<Intermediate>,
    by_value: BTreeMap<ValueId, usize>,
}

struct Intermediate {
    value: ValueId,
    step: String,
    reads: Vec<ValueId>,
    found: Distance,
    declared: Distance,
    verdict: Verdict,
}

impl<'a> Intermediates<'a> {
    fn compute(
        instance: &'a Instance,
        inputs: &[Tensor],
        options: &Options,
    ) -> Result<Self, Error> {
        let graph = instance.optimized();
        let fusion = instance.planner().fusion()?;
        let nodes = fusion.nodes_of(graph.body()).iter();
        let given: Vec<(&FusionNode, ValueId)> = nodes
            .map(|&id| fusion.node(id))
            .filter(|node| !matches!(node.kind, NodeKind::Constant | NodeKind::View))
            .flat_map(|node| node.outputs.iter().map(move |&value| (node, value)))
            .filter(|&(_, value)| graph.tensor_ty(value).is_some())
            .collect();
        let mut open = graph.clone();
        open.set_outputs(
            given
                .iter()
                .enumerate()
                .map(|(index, &(_, value))| (format!("value{index}"), value)),
        );
        let found = Executable::build(&open, options)?.run(&open, inputs, options, None)?;
        let promoted = traced(graph, inputs, options, Mode::Promoted, &given)?;
        let declared = traced(graph, inputs, options, Mode::Declared, &given)?;
        let mut this = Self {
            graph,
            values: Vec::new(),
            by_value: BTreeMap::new(),
        };
        for ((node, value), found) in given.into_iter().zip(&found) {
            let (Some(promoted), Some(declared)) = (promoted.get(&value), declared.get(&value))
            else {
                continue;
            };
            let is_float = found.dtype().is_float();
            let found = Distance::of(found, promoted)?;
            let declared = Distance::of(declared, promoted)?;
            this.by_value.insert(value, this.values.len());
            this.values.push(Intermediate {
                value,
                step: format!("{} @{}", node.id, node.name),
                reads: node.inputs.clone(),
                verdict: Verdict::of(found.error, declared.error, is_float),
                found,
                declared,
            });
        }
        Ok(this)
    }

    /// The first value of which something holds, with what surrounds it.
    fn first(&self, holds: impl Fn(&Intermediate) -> bool) -> Option<Difference> {
        let value = self.values.iter().find(|value| holds(value))?;
        let op = self
            .graph
            .ops()
            .find(|(_, data)| data.results.contains(&value.value));
        let op = op.map_or_else(String::new, |(op, data)| {
            let name = op_name(self.graph, op);
            match &data.origin {
                Some(origin) => format!("{name}, from {}", origin.escape_debug()),
                None => name,
            }
        });
        let reads = value.reads.iter().map(|read| {
            let ty = self.graph.ty(*read).display(self.graph.dims());
            let name = value_name(self.graph, *read);
            match self.by_value.get(read).and_then(|&at| self.values.get(at)) {
                Some(read) => format!("{name}: {ty}, off by {:.1e}", read.found.error),
                None => format!("{name}: {ty}"),
            }
        });
        let ty = self.graph.ty(value.value).display(self.graph.dims());
        Some(Difference {
            value: format!("{}: {ty}", value_name(self.graph, value.value)),
            op,
            step: value.step.clone(),
            error: value.found.error,
            declared_error: value.declared.error,
            worst: value.found.worst.clone(),
            reads: reads.collect(),
        })
    }
}

/// The interpreter's tensors for these values.
fn traced(
    graph: &Graph,
    inputs: &[Tensor],
    options: &Options,
    mode: Mode,
    wanted: &[(&FusionNode, ValueId)],
) -> Result<BTreeMap<ValueId, Tensor>, Error> {
    let wanted: std::collections::BTreeSet<ValueId> =
        wanted.iter().map(|&(_, value)| value).collect();
    let seen = RefCell::new(BTreeMap::new());
    let keep = |event: TraceEvent<'_>| {
        if wanted.contains(&event.value) {
            seen.borrow_mut().insert(event.value, event.tensor.clone());
        }
    };
    interpret_graph(graph, inputs, options, mode, Some(&keep))?;
    Ok(seen.into_inner())
}
