//! Pools: a reduction over the window, excluding padding.

use kiln_ir::{Integers, OpData, PoolFunction, Window};
use kiln_kernel::{Axes, NodeId, Nodes, Reduction, StageOperation};
use kiln_scalar::ScalarValue;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::LowerError;
use super::context::{Demand, RegionLowering, Step, compute_dtype};

impl RegionLowering<'_> {
    pub(super) fn pool(
        &mut self,
        data: &OpData,
        function: PoolFunction,
        size: &Integers,
        window: &Window,
        demand: &Demand,
    ) -> Step<NodeId> {
        let x = data.operands[0];
        let (shape, result) = (self.shape(x)?, self.shape(demand.value)?);
        let taps = self.constants(size);
        let dtype = compute_dtype(self.ty(x)?.dtype);
        let (reduction, padding) = match (function, dtype == DType::Bool) {
            (PoolFunction::Max, false) => (Reduction::Max, lowest(dtype)),
            (_, false) => (Reduction::Add, ScalarValue::zero(dtype)),
            (_, true) => (Reduction::Or, ScalarValue::zero(dtype)),
        };
        let reduced = self.read_stage(demand, &mut |this, stage| {
            let mut axes = Axes::new();
            let sizes = [&shape[2..], &result[2..], &taps];
            let reads = this.window_reads(window, sizes, stage, &mut axes)?;
            let mut indices = Nodes::from_slice(&stage.indices[..2]);
            indices.extend(reads.positions);
            let padding = this.b.literal(padding);
            let element = this.guarded(x, indices, stage.guard, reads.tests, [], padding)?;
            let operation = match axes.is_empty() {
                true => StageOperation::Map,
                false => StageOperation::Reduce {
                    reduction,
                    axes,
                    accumulator: dtype,
                },
            };
            Ok((operation, element))
        })?;
        let mut count = self.integer(1);
        match function {
            PoolFunction::Max | PoolFunction::Sum => return Ok(reduced),
            PoolFunction::MeanWithPadding => {
                for &tap in size {
                    let tap = self.integer(tap);
                    count = self.mul(count, tap);
                }
            }
            PoolFunction::Mean => {
                for axis in 0..size.len() {
                    let at = demand.indices[2 + axis];
                    let inside = self.taps_inside(window, axis, size[axis], shape[2 + axis], at)?;
                    count = self.mul(count, inside);
                }
            }
        }
        Ok(self.over(reduced, count))
    }

    /// The number of an axis' taps that are not padding, at one position of the window.
    fn taps_inside(
        &mut self,
        window: &Window,
        axis: usize,
        size: i64,
        input: DimId,
        at: NodeId,
    ) -> Result<NodeId, LowerError> {
        let low = self.dim(window.low[axis])?;
        let high = self.dim(window.high[axis])?;
        let all = self.integer(size);
        if self.fixed(low) == Some(0) && self.fixed(high) == Some(0) {
            return Ok(all);
        }
        let (stride, dilation) = (window.strides[axis], window.dilations[axis]);
        let (stride, step) = (self.integer(stride), self.integer(dilation));
        let start = self.mul(at, stride);
        let low = self.b.size(low);
        // Taps from the first at or after the operand's start to the first at or after its end.
        let before = self.sub(low, start);
        let input = self.b.size(input);
        let until = self.add(before, input);
        let round_up = self.integer(dilation - 1);
        let zero = self.integer(0);
        let bound = |this: &mut Self, distance: NodeId| {
            let padded = this.add(distance, round_up);
            let taps = this.floor_div(padded, step);
            let capped = this.min(taps, all);
            this.max(capped, zero)
        };
        let (first, end) = (bound(self, before), bound(self, until));
        Ok(self.sub(end, first))
    }
}

/// The lower bound of a dtype's numbers.
pub(super) fn lowest(dtype: DType) -> ScalarValue {
    extreme(dtype, f64::NEG_INFINITY, |bits| -(2f64.powi(bits - 1)), 0.0)
}

/// The upper bound of a dtype's numbers.
pub(super) fn highest(dtype: DType) -> ScalarValue {
    match dtype {
        // No f64 equals the largest 64-bit integer.
        DType::I64 => ScalarValue::I64(i64::MAX),
        DType::U64 => ScalarValue::U64(u64::MAX),
        DType::U32 => ScalarValue::U32(u32::MAX),
        DType::U16 => ScalarValue::U16(u16::MAX),
        DType::U8 => ScalarValue::U8(u8::MAX),
        DType::Bool => ScalarValue::Bool(true),
        _ => extreme(dtype, f64::INFINITY, |bits| 2f64.powi(bits - 1) - 1.0, 0.0),
    }
}

fn extreme(dtype: DType, float: f64, signed: impl Fn(i32) -> f64, unsigned: f64) -> ScalarValue {
    let number = match dtype {
        _ if dtype.is_float() => float,
        DType::I64 => signed(64),
        DType::I32 => signed(32),
        DType::I16 => signed(16),
        DType::I8 => signed(8),
        _ => unsigned,
    };
    ScalarValue::from_number(number, dtype).unwrap_or_else(|| ScalarValue::zero(dtype))
}
