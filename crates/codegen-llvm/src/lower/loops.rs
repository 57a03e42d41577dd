//! Loops over axes: plain ones, and those in vectors with what is left over.

use std::cell::RefCell;

use inkwell::IntPredicate;
use kiln_kernel::seeded::{Fault, is_on};
use kiln_kernel::{AxisId, Extent};
use kiln_symbolic_shape::Predicate;

use super::context::Lowering;
use super::reduce::Body;
use super::scope::{Coordinate, Form, Scope, Vectors};
use super::tile::{Tail, Tile};
use crate::emit::{Elem, Value};
use crate::error::LlvmError;

/// The innermost axis of a reduction is unrolled if its points times the accumulators are up to this. With more of them
/// the loads of all points are moved together, and accumulators go to the stack for it.
const UNROLL_LIMIT: i64 = 20;

impl<'ctx> Lowering<'_, '_, 'ctx> {
    /// The number of points of an axis, as a scalar.
    ///
    /// The extents of axes may differ between rows only where a schedule without rows is used.
    pub(super) fn extent(
        &self,
        scope: &Scope<'ctx>,
        axis: AxisId,
    ) -> Result<Value<'ctx>, LlvmError> {
        let emit = &self.emit;
        match self.kernel.axis(axis).extent {
            Extent::Size(size) => Ok(self.dim(size)),
            Extent::Clamped { value, bound } => {
                let value = self.value(scope, value, Coordinate::default(), Form::First)?;
                Ok(emit.smin(emit.smax(value, emit.i64(0)), self.dim(bound)))
            }
        }
    }

    /// Counts from `begin` to `end` by `step`, carrying values.
    pub(super) fn counted(
        &self,
        begin: Value<'ctx>,
        end: Value<'ctx>,
        step: Value<'ctx>,
        initial: &[Value<'ctx>],
        body: impl FnOnce(Value<'ctx>, &[Value<'ctx>]) -> Result<Vec<Value<'ctx>>, LlvmError>,
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let mut failed = None;
        let results = self
            .emit
            .for_range(begin, end, step, initial, |counter, carried| {
                body(counter, carried).unwrap_or_else(|error| {
                    failed = Some(error);
                    carried.to_vec()
                })
            });
        match failed {
            Some(error) => Err(error),
            None => Ok(results),
        }
    }

    /// The body twice, for two scopes: the first where a condition holds. With what either gives.
    pub(super) fn in_either(
        &self,
        condition: Value<'ctx>,
        (first, second): (&Scope<'ctx>, &Scope<'ctx>),
        body: &mut Body<'_, 'ctx>,
        carried: &[Value<'ctx>],
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let body = RefCell::new(body);
        let failed = RefCell::new(None);
        let run = |scope: &Scope<'ctx>| {
            let result = body.borrow_mut()(scope, carried);
            result.unwrap_or_else(|error| {
                failed.replace(Some(error));
                carried.to_vec()
            })
        };
        let results = self.emit.branch(condition, || run(first), || run(second));
        match failed.into_inner() {
            Some(error) => Err(error),
            None => Ok(results),
        }
    }

    /// The body twice: where a condition holds, and where not.
    pub(super) fn either(
        &self,
        condition: Value<'ctx>,
        body: &mut dyn FnMut(bool) -> Result<(), LlvmError>,
    ) -> Result<(), LlvmError> {
        let body = RefCell::new(body);
        let failed = RefCell::new(None);
        let run = |holds: bool| {
            if let Err(error) = body.borrow_mut()(holds) {
                failed.replace(Some(error));
            }
            Vec::new()
        };
        self.emit.branch(condition, || run(true), || run(false));
        failed.into_inner().map_or(Ok(()), Err)
    }

    /// Runs the body for every index of an axis, carrying values; short constant axes are unrolled if asked for.
    pub(super) fn along(
        &self,
        scope: &Scope<'ctx>,
        axis: AxisId,
        unroll: bool,
        initial: &[Value<'ctx>],
        mut body: impl FnMut(&Scope<'ctx>, &[Value<'ctx>]) -> Result<Vec<Value<'ctx>>, LlvmError>,
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let emit = &self.emit;
        if let Some(extent) = self.bound(axis).as_constant()
            && matches!(self.kernel.axis(axis).extent, Extent::Size(_))
            && (extent == 1 || (unroll && extent * initial.len().max(1) as i64 <= UNROLL_LIMIT))
        {
            let mut carried = initial.to_vec();
            for index in 0..extent {
                carried = body(&scope.with_axis(axis, emit.i64(index)), &carried)?;
            }
            return Ok(carried);
        }
        let extent = self.extent(scope, axis)?;
        self.counted(
            emit.i64(0),
            extent,
            emit.i64(1),
            initial,
            |index, carried| body(&scope.with_axis(axis, index), carried),
        )
    }

    /// Runs the body for the indices `begin..end` of an axis in vectors of a tile: full sets of vectors, single
    /// vectors, and what is left. `begin` is a multiple of the lanes. `values(vectors, carried)` adapts what is
    /// carried to another number of vectors before each of the three parts.
    pub(super) fn in_vectors(
        &self,
        scope: &Scope<'ctx>,
        axis: AxisId,
        tile: &Tile,
        (begin, end): (Value<'ctx>, Value<'ctx>),
        block: Option<u32>,
        body: &mut dyn FnMut(&Scope<'ctx>) -> Result<(), LlvmError>,
    ) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let set = tile.lanes * tile.vectors;
        let vectors = |base: Value<'ctx>, count: u32, left: Option<Value<'ctx>>| Vectors {
            axis,
            lanes: tile.lanes,
            count,
            base,
            left,
            block: block
                .filter(|&block| count * tile.lanes == block)
                .map(|block| (emit.udiv(base, emit.i64(i64::from(block))), block)),
        };
        let mut begin = begin;
        let length = emit.isub(end, begin);
        // Where the axis is known to be full sets of vectors nothing is left over, and no code is made for it.
        let is_full = self.is_multiple(axis, set);
        let is_whole = self.is_multiple(axis, tile.lanes);
        if tile.vectors > 1 || is_full {
            let whole = self.multiple_below(length, set);
            let middle = emit.iadd(begin, whole);
            self.counted(begin, middle, emit.i64(i64::from(set)), &[], |base, _| {
                body(&scope.with_vectors(vectors(base, tile.vectors, None)))?;
                Ok(Vec::new())
            })?;
            begin = middle;
        }
        if is_full {
            return Ok(());
        }
        if tile.tail == Tail::Masked && !is_whole {
            if scope.rows.is_none_or(|rows| rows.count == 1) {
                // At most one vector with a mask: its stores take longer than most of what is computed here.
                let whole = self.multiple_below(emit.isub(end, begin), tile.lanes);
                let middle = emit.iadd(begin, whole);
                let step = emit.i64(i64::from(tile.lanes));
                self.counted(begin, middle, step, &[], |base, _| {
                    body(&scope.with_vectors(vectors(base, 1, None)))?;
                    Ok(Vec::new())
                })?;
                self.counted(middle, end, step, &[], |base, _| {
                    let left = emit.isub(end, base);
                    body(&scope.with_vectors(vectors(base, 1, Some(left))))?;
                    Ok(Vec::new())
                })?;
                return Ok(());
            }
            // One body for what fills a vector and for what does not.
            let mut part = |begin: Value<'ctx>, count: u32| {
                let step = emit.i64(i64::from(tile.lanes * count));
                self.counted(begin, end, step, &[], |base, _| {
                    let left = emit.isub(end, base);
                    body(&scope.with_vectors(vectors(base, count, Some(left))))?;
                    Ok(Vec::new())
                })
            };
            if tile.vectors == 1 {
                part(begin, 1)?;
                return Ok(());
            }
            // At an edge of the rows there is little to save, and each number of vectors is code to compile.
            let full_rows = tile.rows.map_or(1, |(_, count)| count);
            let is_edge = scope.rows.is_some_and(|rows| rows.count < full_rows);
            if is_edge && !self.level().has_slow_masked_stores() {
                part(begin, tile.vectors)?;
                return Ok(());
            }
            // What shares its operands with other rows is done in one set if it takes that many vectors.
            let most = emit.i64(i64::from(tile.lanes * (tile.vectors - 1)));
            let is_set = emit.icmp(IntPredicate::SGT, emit.isub(end, begin), most);
            let singles = emit.select(is_set, end, begin);
            let sets = emit.select(is_set, begin, end);
            part(sets, tile.vectors)?;
            part(singles, 1)?;
            return Ok(());
        }
        let rest = emit.isub(end, begin);
        let whole = self.multiple_below(rest, tile.lanes);
        let middle = emit.iadd(begin, whole);
        self.counted(
            begin,
            middle,
            emit.i64(i64::from(tile.lanes)),
            &[],
            |base, _| {
                body(&scope.with_vectors(vectors(base, 1, None)))?;
                Ok(Vec::new())
            },
        )?;
        if is_whole {
            return Ok(());
        }
        let left = emit.iadd(middle, emit.i64(i64::from(is_on(Fault::TailOffByOne))));
        self.counted(left, end, emit.i64(1), &[], |index, _| {
            body(&scope.with_axis(axis, index))?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// Whether an axis always has a multiple of so many points.
    pub(super) fn is_multiple(&self, axis: AxisId, of: u32) -> bool {
        let Extent::Size(dim) = self.kernel.axis(axis).extent else {
            return false;
        };
        let divisor = i64::from(of);
        self.kernel
            .dims()
            .prove(&Predicate::Divides { divisor, dim })
            .is_proved()
    }

    /// The largest multiple of a power of two that is not above a length, which is not negative.
    pub(super) fn multiple_below(&self, length: Value<'ctx>, of: u32) -> Value<'ctx> {
        let emit = &self.emit;
        if of.is_power_of_two() {
            return emit.and(length, emit.i64(-i64::from(of)));
        }
        let of = emit.i64(i64::from(of));
        emit.imul(emit.udiv(length, of), of)
    }

    /// Which lanes of a vector of the tile are in range, if not all of them are.
    pub(super) fn mask(&self, scope: &Scope<'ctx>, at: Coordinate) -> Option<Value<'ctx>> {
        let count = self.lanes_left(scope, at)?;
        Some(self.mask_below(count, scope.vectors?.lanes))
    }

    /// How many lanes of a vector of the tile are in range, if that may be less than all: 0 or more, and more than all for
    /// all.
    pub(super) fn lanes_left(&self, scope: &Scope<'ctx>, at: Coordinate) -> Option<Value<'ctx>> {
        let emit = &self.emit;
        let vectors = scope.vectors?;
        let left = vectors.left?;
        let before = i64::from(at.vector) * i64::from(vectors.lanes);
        Some(match before {
            0 => left,
            _ => emit.smax(emit.isub(left, emit.i64(before)), emit.i64(0)),
        })
    }

    /// Which lanes are below a count, which is not negative.
    pub(super) fn mask_below(&self, count: Value<'ctx>, lanes: u32) -> Value<'ctx> {
        let emit = &self.emit;
        // More than a vector has is all of them; capped, so that the count fits what it is compared in.
        let count = emit.smin(count, emit.i64(i64::from(lanes)));
        let count = emit.iadd(count, emit.i64(i64::from(is_on(Fault::WideMask))));
        let count = emit.trunc_int(count, Elem::I32);
        let numbers = emit.lane_numbers(Elem::I32, lanes);
        emit.icmp(IntPredicate::ULT, numbers, emit.splat(count, lanes))
    }
}
