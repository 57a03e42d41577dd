//! Reductions: a stage over the reduced axes.

use kiln_ir::{Extremum, Indices, OpData, ReduceFunction};
use kiln_kernel::{Axes, NodeId, Nodes, Reduction, StageOperation};
use kiln_scalar::{ScalarOp, ScalarValue};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::context::{Demand, Dims, RegionLowering, Step, compute_dtype};

impl RegionLowering<'_> {
    pub(super) fn reduce(
        &mut self,
        data: &OpData,
        function: ReduceFunction,
        axes: &Indices,
        keep_dims: bool,
        demand: &Demand,
    ) -> Step<NodeId> {
        let x = data.operands[0];
        let shape = self.shape(x)?;
        let dtype = compute_dtype(self.ty(x)?.dtype);
        let is_reduced = |axis: usize| axes.contains(&axis);
        let wide = |this: &Self, axis: usize| this.fixed(shape[axis]) != Some(1);
        if !(0..shape.len()).any(|axis| is_reduced(axis) && wide(self, axis)) {
            // Every reduced run is one element.
            let zero = self.integer(0);
            let indices = kept_indices(&demand.indices, shape.len(), axes, keep_dims, |_| zero);
            return self.get(x, indices, demand.guard);
        }
        let reduction = reduction_of(function, dtype);
        let reduced = self.read_stage(demand, &mut |this, stage| {
            let mut made = Axes::new();
            let mut places = Nodes::new();
            for (slot, &axis) in axes.iter().enumerate() {
                places.push(this.reduced_axis(stage, slot, shape[axis], &mut made));
            }
            let mut places = places.into_iter();
            let zero = this.integer(0);
            let indices = kept_indices(&stage.indices, shape.len(), axes, keep_dims, |_| {
                places.next().unwrap_or(zero)
            });
            let element = this.get(x, indices, stage.guard)?;
            let operation = StageOperation::Reduce {
                reduction,
                axes: made,
                accumulator: dtype,
            };
            Ok((operation, element))
        })?;
        if function != ReduceFunction::Mean {
            return Ok(reduced);
        }
        let counted: Dims = axes.iter().map(|&axis| shape[axis]).collect();
        Ok(self.mean(reduced, &counted))
    }

    /// A sum divided by a number of elements; of integers the quotient is truncated.
    fn mean(&mut self, sum: NodeId, counted: &[DimId]) -> NodeId {
        let mut count = self.integer(1);
        for &size in counted {
            let size = self.b.size(size);
            count = self.mul(count, size);
        }
        self.over(sum, count)
    }

    /// A quotient by an `i64` count.
    pub(super) fn over(&mut self, sum: NodeId, count: NodeId) -> NodeId {
        let dtype = self.b.kernel().dtype(sum);
        // Counts may exceed a narrow integer's range; every narrower value fits an i64.
        let wide = match dtype {
            DType::F32 | DType::F64 | DType::U64 => dtype,
            _ => DType::I64,
        };
        let literal = self
            .literal(count)
            .and_then(|count| ScalarValue::from_number(count as f64, wide));
        let count = match literal {
            Some(count) => self.b.literal(count),
            None => self.b.cast(count, wide),
        };
        let sum = self.b.cast(sum, wide);
        let quotient = self.b.apply(ScalarOp::Div, [sum, count]);
        self.b.cast(quotient, dtype)
    }

    pub(super) fn arg_reduce(
        &mut self,
        data: &OpData,
        extremum: Extremum,
        axis: usize,
        keep_dims: bool,
        last: bool,
        demand: &Demand,
    ) -> Step<NodeId> {
        let x = data.operands[0];
        let (shape, result) = (self.shape(x)?, self.shape(demand.value)?);
        let axes = Indices::from_slice(&[axis]);
        self.require_elements(
            shape[axis],
            &result,
            "elements for the index of an extremum",
        )?;
        let reduction = match extremum {
            Extremum::Max => Reduction::ArgMax { last },
            Extremum::Min => Reduction::ArgMin { last },
        };
        self.read_stage(demand, &mut |this, stage| {
            let made = this.whole_axis(stage, 0, shape[axis]);
            let place = this.b.index(made);
            let indices = kept_indices(&stage.indices, shape.len(), &axes, keep_dims, |_| place);
            let element = this.get(x, indices, stage.guard)?;
            let dtype = match this.b.kernel().dtype(element) {
                DType::Bool => DType::U8,
                other => other,
            };
            let operation = StageOperation::Reduce {
                reduction,
                axes: Axes::from_slice(&[made]),
                accumulator: dtype,
            };
            Ok((operation, this.b.cast(element, dtype)))
        })
    }
}

/// The kernel's reduction; for bools, sums and maxima are "or", products and minima "and".
fn reduction_of(function: ReduceFunction, dtype: DType) -> Reduction {
    match (function, dtype == DType::Bool) {
        (ReduceFunction::Sum | ReduceFunction::Mean, false) => Reduction::Add,
        (ReduceFunction::Product, false) => Reduction::Mul,
        (ReduceFunction::Max, false) => Reduction::Max,
        (ReduceFunction::Min, false) => Reduction::Min,
        (ReduceFunction::Any, _)
        | (ReduceFunction::Sum | ReduceFunction::Mean | ReduceFunction::Max, true) => Reduction::Or,
        (ReduceFunction::All, _) | (ReduceFunction::Product | ReduceFunction::Min, true) => {
            Reduction::And
        }
    }
}

/// Indices of the operand: those of the result, and `reduced` along the reduced axes.
fn kept_indices(
    result: &[NodeId],
    rank: usize,
    axes: &Indices,
    keep_dims: bool,
    mut reduced: impl FnMut(usize) -> NodeId,
) -> Nodes {
    let mut kept = result.iter();
    (0..rank)
        .map(|axis| {
            if !axes.contains(&axis) {
                return *kept
                    .next()
                    .unwrap_or_else(|| unreachable!("a result has every kept axis"));
            }
            if keep_dims {
                kept.next();
            }
            reduced(axis)
        })
        .collect()
}
