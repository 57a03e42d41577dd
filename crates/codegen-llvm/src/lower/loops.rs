//! Loops over one axis, index by index, and code emitted in two versions.

use std::cell::RefCell;

use kiln_kernel::analysis::is_multiple;
use kiln_kernel::{AxisId, Extent};

use super::context::KernelLowering;
use super::reduce::Body;
use super::scope::{Coordinate, Form, Scope};
use crate::emit::Value;
use crate::error::LlvmError;

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// The number of points of an axis, as a scalar.
    ///
    /// The extents of axes may differ between rows only under a schedule without rows.
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

    /// The range of indices over which an axis is iterated: all of them, or a part.
    pub(super) fn indices_of(
        &self,
        scope: &Scope<'ctx>,
        axis: AxisId,
    ) -> Result<(Value<'ctx>, Value<'ctx>), LlvmError> {
        match scope.axis_range(axis) {
            Some(part) => Ok(part),
            None => Ok((self.emit.i64(0), self.extent(scope, axis)?)),
        }
    }

    /// Counts from `begin` to `end` by `step`, with loop-carried values.
    pub(super) fn counted(
        &self,
        begin: Value<'ctx>,
        end: Value<'ctx>,
        step: Value<'ctx>,
        initial: &[Value<'ctx>],
        body: impl FnOnce(Value<'ctx>, &[Value<'ctx>]) -> Result<Vec<Value<'ctx>>, LlvmError>,
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        self.counted_up_to(None, (begin, end, step), initial, body)
    }

    /// Counts from `begin` to `end` by `step`, with loop-carried values, in at most this many iterations if a bound is
    /// known.
    pub(super) fn counted_up_to(
        &self,
        most: Option<u64>,
        (begin, end, step): (Value<'ctx>, Value<'ctx>, Value<'ctx>),
        initial: &[Value<'ctx>],
        body: impl FnOnce(Value<'ctx>, &[Value<'ctx>]) -> Result<Vec<Value<'ctx>>, LlvmError>,
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let mut failed = None;
        let results = self
            .emit
            .for_range(begin, end, step, most, initial, |counter, carried| {
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

    /// Emits the body twice, for two scopes: the first if a condition holds. Returns the values of the version that runs.
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

    /// Emits the body twice: for a condition that holds, and for one that does not.
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

    /// Runs the body for every index of an axis, with loop-carried values; short constant axes are unrolled on request.
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
            && scope.axis_range(axis).is_none()
            && (extent == 1
                || (unroll
                    && extent * initial.len().max(1) as i64 <= i64::from(self.nest.loops.unroll)))
        {
            let mut carried = initial.to_vec();
            for index in 0..extent {
                carried = body(&scope.with_axis(axis, emit.i64(index)), &carried)?;
            }
            return Ok(carried);
        }
        let (begin, end) = self.indices_of(scope, axis)?;
        self.counted(begin, end, emit.i64(1), initial, |index, carried| {
            body(&scope.with_axis(axis, index), carried)
        })
    }

    /// Whether the points of an axis are always a multiple of a number.
    pub(super) fn is_multiple(&self, axis: AxisId, of: u32) -> bool {
        is_multiple(self.kernel, axis, of)
    }

    /// The largest multiple of a power of two that is at most a non-negative length.
    pub(super) fn multiple_below(&self, length: Value<'ctx>, of: u32) -> Value<'ctx> {
        let emit = &self.emit;
        if of.is_power_of_two() {
            return emit.and(length, emit.i64(-i64::from(of)));
        }
        let of = emit.i64(i64::from(of));
        emit.imul(emit.udiv(length, of), of)
    }
}
