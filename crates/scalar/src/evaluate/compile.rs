//! Compiles an expression to a list of steps over few buffers.
//!
//! Buffers are reused as soon as the last step that reads them is past, so that a long expression
//! stays in the cache. Invariants of a [`BlockEvaluator`], which `run` relies on: every step is
//! typed; its sources were written by an earlier step, or hold constants, or are inputs; it
//! never writes a buffer that it reads.

use std::collections::{BTreeMap, HashMap};

use kiln_tensor::DType;
use smallvec::SmallVec;

use super::{Mode, stored_types};
use crate::expr::{Expr, ExprNode, NodeId, literal};
use crate::{ScalarError, ScalarOp, ScalarValue};

/// An expression prepared for many elements: see [`BlockEvaluator::run`].
///
/// ```
/// use kiln_scalar::{BlockEvaluator, Function, Mode};
/// use kiln_tensor::DType;
///
/// let relu = Function::by_name("relu").ok_or("not there")?.expression(&[])?;
/// let evaluator = BlockEvaluator::new(&relu, &[DType::F32], Mode::Declared)?;
/// let mut out = [0.0f32; 3];
/// evaluator.run(&[[-1.0f32, 0.5, 2.0][..].into()], (&mut out[..]).into())?;
/// assert_eq!(out, [0.0, 0.5, 2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BlockEvaluator {
    /// Dtypes of the blocks that `run` takes.
    pub(super) inputs: Vec<DType>,
    /// Dtype of the block that `run` writes.
    pub(super) result: DType,
    pub(super) steps: Vec<Step>,
    /// The initial contents of each buffer; constants stay.
    pub(super) buffers: Vec<ScalarValue>,
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) op: ScalarOp,
    pub(super) sources: SmallVec<[Source; 3]>,
    pub(super) target: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Input(usize),
    Buffer(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    Buffer(usize),
    Result,
}

impl BlockEvaluator {
    /// Prepares an expression for inputs of these declared dtypes.
    pub fn new(expr: &Expr, inputs: &[DType], mode: Mode) -> Result<BlockEvaluator, ScalarError> {
        expr.node_types(inputs)?;
        let types = stored_types(expr, inputs, mode)?;
        let mut compiler = Compiler {
            last_use: last_uses(expr),
            places: vec![None; types.len()],
            buffers: Vec::new(),
            constants: HashMap::new(),
            free: BTreeMap::new(),
        };
        let mut steps = Vec::new();
        for (position, (node, needed)) in expr.nodes().iter().zip(expr.needed()).enumerate() {
            if !needed {
                continue;
            }
            let Some(&dtype) = types.get(position) else {
                continue;
            };
            let place = match node {
                ExprNode::Input(input) => Source::Input(*input),
                ExprNode::Constant(value) => compiler.constant(mode.stored_value(*value)),
                ExprNode::Literal { number, .. } => compiler.constant(literal(*number, dtype)?),
                ExprNode::Apply { op, operands } => {
                    let sources = operands.iter().map(|&id| compiler.place(id)).collect();
                    // The target is allocated before operands are released: no step writes a buffer that it reads.
                    let is_result = position == expr.result().index();
                    let target = if is_result {
                        Target::Result
                    } else {
                        compiler.target(dtype)
                    };
                    steps.push(Step {
                        op: mode.stored_op(*op),
                        sources,
                        target,
                    });
                    compiler.release(position, operands);
                    match target {
                        Target::Buffer(buffer) => Source::Buffer(buffer),
                        // The result is not read again, so it does not need a buffer.
                        Target::Result => continue,
                    }
                }
            };
            if let Some(slot) = compiler.places.get_mut(position) {
                *slot = Some(place);
            }
        }
        let result = types
            .get(expr.result().index())
            .copied()
            .unwrap_or(DType::F64);
        if !matches!(
            expr.nodes().get(expr.result().index()),
            Some(ExprNode::Apply { .. })
        ) {
            let sources = SmallVec::from_slice(&[compiler.place(expr.result())]);
            steps.push(Step {
                op: ScalarOp::Cast(result),
                sources,
                target: Target::Result,
            });
        }
        let inputs = inputs.iter().map(|&dtype| mode.stored(dtype)).collect();
        Ok(BlockEvaluator {
            inputs,
            result,
            steps,
            buffers: compiler.buffers,
        })
    }

    /// The dtypes of the blocks that [`BlockEvaluator::run`] takes: the declared ones, or f64 for
    /// floats in [`Mode::Promoted`].
    pub fn input_types(&self) -> &[DType] {
        &self.inputs
    }

    /// The dtype of the block that [`BlockEvaluator::run`] writes.
    pub fn result_type(&self) -> DType {
        self.result
    }
}

struct Compiler {
    /// For each node, the last one that reads it.
    last_use: Vec<usize>,
    /// The place of each node's values.
    places: Vec<Option<Source>>,
    buffers: Vec<ScalarValue>,
    /// The buffer of each constant.
    constants: HashMap<ScalarValue, usize>,
    /// Free buffers, by dtype.
    free: BTreeMap<DType, Vec<usize>>,
}

impl Compiler {
    fn place(&self, id: NodeId) -> Source {
        let place = self.places.get(id.index()).copied().flatten();
        place.unwrap_or_else(|| unreachable!("operands come before the node that reads them"))
    }

    fn constant(&mut self, value: ScalarValue) -> Source {
        let buffers = &mut self.buffers;
        let buffer = *self.constants.entry(value).or_insert_with(|| {
            buffers.push(value);
            buffers.len() - 1
        });
        Source::Buffer(buffer)
    }

    fn target(&mut self, dtype: DType) -> Target {
        let free = self.free.get_mut(&dtype).and_then(Vec::pop);
        Target::Buffer(free.unwrap_or_else(|| {
            self.buffers.push(ScalarValue::zero(dtype));
            self.buffers.len() - 1
        }))
    }

    /// Frees the buffers of operands that are read for the last time here; a constant's buffer
    /// keeps its contents for the next block and is never freed.
    fn release(&mut self, position: usize, operands: &[NodeId]) {
        for (i, id) in operands.iter().enumerate() {
            let repeated = operands.iter().take(i).any(|earlier| earlier == id);
            if repeated || self.last_use.get(id.index()) != Some(&position) {
                continue;
            }
            if let Source::Buffer(buffer) = self.place(*id)
                && let Some(value) = self.buffers.get(buffer)
            {
                self.free.entry(value.dtype()).or_default().push(buffer);
            }
        }
    }
}

/// For each node, the last node that reads its values; constants are kept to the end.
fn last_uses(expr: &Expr) -> Vec<usize> {
    let mut last = vec![usize::MAX; expr.nodes().len()];
    for (position, (node, needed)) in expr.nodes().iter().zip(expr.needed()).enumerate() {
        if let (ExprNode::Apply { operands, .. }, true) = (node, needed) {
            for id in operands {
                let read = expr.nodes().get(id.index());
                if let (Some(ExprNode::Apply { .. }), Some(last)) = (read, last.get_mut(id.index()))
                {
                    *last = position;
                }
            }
        }
    }
    last
}
