//! Arg-reductions: the index of the best value.
//!
//! The best value so far and its index are carried, starting with the worst value and no index (-1); if no element is
//! better than that, or there are none, the result is 0. With vectors along the reduced axis, each lane has its own
//! best value; of two, the one with the later index wins if it would have replaced the earlier one.

use kiln_kernel::seeded::{Fault, is_on};
use kiln_kernel::{AxisId, Reduction};
use kiln_scalar::ScalarOp;
use kiln_schedule_cpu::{Tail, Tile};
use kiln_tensor::DType;

use inkwell::{FloatPredicate, IntPredicate};

use super::context::KernelLowering;
use super::reduce::Reduce;
use super::scope::{Coordinate, Form, Remainder, Scope, Vectors};
use crate::emit::{Value, lanes};
use crate::error::LlvmError;
use crate::scalar_ops;

/// A value and its index.
type Best<'ctx> = (Value<'ctx>, Value<'ctx>);

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// The value and the index before the first element.
    pub(super) fn none_yet(&self, reduce: &Reduce<'_>) -> Best<'ctx> {
        let dtype = self.kernel.dtype(reduce.value);
        let extreme = match reduce.reduction {
            Reduction::ArgMin { .. } => Reduction::Min,
            _ => Reduction::Max,
        };
        let worst = self.identity(extreme, dtype);
        (worst, self.emit.i64(-1))
    }

    /// The result for a carried index.
    pub(super) fn found(&self, index: Value<'ctx>) -> Value<'ctx> {
        self.emit.smax(index, self.emit.int(index, 0))
    }

    /// Reduces at each of the given points with vectors along the reduced axis.
    pub(super) fn arg_in_vectors(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
        axis: AxisId,
        tile: &Tile,
        points: &[Coordinate],
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let emit = &self.emit;
        let (first, extent) = self.indices_of(scope, axis)?;
        let in_vectors = |base, count, left| {
            let lanes = tile.lanes;
            scope.with_vectors(Vectors {
                axis,
                lanes,
                count,
                base,
                left,
                block: None,
            })
        };
        // Several vectors, to hide the latency of comparisons.
        let at = |row, vectors| (0..vectors).map(move |vector| Coordinate { row, vector });
        let all: Vec<Coordinate> = points
            .iter()
            .flat_map(|point| at(point.row, tile.vectors))
            .collect();
        let firsts: Vec<Coordinate> = points.iter().flat_map(|point| at(point.row, 1)).collect();
        let (value, index) = self.none_yet(reduce);
        let mut initial = vec![emit.splat(value, tile.lanes); all.len()];
        initial.extend(vec![emit.splat(index, tile.lanes); all.len()]);
        let set = tile.lanes * tile.vectors;
        let whole = self.multiple_below(emit.isub(extent, first), set);
        let whole = emit.iadd(first, whole);
        let range = (first, whole, emit.i64(i64::from(set)));
        let sets = self.counted_up_to(None, range, &initial, |base, carried| {
            let inner = in_vectors(base, tile.vectors, None);
            self.accumulate_arg(&inner, reduce, &all, carried)
        })?;
        let bests = self.best_vectors(reduce, &sets, tile.vectors)?;
        // With masks one body serves full and partial vectors.
        let is_masked = tile.tail == Tail::Masked;
        let rest = self.multiple_below(emit.isub(extent, whole), tile.lanes);
        let until = if is_masked {
            extent
        } else {
            emit.iadd(whole, rest)
        };
        let range = (whole, until, emit.i64(i64::from(tile.lanes)));
        let most = Some(u64::from(tile.vectors));
        let singles = self.counted_up_to(most, range, &flat(&bests), |base, carried| {
            let left = is_masked.then(|| Remainder {
                elements: emit.isub(extent, base),
                full: 0,
            });
            let inner = in_vectors(base, 1, left);
            self.accumulate_arg(&inner, reduce, &firsts, carried)
        })?;
        let (values, indices) = singles.split_at(points.len());
        let mut bests = Vec::with_capacity(points.len());
        for (&value, &index) in values.iter().zip(indices) {
            bests.push(self.best_lane(reduce, (value, index))?);
        }
        let mut carried = flat(&bests);
        if !is_masked {
            let range = (until, extent, emit.i64(1));
            let most = Some(u64::from(tile.lanes));
            carried = self.counted_up_to(most, range, &carried, |index, carried| {
                let inner = scope.with_axis(axis, index);
                self.accumulate_arg(&inner, reduce, points, carried)
            })?;
        }
        let indices = carried.into_iter().skip(points.len());
        Ok(indices.map(|index| self.found(index)).collect())
    }

    /// The best of each point's vectors, of values and then indices.
    fn best_vectors(
        &self,
        reduce: &Reduce<'_>,
        carried: &[Value<'ctx>],
        per_point: u32,
    ) -> Result<Vec<Best<'ctx>>, LlvmError> {
        let (values, indices) = carried.split_at(carried.len() / 2);
        let per_point = per_point as usize;
        let mut bests = Vec::new();
        for (values, indices) in values.chunks(per_point).zip(indices.chunks(per_point)) {
            let mut vectors = values.iter().copied().zip(indices.iter().copied());
            let Some(mut best) = vectors.next() else {
                unreachable!("a tile has at least one vector")
            };
            for other in vectors {
                best = self.better(reduce, best, other)?;
            }
            bests.push(best);
        }
        Ok(bests)
    }

    /// The best of a vector's lanes.
    fn best_lane(&self, reduce: &Reduce<'_>, best: Best<'ctx>) -> Result<Best<'ctx>, LlvmError> {
        let emit = &self.emit;
        let part = |vector: Value<'ctx>, from: u32, count: u32| match count {
            1 => emit.extract(vector, from),
            _ => emit.shuffle(vector, vector, &(from..from + count).collect::<Vec<u32>>()),
        };
        let (mut value, mut index) = best;
        while lanes(value) > 1 {
            let half = lanes(value) / 2;
            let halves = [0, half].map(|from| (part(value, from, half), part(index, from, half)));
            let [low, high] = halves;
            (value, index) = self.better(reduce, low, high)?;
        }
        Ok((value, index))
    }

    /// The better of two partial results, lane by lane.
    fn better(
        &self,
        reduce: &Reduce<'_>,
        a: Best<'ctx>,
        b: Best<'ctx>,
    ) -> Result<Best<'ctx>, LlvmError> {
        let emit = &self.emit;
        let in_order = emit.icmp(IntPredicate::SLT, a.1, b.1);
        let pick = |holds, a: Best<'ctx>, b: Best<'ctx>| {
            (emit.select(holds, a.0, b.0), emit.select(holds, a.1, b.1))
        };
        let (earlier, later) = (pick(in_order, a, b), pick(in_order, b, a));
        let dtype = self.kernel.dtype(reduce.value);
        let replaces = self.is_better(reduce.reduction, dtype, later.0, earlier.0)?;
        Ok(pick(replaces, later, earlier))
    }

    /// Compares one more value with the best at each point.
    pub(super) fn accumulate_arg(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
        points: &[Coordinate],
        carried: &[Value<'ctx>],
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let emit = &self.emit;
        let &[axis] = reduce.axes else {
            unreachable!("the verifier accepts arg-reductions over one axis")
        };
        let is_along = scope.vectors.is_some_and(|vectors| vectors.axis == axis);
        let dtype = self.kernel.dtype(reduce.value);
        let (values, indices) = carried.split_at(points.len());
        let (mut best_values, mut best_indices) = (Vec::new(), Vec::new());
        for ((&point, &best), &index) in points.iter().zip(values).zip(indices) {
            let value = self.value(scope, reduce.value, point, Form::Lanes)?;
            let here = self.axis_value(scope, axis, point, Form::Lanes);
            let (value, here) = match lanes(index) {
                1 => (value, here),
                _ => (self.widened(scope, value), self.widened(scope, here)),
            };
            let mut take = self.is_better(reduce.reduction, dtype, value, best)?;
            if is_along && let Some(mask) = self.mask(scope, point) {
                take = emit.and(take, mask);
            }
            best_values.push(emit.select(take, value, best));
            best_indices.push(emit.select(take, here, index));
        }
        best_values.extend(best_indices);
        Ok(best_values)
    }

    /// Whether a value replaces the best one so far in an arg-reduction.
    pub(super) fn is_better(
        &self,
        reduction: Reduction,
        dtype: DType,
        value: Value<'ctx>,
        best: Value<'ctx>,
    ) -> Result<Value<'ctx>, LlvmError> {
        let emit = &self.emit;
        let (larger, last) = match reduction {
            Reduction::ArgMax { last } => (true, last),
            Reduction::ArgMin { last } => (false, last),
            _ => unreachable!("only arg-reductions have a best value"),
        };
        let last = last != is_on(Fault::WrongArgTie);
        if dtype.is_float() {
            // 16-bit floats are compared as the floats they encode.
            let widened = |value| {
                if dtype == DType::F32 || dtype == DType::F64 {
                    return Ok(value);
                }
                let cast = ScalarOp::Cast(DType::F32);
                scalar_ops::emit(emit, cast, &[dtype], &[value]).map(|outcome| outcome.value)
            };
            let (value, best) = (widened(value)?, widened(best)?);
            let predicate = match (larger, last) {
                (true, false) => FloatPredicate::OGT,
                (true, true) => FloatPredicate::OGE,
                (false, false) => FloatPredicate::OLT,
                (false, true) => FloatPredicate::OLE,
            };
            let beyond = emit.fcmp(predicate, value, best);
            let (value_nan, best_nan) = (emit.is_nan(value), emit.is_nan(best));
            let first_nan = if last {
                value_nan
            } else {
                emit.and(value_nan, emit.not(best_nan))
            };
            return Ok(emit.or(beyond, first_nan));
        }
        let signed = dtype.is_signed() && dtype != DType::Bool;
        let predicate = match (larger, last, signed) {
            (true, false, true) => IntPredicate::SGT,
            (true, true, true) => IntPredicate::SGE,
            (false, false, true) => IntPredicate::SLT,
            (false, true, true) => IntPredicate::SLE,
            (true, false, false) => IntPredicate::UGT,
            (true, true, false) => IntPredicate::UGE,
            (false, false, false) => IntPredicate::ULT,
            (false, true, false) => IntPredicate::ULE,
        };
        Ok(emit.icmp(predicate, value, best))
    }
}

/// The values, then the indices.
fn flat<'ctx>(bests: &[Best<'ctx>]) -> Vec<Value<'ctx>> {
    let values = bests.iter().map(|best| best.0);
    values.chain(bests.iter().map(|best| best.1)).collect()
}
