//! Whether a step computed what it should from what it was given.
//!
//! The step's ops are interpreted in promoted mode on the values that compiled code handed to it, so
//! what earlier steps lost counts for nothing here: a step that is off is wrong by itself.

use crate::compare::{Distance, elements};
use crate::error::Error;
use kiln_fusion::FusionNode;
use kiln_interpreter::{EvaluateContext, bind_symbols, evaluate_op};
use kiln_ir::{Definition, Graph, Op, ValueId};
use kiln_scalar::Mode;
use kiln_symbolic_shape::Binding;
use kiln_tensor::Tensor;
use std::collections::BTreeMap;

/// The values that compiled code computed, and those that follow from them.
pub(super) struct StepCheck<'a> {
    graph: &'a Graph,
    binding: Binding,
    /// As computed by compiled code: inputs, and what steps gave.
    given: BTreeMap<ValueId, Tensor>,
}

impl<'a> StepCheck<'a> {
    pub(super) fn new(graph: &'a Graph, inputs: &[Tensor]) -> Result<Self, Error> {
        let shapes: Vec<&[usize]> = inputs.iter().map(Tensor::shape).collect();
        let given = graph.inputs().iter().copied().zip(inputs.iter().cloned());
        Ok(Self {
            graph,
            binding: bind_symbols(graph, &shapes)?,
            given: given.collect(),
        })
    }

    /// Notes what compiled code computed for a value.
    pub(super) fn add(&mut self, value: ValueId, tensor: &Tensor) {
        self.given.insert(value, tensor.clone());
    }

    /// How far each output of a step is from what its ops give for what it read. None where they
    /// cannot be computed one by one: control flow, or sizes that data decide.
    pub(super) fn distances(
        &self,
        node: &FusionNode,
        outputs: &[(ValueId, &Tensor)],
    ) -> Option<Vec<Distance>> {
        let ctx = EvaluateContext::new(self.graph.dims(), &self.binding).with_mode(Mode::Promoted);
        let mut values: BTreeMap<ValueId, Tensor> = BTreeMap::new();
        // What is read may be a view of what was computed, or a constant: such ops come first.
        let mut ops = node.all_ops();
        let mut pending = node.inputs.clone();
        while let Some(value) = pending.pop() {
            if self.given.contains_key(&value) {
                continue;
            }
            let Definition::Result { op, .. } = self.graph.value(value).definition else {
                return None;
            };
            if !ops.contains(&op) {
                ops.push(op);
                pending.extend(self.graph.op(op).operands.iter().copied());
            }
        }
        ops.sort_unstable();
        let own = node.all_ops();
        for op in ops {
            let data = self.graph.op(op);
            let results = match &data.op {
                Op::Constant(constant) => vec![promoted(constant.tensor())?],
                _ => {
                    let operands = data
                        .operands
                        .iter()
                        .map(|operand| match values.get(operand) {
                            Some(tensor) => Some(tensor.clone()),
                            None => promoted(self.given.get(operand)?),
                        });
                    let operands = operands.collect::<Option<Vec<_>>>()?;
                    evaluate_op(&ctx, &data.op, &operands).ok()?
                }
            };
            for (&result, tensor) in data.results.iter().zip(results) {
                // What another step gave is taken as it gave it.
                if own.contains(&op) || !self.given.contains_key(&result) {
                    values.insert(result, tensor);
                }
            }
        }
        let distances = outputs.iter().map(|(value, found)| {
            let expected = values.get(value)?;
            Distance::of(found, expected).ok()
        });
        distances.collect()
    }
}

/// A tensor as promoted mode has it: floats as `f64`.
fn promoted(tensor: &Tensor) -> Option<Tensor> {
    if Mode::Promoted.stored(tensor.dtype()) == tensor.dtype() {
        return Some(tensor.clone());
    }
    Tensor::from_vec(tensor.shape(), elements(tensor).ok()?).ok()
}
