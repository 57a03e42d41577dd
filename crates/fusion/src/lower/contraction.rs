//! Matrix products: a sum of products over the inner axis.
//!
//! A normalised operand, such as the weights of a softmax, is divided by its total after the summation, not before. The
//! exponentials of a softmax are between 0 and 1, and one of them is 1, so an undivided sum exceeds the result by at
//! most a factor of their number, and cannot overflow much earlier.

use kiln_ir::{Op, OpData, ReduceFunction, ValueId};
use kiln_kernel::{Axes, Node, NodeId, Nodes, Reduction, StageOperation};
use kiln_scalar::ScalarOp;
use kiln_symbolic_shape::Predicate;
use kiln_tensor::DType;

use super::context::{Demand, RegionLowering, Step, compute_dtype};
use super::stage::NewStage;

impl RegionLowering<'_> {
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
                let share = match whole {
                    None => this.share(value, &indices, stage)?,
                    Some(_) => None,
                };
                let element = match share {
                    Some((part, of)) => {
                        whole = Some(of);
                        this.factor(part, indices, stage, &axes)?
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

    /// A factor that is a quotient whose divisor is the same for the entire sum: the dividend and the divisor.
    fn share(
        &mut self,
        value: ValueId,
        indices: &Nodes,
        stage: &NewStage,
    ) -> Step<Option<(ValueId, NodeId)>> {
        let Some((part, whole)) = self.parts_of_share(value) else {
            return Ok(None);
        };
        let shape = self.shape(value)?;
        let at = self.broadcast_indices(whole, &shape, indices)?;
        let whole = self.get(whole, at, stage.guard)?;
        Ok(self.is_ambient(whole).then_some((part, whole)))
    }

    /// Exponentials, and their sum, if a value is the quotient of both.
    fn parts_of_share(&self, value: ValueId) -> Option<(ValueId, ValueId)> {
        let primitive = |value: ValueId| {
            let (_, data) = self.producer(value)?;
            match &data.op {
                Op::Map { function, .. } => Some((function.primitive()?, data)),
                _ => None,
            }
        };
        let (ScalarOp::Div, quotient) = primitive(value)? else {
            return None;
        };
        let &[part, whole] = quotient.operands.as_slice() else {
            return None;
        };
        let (ScalarOp::Exp, _) = primitive(part)? else {
            return None;
        };
        let (_, sum) = self.producer(whole)?;
        let is_sum = matches!(
            sum.op,
            Op::Reduce {
                function: ReduceFunction::Sum,
                ..
            }
        );
        let ty = self.graph.tensor_ty(value)?;
        let is_alike =
            matches!(ty.dtype, DType::F32 | DType::F64) && self.graph.tensor_ty(part) == Some(ty);
        let is_whole = is_sum && is_alike && sum.operands.first() == Some(&part);
        is_whole.then_some((part, whole))
    }
}

/// A stage's sum; for a product over axes of one element only, the product.
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
