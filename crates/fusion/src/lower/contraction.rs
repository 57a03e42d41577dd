//! Matrix products: a sum of products over the inner axis.

use kiln_ir::OpData;
use kiln_kernel::{Axes, NodeId, Nodes, Reduction, StageOperation};
use kiln_scalar::ScalarOp;
use kiln_symbolic_shape::Predicate;
use kiln_tensor::DType;

use super::context::{Demand, Lowering, Step, compute_dtype};

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
        self.read_stage(demand, &mut |this, stage| {
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
                let element = this.factor(value, indices, stage, &axes)?;
                sides.push(this.b.cast(element, accumulator));
            }
            let product = this.b.apply(ScalarOp::Mul, sides);
            Ok(sum_of(axes, product, accumulator))
        })
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
