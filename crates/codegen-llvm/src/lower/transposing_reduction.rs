//! Transposing reduction: dot products along the contiguous axis, one vector of partial sums per result.
//!
//! In `v[j] = sum k of q[k] * x[j, k]` memory is contiguous along the reduced axis `k`, so each dot product would end
//! with a horizontal sum. One dot product per lane of a vector is computed, and these are reduced together by pairwise
//! shuffles and additions, which transpose the partial sums into one vector of results.

use kiln_kernel::{AxisId, Reduction, StageId, StageOperation};
use kiln_schedule_cpu::Tile;

use super::context::KernelLowering;
use super::reduce::Reduce;
use super::scope::{Array, Coordinate, Scope, Vectors};
use crate::emit::{Value, lanes};
use crate::error::LlvmError;

/// The width in bits of the parts of a vector across which shuffles do not move elements.
const PART: u32 = 128;

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// Fills an array of dot products that is contiguous along the reduced axis: whole vectors of results, and the
    /// remainder one by one. Returns false, and does nothing, for any other array.
    pub(super) fn fill_by_transposing_reduction(
        &self,
        scope: &Scope<'ctx>,
        tile: &Tile,
        id: StageId,
        points: &[Coordinate],
        array: &Array<'ctx>,
    ) -> Result<bool, LlvmError> {
        let emit = &self.emit;
        let stage = self.kernel.stage(id);
        let StageOperation::Reduce {
            axes, accumulator, ..
        } = &stage.operation
        else {
            return Ok(false);
        };
        let (&[own], &[reduced]) = (stage.axes.as_slice(), axes.as_slice()) else {
            return Ok(false);
        };
        if !self.loops_of(id).transposing_reduction {
            return Ok(false);
        }
        let reduce = Reduce {
            stage: id,
            reduction: Reduction::Add,
            axes,
            accumulator: *accumulator,
            value: stage.value,
        };
        let extent = self.extent(scope, own)?;
        let whole = self.multiple_below(extent, tile.lanes);
        let step = emit.i64(i64::from(tile.lanes));
        self.counted(emit.i64(0), whole, step, &[], |base, _| {
            for &at in points {
                let sums = self.dot_products(scope, tile, &reduce, (own, base), reduced, at)?;
                let along = Vectors {
                    axis: own,
                    lanes: tile.lanes,
                    count: 1,
                    base,
                    left: None,
                    block: None,
                };
                let array = self.array_of_row(scope, array, at);
                self.store_own(&scope.with_vectors(along), &array, &[own], sums, at)?;
            }
            Ok(Vec::new())
        })?;
        self.counted(whole, extent, emit.i64(1), &[], |index, _| {
            let scope = scope.with_axis(own, index);
            let values = self.at_points(&scope, tile, id, points)?;
            for (&at, value) in points.iter().zip(values) {
                let array = self.array_of_row(&scope, array, at);
                self.store_own(&scope, &array, &[own], value, at)?;
            }
            Ok(Vec::new())
        })?;
        Ok(true)
    }

    /// The dot products of one row from an index of the array on: one per lane of a vector.
    fn dot_products(
        &self,
        scope: &Scope<'ctx>,
        tile: &Tile,
        reduce: &Reduce<'_>,
        (own, base): (AxisId, Value<'ctx>),
        reduced: AxisId,
        at: Coordinate,
    ) -> Result<Value<'ctx>, LlvmError> {
        let emit = &self.emit;
        let zero = emit.splat(self.zero(reduce.accumulator), tile.lanes);
        let initial = vec![zero; tile.lanes as usize];
        let extent = self.extent(scope, reduced)?;
        let step = emit.i64(i64::from(tile.lanes));
        let sums = self.counted(emit.i64(0), extent, step, &initial, |start, carried| {
            let mut sums = Vec::with_capacity(carried.len());
            for (number, &sum) in (0..).zip(carried) {
                let here = scope
                    .with_axis(own, emit.iadd(base, emit.i64(number)))
                    .with_vectors(Vectors {
                        axis: reduced,
                        lanes: tile.lanes,
                        count: 1,
                        base: start,
                        left: None,
                        block: None,
                    });
                sums.extend(self.accumulate(&here, reduce, &[at], &[sum])?);
            }
            Ok(sums)
        })?;
        Ok(self.transposing_sum(sums, reduce.accumulator.bits()))
    }

    /// Reduces as many vectors as each has lanes to one: its lane `i` is the sum of the lanes of vector `i`.
    fn transposing_sum(&self, mut vectors: Vec<Value<'ctx>>, bits: u32) -> Value<'ctx> {
        let emit = &self.emit;
        let n_lanes = vectors.first().map_or(1, |&vector| lanes(vector));
        let part = (PART / bits).min(n_lanes);
        // First pairs of lanes within each part, then pairs of parts.
        let mut width = 1;
        while vectors.len() > 1 {
            let group = if width < part { part } else { n_lanes };
            let unit = if width < part { 1 } else { part };
            let picks = |odd: u32| -> Vec<u32> {
                (0..n_lanes / group)
                    .flat_map(|place| {
                        [0, n_lanes].into_iter().flat_map(move |of| {
                            (0..group / unit / 2).flat_map(move |pair| {
                                (0..unit).map(move |lane| {
                                    of + place * group + (2 * pair + odd) * unit + lane
                                })
                            })
                        })
                    })
                    .collect()
            };
            let (evens, odds) = (picks(0), picks(1));
            vectors = vectors
                .chunks(2)
                .filter_map(|pair| match pair {
                    &[a, b] => {
                        Some(emit.fadd(emit.shuffle(a, b, &evens), emit.shuffle(a, b, &odds)))
                    }
                    _ => None,
                })
                .collect();
            width *= 2;
        }
        vectors
            .first()
            .copied()
            .unwrap_or_else(|| unreachable!("a vector has at least one lane"))
    }
}
