//! Reductions: accumulators in registers, one per point of the tile, or vectors along a reduced axis.

use kiln_kernel::seeded::{Fault, is_on};
use kiln_kernel::{AxisId, NodeId, Reduction, StageId};
use kiln_scalar::ScalarOp;
use kiln_schedule_cpu::loops::PeelTaps;
use kiln_schedule_cpu::{Tail, Tile, factors};
use kiln_tensor::DType;

use super::context::KernelLowering;
use super::scope::{Coordinate, Form, Remainder, Scope, Vectors};
use crate::emit::{Value, lanes};
use crate::error::LlvmError;
use crate::scalar_ops;

/// A reduction to perform.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reduce<'a> {
    pub(super) stage: StageId,
    pub(super) reduction: Reduction,
    pub(super) axes: &'a [AxisId],
    pub(super) accumulator: DType,
    pub(super) value: NodeId,
}

/// The body of a loop at a point: takes the carried values, and returns the next ones.
pub(super) type Body<'a, 'ctx> =
    dyn FnMut(&Scope<'ctx>, &[Value<'ctx>]) -> Result<Vec<Value<'ctx>>, LlvmError> + 'a;

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// Reduces at each of the given points of the tile, keeping the lanes of the vectors in use separate.
    pub(super) fn reduce(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
        points: &[Coordinate],
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let initial = self.initial(scope, reduce, points.len());
        let results = self.reduce_axes(scope, reduce, reduce.axes, points, initial)?;
        Ok(self.final_results(reduce, results, points.len()))
    }

    /// Reduces at each of the given points with vectors along one of the reduced axes; not for arg-reductions.
    pub(super) fn reduce_in_vectors(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
        vector_axis: AxisId,
        tile: &Tile,
        points: &[Coordinate],
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let emit = &self.emit;
        let others: Vec<AxisId> = reduce
            .axes
            .iter()
            .copied()
            .filter(|&axis| axis != vector_axis)
            .collect();
        // As many accumulators as the tile has vectors, to hide the latency of additions.
        let start = self.identity(reduce.reduction, reduce.accumulator);
        let wide = emit.splat(start, tile.lanes);
        let per_point = tile.vectors as usize;
        let initial = vec![wide; points.len() * per_point];
        let mut scalars = vec![start; points.len()];
        let wides = self.over(scope, &others, initial, &mut |scope, carried| {
            let (first, extent) = self.indices_of(scope, vector_axis)?;
            let set = tile.lanes * tile.vectors;
            let vectors = |base, count, left| Vectors {
                axis: vector_axis,
                lanes: tile.lanes,
                count,
                base,
                left,
                block: None,
            };
            let whole = self.multiple_below(emit.isub(extent, first), set);
            let whole = emit.iadd(first, whole);
            let step = emit.i64(i64::from(set));
            let mut carried = carried.to_vec();
            if tile.vectors > 1 {
                carried = self.counted(first, whole, step, &carried, |base, carried| {
                    let inner = scope.with_vectors(vectors(base, tile.vectors, None));
                    let points = points.iter().flat_map(|point| {
                        (0..tile.vectors).map(|vector| Coordinate {
                            row: point.row,
                            vector,
                        })
                    });
                    let points: Vec<Coordinate> = points.collect();
                    self.prefetch_results(&inner, &points)?;
                    self.accumulate(&inner, reduce, &points, carried)
                })?;
            }
            let begin = if tile.vectors > 1 { whole } else { first };
            let rest = self.multiple_below(emit.isub(extent, begin), tile.lanes);
            let middle = emit.iadd(begin, rest);
            let firsts: Vec<Coordinate> = points
                .iter()
                .map(|point| Coordinate {
                    row: point.row,
                    vector: 0,
                })
                .collect();
            let step = emit.i64(i64::from(tile.lanes));
            let first_of = |carried: &[Value<'ctx>]| -> Vec<Value<'ctx>> {
                carried.iter().step_by(per_point).copied().collect()
            };
            let put_back = |carried: &mut [Value<'ctx>], firsts: Vec<Value<'ctx>>| {
                for (slot, value) in carried.iter_mut().step_by(per_point).zip(firsts) {
                    *slot = value;
                }
            };
            // With masks one body serves full and partial vectors.
            let masked = tile.tail == Tail::Masked;
            let until = if masked { extent } else { middle };
            // After the full sets, less than one set remains.
            let most = (tile.vectors > 1).then_some(u64::from(tile.vectors));
            let range = (begin, until, step);
            let firsts_before = first_of(&carried);
            let singles = self.counted_up_to(most, range, &firsts_before, |base, carried| {
                let left = masked.then(|| Remainder {
                    elements: emit.isub(extent, base),
                    full: 0,
                });
                let inner = scope.with_vectors(vectors(base, 1, left));
                self.accumulate(&inner, reduce, &firsts, carried)
            })?;
            put_back(&mut carried, singles);
            Ok(carried)
        })?;
        if tile.tail == Tail::Scalar {
            scalars = self.over(scope, &others, scalars, &mut |scope, carried| {
                let (first, extent) = self.indices_of(scope, vector_axis)?;
                let length = emit.isub(extent, first);
                let done = if tile.vectors > 1 {
                    let whole = self.multiple_below(length, tile.lanes * tile.vectors);
                    let rest = self.multiple_below(emit.isub(length, whole), tile.lanes);
                    emit.iadd(whole, rest)
                } else {
                    self.multiple_below(length, tile.lanes)
                };
                let begin = emit.iadd(first, done);
                let most = Some(u64::from(tile.lanes));
                let range = (begin, extent, emit.i64(1));
                self.counted_up_to(most, range, carried, |index, carried| {
                    let inner = scope.with_axis(vector_axis, index);
                    self.accumulate(&inner, reduce, points, carried)
                })
            })?;
        }
        let mut results = Vec::with_capacity(points.len());
        for (wides, scalar) in wides.chunks(per_point).zip(scalars) {
            let mut joined: Option<Value<'ctx>> = None;
            for &wide in wides {
                joined = Some(match joined {
                    Some(so_far) => {
                        self.join(reduce.reduction, reduce.accumulator, so_far, wide)?
                    }
                    None => wide,
                });
            }
            let Some(joined) = joined else {
                unreachable!("a tile has at least one vector")
            };
            let across = self.reduce_lanes(reduce, joined)?;
            results.push(if tile.tail == Tail::Scalar {
                self.join(reduce.reduction, reduce.accumulator, across, scalar)?
            } else {
                across
            });
        }
        Ok(results)
    }

    /// Combines the lanes of a vector by halving.
    fn reduce_lanes(
        &self,
        reduce: &Reduce<'_>,
        vector: Value<'ctx>,
    ) -> Result<Value<'ctx>, LlvmError> {
        let emit = &self.emit;
        let mut vector = vector;
        while lanes(vector) > 1 {
            let half = lanes(vector) / 2;
            let (low, high) = if half == 1 {
                (emit.extract(vector, 0), emit.extract(vector, 1))
            } else {
                let low: Vec<u32> = (0..half).collect();
                let high: Vec<u32> = (half..2 * half).collect();
                (
                    emit.shuffle(vector, vector, &low),
                    emit.shuffle(vector, vector, &high),
                )
            };
            vector = self.join(reduce.reduction, reduce.accumulator, low, high)?;
        }
        Ok(vector)
    }

    pub(super) fn initial(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
        n_points: usize,
    ) -> Vec<Value<'ctx>> {
        let widened = |value| {
            if self.varies_outside(scope, reduce) {
                self.widened(scope, value)
            } else {
                value
            }
        };
        if reduce.reduction.is_arg() {
            // The best values, then their indices.
            let (value, index) = self.none_yet(reduce);
            let mut initial = vec![widened(value); n_points];
            initial.extend(vec![widened(index); n_points]);
            return initial;
        }
        let start = self.identity(reduce.reduction, reduce.accumulator);
        vec![widened(start); n_points]
    }

    /// Whether the reduced value differs between the lanes of the vectors in use.
    fn varies_outside(&self, scope: &Scope<'ctx>, reduce: &Reduce<'_>) -> bool {
        self.varies(scope, reduce.value)
    }

    fn final_results(
        &self,
        reduce: &Reduce<'_>,
        results: Vec<Value<'ctx>>,
        n_points: usize,
    ) -> Vec<Value<'ctx>> {
        if !reduce.reduction.is_arg() {
            return results;
        }
        let indices = results.into_iter().skip(n_points);
        indices.map(|index| self.found(index)).collect()
    }

    fn reduce_axes(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
        axes: &[AxisId],
        points: &[Coordinate],
        carried: Vec<Value<'ctx>>,
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let Some((&last, taps)) = axes.split_last() else {
            return self.accumulate(scope, reduce, points, &carried);
        };
        self.nested(scope, taps, false, carried, &mut |scope, carried| {
            let mut accumulate = |scope: &Scope<'ctx>, carried: &[Value<'ctx>]| {
                self.accumulate(scope, reduce, points, carried)
            };
            if scope.has_range_of(reduce.axes) {
                return self.along(scope, last, true, carried, |scope, carried| {
                    accumulate(scope, carried)
                });
            }
            let loops = self.loops_of(reduce.stage);
            if loops.peel_taps == PeelTaps::BeforeInnermost {
                let along = &mut |scope: &Scope<'ctx>, carried: &[Value<'ctx>]| match self
                    .narrow_sums(scope, reduce, last, points, carried)?
                {
                    Some(sums) => Ok(sums),
                    None => self.along(scope, last, true, carried, &mut accumulate),
                };
                return self.interior_or_edge_of_tap(
                    scope,
                    reduce.value,
                    Some(last),
                    along,
                    carried,
                );
            }
            if let Some(sums) = self.narrow_sums(scope, reduce, last, points, carried)? {
                return Ok(sums);
            }
            if let Some(accumulators) = self.accumulators(scope, reduce, points) {
                let along = (last, accumulators);
                return self.split_accumulators(scope, reduce, along, points, carried);
            }
            if loops.sliding_window
                && let Some(slide) = self.sliding_window(scope, reduce, last, points)
            {
                let sliding_sums = &mut |scope: &Scope<'ctx>, carried: &[Value<'ctx>]| {
                    self.sliding_sums(scope, reduce, (&slide, last), points, carried)
                };
                let spans = self.spans_of_taps(scope, &slide);
                return self.interior_or_edge_of_spans(scope, &spans, sliding_sums, carried);
            }
            self.along(scope, last, true, carried, |scope, carried| {
                match loops.peel_taps {
                    PeelTaps::InInnermost => {
                        let value = reduce.value;
                        self.interior_or_edge_of_tap(scope, value, None, &mut accumulate, carried)
                    }
                    _ => accumulate(scope, carried),
                }
            })
        })
    }

    /// Sums of products of narrow integers, or of scaled ones, along an axis, several at once; `None` for others.
    fn narrow_sums(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
        axis: AxisId,
        points: &[Coordinate],
        carried: &[Value<'ctx>],
    ) -> Result<Option<Vec<Value<'ctx>>>, LlvmError> {
        let sums = if let Some(bytes) = self.scaled_bytes(scope, reduce) {
            self.scaled_sums(scope, (axis, &bytes), points, carried)
        } else if let Some(factors) = self.factors_in_fours(scope, reduce) {
            self.sums_of_fours(scope, reduce, (axis, factors), points, carried)
        } else if let Some(factors) = self.paired_factors(scope, reduce) {
            self.sums_of_pairs(scope, reduce, (axis, factors), points, carried)
        } else {
            return Ok(None);
        };
        sums.map(Some)
    }

    /// Loops over axes, outermost first, with loop-carried values; the innermost is unrolled if it is short.
    pub(super) fn over(
        &self,
        scope: &Scope<'ctx>,
        axes: &[AxisId],
        carried: Vec<Value<'ctx>>,
        body: &mut Body<'_, 'ctx>,
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        self.nested(scope, axes, true, carried, body)
    }

    /// The same, where the innermost axis may be one that is not unrolled.
    fn nested(
        &self,
        scope: &Scope<'ctx>,
        axes: &[AxisId],
        unroll: bool,
        carried: Vec<Value<'ctx>>,
        body: &mut Body<'_, 'ctx>,
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        match axes {
            [] => body(scope, &carried),
            // Recurses once per reduced axis.
            [axis, inner @ ..] => self.along(
                scope,
                *axis,
                unroll && inner.is_empty(),
                &carried,
                |scope, carried| self.nested(scope, inner, unroll, carried.to_vec(), body),
            ),
        }
    }

    /// Accumulates one more value into each accumulator.
    pub(super) fn accumulate(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
        points: &[Coordinate],
        carried: &[Value<'ctx>],
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let emit = &self.emit;
        if reduce.reduction.is_arg() {
            return self.accumulate_arg(scope, reduce, points, carried);
        }
        // Lanes out of range add to sums that are never read, unless lanes are combined.
        let joined_lanes = scope
            .vectors
            .is_some_and(|vectors| reduce.axes.contains(&vectors.axis));
        let mut results = Vec::with_capacity(carried.len());
        for (&point, &accumulator) in points.iter().zip(carried) {
            let fused = self.multiply_add(scope, reduce, point, accumulator)?;
            let result = match fused {
                Some(result) => result,
                None => {
                    let value = self.value(scope, reduce.value, point, Form::Lanes)?;
                    let value = if lanes(accumulator) > 1 {
                        self.widened(scope, value)
                    } else {
                        value
                    };
                    let value =
                        self.cast(value, self.kernel.dtype(reduce.value), reduce.accumulator)?;
                    let joined =
                        self.join(reduce.reduction, reduce.accumulator, accumulator, value)?;
                    let joined = match reduce.accumulator {
                        DType::F64 if is_on(Fault::NarrowAccumulator) => {
                            emit.extend_float(emit.narrow_float(joined))
                        }
                        _ => joined,
                    };
                    if reduce.accumulator.is_float() {
                        emit.contracted(joined)
                    } else {
                        joined
                    }
                }
            };
            // Lanes out of range leave the accumulator unchanged.
            let mask = self.mask(scope, point).filter(|_| joined_lanes);
            results.push(match mask {
                Some(mask) if lanes(result) == lanes(mask) => {
                    emit.select(mask, result, accumulator)
                }
                _ => result,
            });
        }
        Ok(results)
    }

    /// A sum of float products by multiply-adds.
    fn multiply_add(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
        point: Coordinate,
        accumulator: Value<'ctx>,
    ) -> Result<Option<Value<'ctx>>, LlvmError> {
        let stage = self.kernel.stage(reduce.stage);
        let factors = match self.level().has_fma() {
            true => factors(self.kernel, &stage.operation, stage.value),
            false => None,
        };
        let Some((left, right)) = factors else {
            return Ok(None);
        };
        let left = self.value(scope, left, point, Form::Lanes)?;
        let right = self.value(scope, right, point, Form::Lanes)?;
        let widened = |value| {
            if lanes(accumulator) > 1 {
                self.widened(scope, value)
            } else {
                value
            }
        };
        Ok(Some(self.emit.fma(
            widened(left),
            widened(right),
            accumulator,
        )))
    }

    /// A conversion, for vectors and scalars alike.
    pub(super) fn cast(
        &self,
        value: Value<'ctx>,
        from: DType,
        to: DType,
    ) -> Result<Value<'ctx>, LlvmError> {
        if from == to {
            return Ok(value);
        }
        let outcome = scalar_ops::emit(&self.emit, ScalarOp::Cast(to), &[from], &[value])?;
        Ok(outcome.value)
    }
}
