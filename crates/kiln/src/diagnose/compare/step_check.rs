//! Checks whether a step computed the right results for what it read.
//!
//! The step's ops are interpreted in promoted mode on the values that compiled code passed to it, so errors of earlier
//! steps do not count: a step whose results differ is itself wrong.

use crate::diagnose::comparison::{AGREEMENT, Distance};
use crate::error::Error;
use kiln_fusion::FusionNode;
use kiln_interpreter::{EvaluateContext, bind_symbols, evaluate_op};
use kiln_ir::{Definition, Graph, Op, OpId, ValueId};
use kiln_scalar::Mode;
use kiln_symbolic_shape::Binding;
use kiln_tensor::Tensor;
use std::collections::{BTreeMap, BTreeSet};

/// The values that compiled code computed, and those derived from them.
pub(super) struct StepCheck<'a> {
    graph: &'a Graph,
    binding: Binding,
    /// As computed by compiled code: inputs, and results of steps.
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

    pub(super) fn graph(&self) -> &'a Graph {
        self.graph
    }

    /// Every known value around a step: the values that compiled code computed, and from these the results of the
    /// step's ops and of the views before it. `None` as for [`own_errors`](Self::own_errors).
    pub(super) fn values_of(&self, node: &FusionNode) -> Option<BTreeMap<ValueId, Tensor>> {
        let mut values = self.outputs(node, Mode::Declared)?;
        values.extend(
            self.given
                .iter()
                .map(|(&value, tensor)| (value, tensor.clone())),
        );
        Some(values)
    }

    /// The symbols of the inputs, and those that are, alone, a dimension of a known value.
    pub(super) fn binding_of_all(&self) -> Binding {
        let mut binding = self.binding.clone();
        let dims = self.graph.dims();
        for (&value, tensor) in &self.given {
            for (&dim, &size) in self
                .graph
                .ty(value)
                .innermost()
                .dims
                .iter()
                .zip(tensor.shape())
            {
                if let Some(symbol) = dims.as_symbol(dim)
                    && binding.get(symbol).is_none()
                    && let Ok(size) = i64::try_from(size)
                {
                    // It has no value yet, so this cannot conflict.
                    let _set = binding.set(symbol, size);
                }
            }
        }
        binding
    }

    /// Records the tensor that compiled code computed for a value.
    pub(super) fn add(&mut self, value: ValueId, tensor: &Tensor) {
        self.given.insert(value, tensor.clone());
    }

    /// The error of each output of a step relative to the results of its ops for the operands that it read. `None` if
    /// the ops cannot be evaluated one by one: control flow, or sizes that depend on data.
    pub(super) fn own_errors(
        &self,
        node: &FusionNode,
        outputs: &[(ValueId, &Tensor)],
    ) -> Option<Vec<OwnError>> {
        let promoted = self.outputs(node, Mode::Promoted)?;
        let declared = self.outputs(node, Mode::Declared)?;
        let errors = outputs.iter().map(|(value, found)| {
            let expected = promoted.get(value)?;
            Some(OwnError {
                error: Distance::of(found, expected).ok()?.error,
                declared: Distance::of(declared.get(value)?, expected).ok()?.error,
            })
        });
        errors.collect()
    }

    /// The results of a step's ops for the operands that the step read.
    fn outputs(&self, node: &FusionNode, mode: Mode) -> Option<BTreeMap<ValueId, Tensor>> {
        let ctx = EvaluateContext::new(self.graph.dims(), &self.binding).with_mode(mode);
        let own = node.all_ops();
        let mut values: BTreeMap<ValueId, Tensor> = BTreeMap::new();
        for op in self.with_views(node)? {
            let data = self.graph.op(op);
            let results = match &data.op {
                Op::Constant(constant) => vec![stored(&constant.tensor(), mode)?],
                _ => {
                    let operands = data
                        .operands
                        .iter()
                        .map(|operand| match values.get(operand) {
                            Some(tensor) => Some(tensor.clone()),
                            None => stored(self.given.get(operand)?, mode),
                        });
                    let operands = operands.collect::<Option<Vec<_>>>()?;
                    evaluate_op(&ctx, &data.op, &operands).ok()?
                }
            };
            for (&result, tensor) in data.results.iter().zip(results) {
                // Results of other steps are taken as compiled code computed them.
                if own.contains(&op) || !self.given.contains_key(&result) {
                    values.insert(result, tensor);
                }
            }
        }
        Some(values)
    }

    /// The ops of a step, preceded by those whose results it reads but no step computed: views of computed values, and
    /// constants.
    pub(super) fn with_views(&self, node: &FusionNode) -> Option<BTreeSet<OpId>> {
        let mut ops: BTreeSet<OpId> = node.all_ops().into_iter().collect();
        let mut pending = node.inputs.clone();
        while let Some(value) = pending.pop() {
            if self.given.contains_key(&value) {
                continue;
            }
            let Definition::Result { op, .. } = self.graph.value(value).definition else {
                return None;
            };
            if ops.insert(op) {
                pending.extend(self.graph.op(op).operands.iter().copied());
            }
        }
        Some(ops)
    }
}

/// The error of a step's output relative to the correct result for the operands that the step read.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnError {
    pub(super) error: f64,
    /// The error of the interpreter in the mode that rounds to dtypes: the steepness (error amplification) of the step
    /// itself.
    pub(super) declared: f64,
}

impl OwnError {
    /// Whether the step is wrong: off by more than the float tolerance, and more than its own steepness explains.
    pub(super) fn is_wrong(self, is_float: bool) -> bool {
        let allowed = if is_float {
            AGREEMENT + MARGIN * self.declared
        } else {
            0.0
        };
        self.error > allowed
    }
}

/// The factor by which a step's error may exceed that of plain rounding. The interpreter sums in `f64`, compiled code
/// in the stored dtype, so the interpreter's error is only that of rounding the step's results.
const MARGIN: f64 = 16.0;

/// A tensor in the representation of a mode: floats as `f64` in promoted mode.
fn stored(tensor: &Tensor, mode: Mode) -> Option<Tensor> {
    if mode.stored(tensor.dtype()) == tensor.dtype() {
        return Some(tensor.clone());
    }
    Tensor::from_vec(tensor.shape(), tensor.to_f64_vec().ok()?).ok()
}
