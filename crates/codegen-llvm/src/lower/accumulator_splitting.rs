//! Accumulator splitting: several partial sums per result, to hide FMA latency in small tiles.

use kiln_kernel::AxisId;

use super::context::KernelLowering;
use super::reduce::Reduce;
use super::scope::{Coordinate, Scope};
use crate::emit::Value;
use crate::error::LlvmError;

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// The number of accumulators over which the sums of a vector tile are split, if they are too few to hide the
    /// latency of their additions.
    pub(super) fn accumulators(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
        points: &[Coordinate],
    ) -> Option<usize> {
        let accumulators = self.loops_of(reduce.stage).accumulators as usize;
        let splits = scope.vectors.is_some() && points.len() <= accumulators / 2;
        splits.then_some(accumulators)
    }

    /// Products along an axis, distributed over the accumulators: every second (or fourth, or eighth) product per
    /// accumulator.
    pub(super) fn split_accumulators(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
        (axis, accumulators): (AxisId, usize),
        points: &[Coordinate],
        carried: &[Value<'ctx>],
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let emit = &self.emit;
        let n_sums = carried.len();
        let ways = (accumulators / n_sums.max(1)).max(1);
        let extent = self.extent(scope, axis)?;
        // The remainder comes first, so that the loop over full sets ends with the axis.
        let rest = emit.isub(extent, self.multiple_below(extent, ways as u32));
        let one = emit.i64(1);
        let first = self.counted(emit.i64(0), rest, one, carried, |index, carried| {
            self.accumulate(&scope.with_axis(axis, index), reduce, points, carried)
        })?;
        let start = self.initial(scope, reduce, n_sums);
        let mut initial = first;
        for _ in 1..ways {
            initial.extend_from_slice(&start);
        }
        let step = emit.i64(ways as i64);
        let sums = self.counted(rest, extent, step, &initial, |base, carried| {
            let mut sums = Vec::with_capacity(carried.len());
            for (number, carried) in (0..).zip(carried.chunks(n_sums)) {
                let here = scope.with_axis(axis, emit.iadd(base, emit.i64(number)));
                sums.extend(self.accumulate(&here, reduce, points, carried)?);
            }
            Ok(sums)
        })?;
        let mut joined = sums.get(..n_sums).unwrap_or_default().to_vec();
        for more in sums.chunks(n_sums).skip(1) {
            for (sum, &more) in joined.iter_mut().zip(more) {
                *sum = self.join(reduce.reduction, reduce.accumulator, *sum, more)?;
            }
        }
        Ok(joined)
    }
}
