//! Which values carry gradients: those that vary smoothly with a chosen input and that a chosen output varies smoothly with.
//!
//! Two walks over the graph, forwards and backwards, into regions; loops are walked until nothing changes. A third walk
//! follows every dependence: if an input's gradient would be zero only because an op on the path has no derivative,
//! that is an error that shows the path.

use crate::edges::{Edge, edge};
use crate::{GradientError, Result};
use cranelift_entity::{EntitySet, SecondaryMap};
use kiln_ir::{Graph, Op, OpData, OpId, RegionId, Type, ValueId};
use kiln_shape_inference::OpView;
use std::collections::HashSet;

/// The values that carry gradients.
#[derive(Debug)]
pub(crate) struct Activity {
    varied: EntitySet<ValueId>,
    useful: EntitySet<ValueId>,
}

impl Activity {
    /// Analyses a graph for gradients of `outputs` with respect to `inputs`.
    pub(crate) fn of(graph: &Graph, outputs: &[ValueId], inputs: &[ValueId]) -> Self {
        let mut activity = Self {
            varied: EntitySet::new(),
            useful: EntitySet::new(),
        };
        for &input in inputs {
            activity.varied.insert(input);
        }
        activity.forwards(graph, graph.body());
        for &output in outputs {
            activity.useful.insert(output);
        }
        activity.backwards(graph, graph.body());
        activity
    }

    /// Whether a value carries a gradient.
    pub(crate) fn is_active(&self, value: ValueId) -> bool {
        self.varied.contains(value) && self.useful.contains(value)
    }

    /// Whether an output varies smoothly with the value.
    pub(crate) fn is_useful(&self, value: ValueId) -> bool {
        self.useful.contains(value)
    }

    /// Marks the values of a region that vary with the inputs. Recursion is bounded by the verifier's limit on nested
    /// regions.
    fn forwards(&mut self, graph: &Graph, region: RegionId) {
        for &op in &graph.region(region).ops {
            let data = graph.op(op);
            match data.op {
                Op::If => self.branches_forwards(graph, data),
                Op::Loop { carried } => self.loop_forwards(graph, data, carried),
                _ => {
                    let mut operands = data.operands.iter().enumerate();
                    let varies = operands.any(|(index, &operand)| {
                        self.varied.contains(operand) && edge(data, index) == Edge::Smooth
                    });
                    if varies {
                        for &result in &data.results {
                            self.vary(graph, result);
                        }
                    }
                }
            }
        }
    }

    fn branches_forwards(&mut self, graph: &Graph, data: &OpData) {
        for &region in &data.regions {
            let captures = data.operands.iter().skip(1);
            self.pass(graph, captures, &graph.region(region).parameters);
            self.forwards(graph, region);
            self.pass(graph, graph.region(region).results.iter(), &data.results);
        }
    }

    fn loop_forwards(&mut self, graph: &Graph, data: &OpData, carried: usize) {
        for &region in &data.regions {
            let inner = graph.region(region);
            let parameters = inner.parameters.get(1..).unwrap_or_default();
            self.pass(graph, data.operands.iter().skip(2), parameters);
            loop {
                self.forwards(graph, region);
                let next = inner.results.iter().skip(1).take(carried);
                if !self.pass(graph, next, parameters) {
                    break;
                }
            }
            self.pass(graph, inner.results.iter().skip(1), &data.results);
        }
    }

    /// Marks each value of `to` whose counterpart varies; returns whether any is newly marked.
    fn pass<'a>(
        &mut self,
        graph: &Graph,
        from: impl Iterator<Item = &'a ValueId>,
        to: &[ValueId],
    ) -> bool {
        let mut is_new = false;
        for (&from, &to) in from.zip(to) {
            if self.varied.contains(from) && !self.varied.contains(to) {
                self.vary(graph, to);
                is_new = true;
            }
        }
        is_new
    }

    fn vary(&mut self, graph: &Graph, value: ValueId) {
        if is_float(graph, value) {
            self.varied.insert(value);
        }
    }

    /// Marks the values of a region on which its useful values depend. Recursion is bounded as in `forwards`.
    fn backwards(&mut self, graph: &Graph, region: RegionId) {
        for &op in graph.region(region).ops.iter().rev() {
            let data = graph.op(op);
            match data.op {
                Op::If => self.branches_backwards(graph, data),
                Op::Loop { carried } => self.loop_backwards(graph, data, carried),
                _ => {
                    let is_useful = data
                        .results
                        .iter()
                        .any(|&result| self.useful.contains(result) && is_float(graph, result));
                    if !is_useful {
                        continue;
                    }
                    for (index, &operand) in data.operands.iter().enumerate() {
                        if edge(data, index) == Edge::Smooth && is_float(graph, operand) {
                            self.useful.insert(operand);
                        }
                    }
                }
            }
        }
    }

    fn branches_backwards(&mut self, graph: &Graph, data: &OpData) {
        for &region in &data.regions {
            let inner = graph.region(region);
            self.pull(&data.results, inner.results.iter());
            self.backwards(graph, region);
            self.pull(&inner.parameters, data.operands.iter().skip(1));
        }
    }

    fn loop_backwards(&mut self, graph: &Graph, data: &OpData, carried: usize) {
        for &region in &data.regions {
            let inner = graph.region(region);
            let parameters = inner.parameters.get(1..).unwrap_or_default();
            self.pull(&data.results, inner.results.iter().skip(1));
            loop {
                self.backwards(graph, region);
                if !self.pull(parameters, inner.results.iter().skip(1).take(carried)) {
                    break;
                }
            }
            self.pull(parameters, data.operands.iter().skip(2));
        }
    }

    /// Marks each value of `to` whose counterpart is useful; returns whether any is newly marked.
    fn pull<'a>(&mut self, from: &[ValueId], to: impl Iterator<Item = &'a ValueId>) -> bool {
        let mut is_new = false;
        for (&from, &to) in from.iter().zip(to) {
            if self.useful.contains(from) {
                is_new |= self.useful.insert(to);
            }
        }
        is_new
    }
}

/// Rejects an input that reaches `outputs` through ops, but not smoothly.
pub(crate) fn expect_smooth_path(
    graph: &Graph,
    outputs: &[ValueId],
    inputs: &[ValueId],
    activity: &Activity,
) -> Result<()> {
    if inputs.iter().all(|&input| activity.is_useful(input)) {
        return Ok(());
    }
    let next = readers_towards(graph, outputs);
    for &input in inputs.iter().filter(|&&input| !activity.is_useful(input)) {
        let Some(path) = path_from(graph, input, outputs, &next) else {
            continue;
        };
        let breaks = |&&(op, operand): &&(OpId, usize)| {
            let data = graph.op(op);
            let smooth = data.regions.is_empty() && edge(data, operand) == Edge::Smooth;
            !smooth || !data.results.iter().any(|&result| is_float(graph, result))
        };
        let Some(&(op, _)) = path.iter().find(breaks).or(path.last()) else {
            continue;
        };
        let labels: Vec<String> = path
            .iter()
            .map(|&(op, _)| OpView::of_op(graph.op(op)).label())
            .collect();
        return Err(GradientError::NotDifferentiable {
            input: graph.input_name(input),
            op: OpView::of_op(graph.op(op)).label(),
            path: labels.join(" -> "),
        });
    }
    Ok(())
}

/// For each value of the body from which an output can be reached: the op on the path that reads it, and the operand's
/// position. Paths through `stop_gradient` do not count.
fn readers_towards(
    graph: &Graph,
    outputs: &[ValueId],
) -> SecondaryMap<ValueId, Option<(OpId, usize)>> {
    let mut next: SecondaryMap<ValueId, Option<(OpId, usize)>> = SecondaryMap::new();
    let mut reached: HashSet<ValueId> = outputs.iter().copied().collect();
    for &op in graph.region(graph.body()).ops.iter().rev() {
        let data = graph.op(op);
        if !data.results.iter().any(|result| reached.contains(result)) {
            continue;
        }
        for (index, &operand) in data.operands.iter().enumerate() {
            let stopped = data.regions.is_empty() && edge(data, index) == Edge::Stopped;
            if !stopped && reached.insert(operand) {
                next[operand] = Some((op, index));
            }
        }
    }
    next
}

/// The ops from an input to an output, with the operand that is followed; `None` if no output depends on the input.
fn path_from(
    graph: &Graph,
    input: ValueId,
    outputs: &[ValueId],
    next: &SecondaryMap<ValueId, Option<(OpId, usize)>>,
) -> Option<Vec<(OpId, usize)>> {
    let mut path = Vec::new();
    let mut value = input;
    while let Some((op, operand)) = next[value] {
        path.push((op, operand));
        let mut results = graph.op(op).results.iter().copied();
        let onwards = results.find(|result| next[*result].is_some() || outputs.contains(result));
        value = onwards?;
    }
    (outputs.contains(&value) && !path.is_empty()).then_some(path)
}

/// Whether a value is a tensor of floats.
pub(crate) fn is_float(graph: &Graph, value: ValueId) -> bool {
    matches!(graph.ty(value), Type::Tensor(ty) if ty.dtype.is_float())
}
