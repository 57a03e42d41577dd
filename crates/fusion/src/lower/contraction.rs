//! Matrix products: a sum of products over the inner axis.
//!
//! Shares of a whole are divided by it after they are summed, not before: the exponentials of a softmax lie between 0 and
//! 1, one of them is 1, and so neither their products nor their sum can overflow sooner than the result does, by more than
//! the number of them.

use kiln_ir::{OpData, ValueId};
use kiln_kernel::{Axes, Node, NodeId, Nodes, Reduction, StageId, StageOperation};
use kiln_scalar::ScalarOp;
use kiln_symbolic_shape::Predicate;
use kiln_tensor::DType;

use super::context::{Demand, Lowering, Step, compute_dtype};
use super::stage::NewStage;

impl Lowering<'_> {
    pub(super) fn matmul(&mut self, data: &OpData, out: DType, demand: &Demand) -> Step<NodeId> {
        let (left, right) = (data.operands[0], data.operands[1]);
        let (left_shape, right_shape) = (self.shape(left)?, self.shape(right)?);
        let result = self.shape(demand.value)?;
        let batch = result.len() - 2;
        let (left_batch, right_batch) = (left_shape.len() - 2, right_shape.len() - 2);
        let depth = left_shape[left_batch + 1];
        self.require(
            Predicate::Equal(depth, right_shape[right_batch]),
            "equal inner sizes of a matrix product",
        )?;
        let accumulator = compute_dtype(out);
        let mut whole = None;
        let sum = self.read_stage(demand, &mut |this, stage| {
            let mut axes = Axes::new();
            let k = this.reduced_axis(stage, 0, depth, &mut axes);
            let (m, n) = (stage.indices[batch], stage.indices[batch + 1]);
            let mut sides = Nodes::new();
            for (value, shape, last) in [(left, &left_shape, [m, k]), (right, &right_shape, [k, n])]
            {
                let own = shape.len() - 2;
                let mut indices = Nodes::new();
                for axis in 0..own {
                    let at = batch - own + axis;
                    let index = stage.indices[at];
                    indices.push(this.broadcast_index(shape[axis], result[at], index)?);
                }
                indices.extend(last);
                let share = this.share(value, indices.clone(), stage)?;
                let element = match share.filter(|_| whole.is_none()) {
                    Some((part, of)) => {
                        whole = Some(of);
                        part
                    }
                    None => this.factor(value, indices, stage, &axes)?,
                };
                sides.push(this.b.cast(element, accumulator));
            }
            let product = this.b.apply(ScalarOp::Mul, sides);
            Ok(sum_of(axes, product, accumulator))
        })?;
        let Node::Local { stage, .. } = *self.b.kernel().node(sum) else {
            return Ok(sum);
        };
        if let Some(whole) = whole {
            self.wholes.insert(stage, whole);
        }
        Ok(match self.wholes.get(&stage) {
            Some(&whole) => self.b.apply(ScalarOp::Div, [sum, whole]),
            None => sum,
        })
    }

    /// A factor that is a share of a whole: an exponential divided by the sum of all of them. Both apart.
    fn share(
        &mut self,
        value: ValueId,
        indices: Nodes,
        stage: &NewStage,
    ) -> Step<Option<(NodeId, NodeId)>> {
        let plain = self.get(value, indices, stage.guard)?;
        let Node::Apply {
            op: ScalarOp::Div,
            operands,
        } = self.b.kernel().node(plain)
        else {
            return Ok(None);
        };
        let &[part, whole] = operands.as_slice() else {
            return Ok(None);
        };
        let (Some(parts), Some(sum)) = (self.stage_of(part), self.stage_of(whole)) else {
            return Ok(None);
        };
        let kernel = self.b.kernel();
        let is_sum = match &kernel.stage(sum).operation {
            StageOperation::Reduce {
                reduction: Reduction::Add,
                ..
            } => self.stage_of(kernel.stage(sum).value) == Some(parts),
            _ => false,
        };
        let (parts, sum) = (kernel.stage(parts), kernel.stage(sum));
        let is_exponential = matches!(parts.operation, StageOperation::Map)
            && matches!(
                kernel.node(parts.value),
                Node::Apply {
                    op: ScalarOp::Exp,
                    ..
                }
            );
        let is_one = sum.axes.is_empty() && self.is_ambient(whole);
        Ok((is_sum && is_exponential && is_one).then_some((part, whole)))
    }

    /// The stage whose local a node is.
    fn stage_of(&self, node: NodeId) -> Option<StageId> {
        match self.b.kernel().node(node) {
            Node::Local { stage, .. } => Some(*stage),
            _ => None,
        }
    }
}

/// A stage's sum; of a product over nothing but axes of one element, the product.
pub(super) fn sum_of(axes: Axes, value: NodeId, accumulator: DType) -> (StageOperation, NodeId) {
    if axes.is_empty() {
        return (StageOperation::Map, value);
    }
    let operation = StageOperation::Reduce {
        reduction: Reduction::Add,
        axes,
        accumulator,
    };
    (operation, value)
}
