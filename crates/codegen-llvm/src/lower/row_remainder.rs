//! The rows of a unit of work: full register tiles, then the row remainder in smaller ones.

use inkwell::IntPredicate;
use kiln_kernel::AxisId;
use kiln_kernel::seeded::{Fault, is_on};
use kiln_schedule_cpu::least_rows;

use super::context::KernelLowering;
use super::scope::{Repeats, Rows, Scope};
use crate::emit::Value;
use crate::error::LlvmError;

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// The rows of a unit: a full tile, or the remainder in smaller ones.
    pub(super) fn rows(
        &self,
        scope: &Scope<'ctx>,
        row_tile: Option<Value<'ctx>>,
        column: Option<(AxisId, Value<'ctx>)>,
    ) -> Result<(), LlvmError> {
        let (emit, nest) = (&self.emit, &self.nest.loops);
        let (Some((axis, count)), Some(row_tile)) = (nest.tile.rows, row_tile) else {
            return self.columns(scope, column);
        };
        let (base, stop) = self.balanced(axis, count, row_tile);
        let least = nest.remainder.least;
        let tile = if nest.tile.spread {
            // The first axis counts the tiles; each of the other rows covers a separate part of the axis.
            Rows {
                spread: true,
                ..self.tile_rows(axis, count, row_tile, None)
            }
        } else {
            let repeats = (least < count).then(|| self.repeats(base, stop, least));
            Rows {
                block: repeats.is_none().then_some((row_tile, count)),
                ..self.tile_rows(axis, count, base, repeats)
            }
        };
        if self.is_multiple(axis, count) {
            return self.columns(&self.with_rows(scope, tile), column);
        }
        let end = emit.iadd(base, emit.i64(i64::from(least)));
        let (mut full, mut edge) = (Ok(()), Ok(()));
        emit.branch(
            emit.icmp(IntPredicate::SLE, end, stop),
            || {
                full = self.columns(&self.with_rows(scope, tile), column);
                Vec::new()
            },
            || {
                edge = self.remaining_rows(scope, axis, (base, stop), column);
                Vec::new()
            },
        );
        full.and(edge)
    }

    /// The row remainder, smaller than a tile.
    fn remaining_rows(
        &self,
        scope: &Scope<'ctx>,
        axis: AxisId,
        (mut begin, stop): (Value<'ctx>, Value<'ctx>),
        column: Option<(AxisId, Value<'ctx>)>,
    ) -> Result<(), LlvmError> {
        let (emit, nest) = (&self.emit, &self.nest.loops);
        // The remainder of a constant size is constant.
        let is_known = self.bound(axis).as_constant().is_some();
        let mut most = match nest.remainder.rows.as_slice() {
            &[left] if is_known => left,
            _ => nest.remainder.least.saturating_sub(1),
        };
        for (place, &count) in nest.remainder.rows.iter().enumerate() {
            let next = nest.remainder.rows.get(place + 1).copied();
            if is_on(Fault::SkippedRows) && next.is_none() {
                continue;
            }
            let least = match next {
                None if is_known => count,
                next => least_rows(count, next),
            };
            let left = emit.isub(stop, begin);
            let spare = emit.i64(i64::from(count - least));
            let middle = emit.iadd(begin, self.multiple_below(emit.iadd(left, spare), count));
            let tile = |base| {
                let repeats = (least < count).then(|| self.repeats(base, stop, least));
                let rows = self.tile_rows(axis, count, base, repeats);
                self.columns(&self.with_rows(scope, rows), column)
            };
            if most + count - least < 2 * count {
                let mut done = Ok(());
                let is_any = emit.icmp(IntPredicate::SLT, begin, middle);
                emit.when(is_any, || done = tile(begin));
                done?;
            } else {
                let step = emit.i64(i64::from(count));
                self.counted(begin, middle, step, &[], |base, _| {
                    tile(base)?;
                    Ok(Vec::new())
                })?;
            }
            begin = emit.smin(middle, stop);
            most = least - 1;
        }
        Ok(())
    }

    /// A tile of consecutive rows.
    fn tile_rows(
        &self,
        axis: AxisId,
        count: u32,
        base: Value<'ctx>,
        repeats: Option<Repeats<'ctx>>,
    ) -> Rows<'ctx> {
        Rows {
            axis,
            count,
            base,
            spread: false,
            offset: self.emit.i64(0),
            repeats,
            block: None,
        }
    }

    /// Repeats the last row in place of rows past the end; the first `from` rows are never past it.
    fn repeats(&self, base: Value<'ctx>, stop: Value<'ctx>, from: u32) -> Repeats<'ctx> {
        let emit = &self.emit;
        let beside = emit.i64(1 + i64::from(is_on(Fault::LostLastRow)));
        let last = emit.isub(emit.isub(stop, base), beside);
        Repeats { from, last }
    }

    /// The start of a tile of rows, and the latest end.
    ///
    /// A tile of a single row takes as long as one of four, because each sum depends on the previous addition. Seven
    /// rows are therefore faster as four and three than as six and one.
    fn balanced(
        &self,
        axis: AxisId,
        count: u32,
        row_tile: Value<'ctx>,
    ) -> (Value<'ctx>, Value<'ctx>) {
        let (emit, nest) = (&self.emit, &self.nest.loops);
        let number = |number: u32| emit.i64(i64::from(number));
        let size = self.quantity(&self.bound(axis));
        let base = emit.imul(row_tile, number(count));
        if nest.remainder.evened_below == 0 {
            return (base, size);
        }
        let whole = self.multiple_below(size, count);
        let left = emit.isub(size, whole);
        let is_few = emit.and(
            emit.icmp(IntPredicate::SGT, left, number(0)),
            emit.icmp(IntPredicate::SLT, left, number(nest.remainder.evened_below)),
        );
        let is_few = emit.and(is_few, emit.icmp(IntPredicate::SGT, whole, number(0)));
        // The last full tile ends early, where the remainder begins.
        let half = number((count + nest.remainder.evened_below - 1).div_ceil(2));
        let middle = emit.iadd(emit.isub(whole, number(count)), half);
        let is_last_full = emit.icmp(IntPredicate::EQ, emit.iadd(base, number(count)), whole);
        let is_left_over = emit.icmp(IntPredicate::EQ, base, whole);
        let begin = emit.select(emit.and(is_few, is_left_over), middle, base);
        let stop = emit.select(emit.and(is_few, is_last_full), middle, size);
        (begin, stop)
    }
}
