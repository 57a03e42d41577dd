//! Products of 8-bit integers, four steps of a reduced axis at once.
//!
//! The bytes of four steps are side by side in each lane; one instruction multiplies unsigned ones by signed ones and
//! adds the products to the lane's sum. If both factors have the same signedness, one is shifted by 128, and 128 times
//! the other is subtracted from or added to the sum. The sums have the same bits: wrapping additions can be reordered.

use kiln_kernel::{AxisId, NodeId};
use kiln_schedule_cpu::byte_factors;

use super::adjacent_steps::Known;
use super::context::KernelLowering;
use super::reduce::Reduce;
use super::scope::{Coordinate, Form, Scope};
use crate::emit::{Elem, Value, lanes};
use crate::error::LlvmError;

/// Steps per instruction.
pub(super) const STEPS: u32 = 4;

/// The sign bits of four bytes: 128 if they are unsigned, and -128 otherwise.
const SIGNS: i64 = 0x8080_8080;

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// The factors whose products are summed in fours, if vectors have an instruction for it.
    pub(super) fn factors_in_fours(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
    ) -> Option<(NodeId, NodeId)> {
        let vectors = scope.vectors?;
        // Sums that all lanes share are scalars.
        let fits = self.loops_of(reduce.stage).fours
            && self.emit.sums_fours(vectors.lanes)
            && self.varies(scope, reduce.value);
        let stage = self.kernel.stage(reduce.stage);
        let factors = || byte_factors(self.kernel, &stage.operation, stage.value);
        fits.then(factors)?
    }

    /// Sums products along an axis, four steps at a time.
    pub(super) fn sums_of_fours(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
        (axis, factors): (AxisId, (NodeId, NodeId)),
        points: &[Coordinate],
        carried: &[Value<'ctx>],
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let emit = &self.emit;
        self.in_groups_of_steps(
            scope,
            reduce,
            (axis, STEPS),
            (points, carried),
            |base, carried| {
                let step = |step| scope.with_axis(axis, emit.iadd(base, emit.i64(step)));
                let steps = [step(0), step(1), step(2), step(3)];
                let mut known = Known::new();
                let mut sums = Vec::with_capacity(carried.len());
                for (&point, &sum) in points.iter().zip(carried) {
                    let given = (&steps, &mut known);
                    sums.push(self.four_more(given, (axis, factors), point, sum)?);
                }
                Ok(sums)
            },
        )
    }

    /// A sum and the products of four steps, of bytes that may be known from other points of the tile.
    fn four_more(
        &self,
        (steps, known): (&[Scope<'ctx>; 4], &mut Known<'ctx>),
        (axis, (left, right)): (AxisId, (NodeId, NodeId)),
        at: Coordinate,
        sum: Value<'ctx>,
    ) -> Result<Value<'ctx>, LlvmError> {
        let emit = &self.emit;
        let [scope, ..] = steps;
        let mut bytes = |node| {
            let compute = || self.bytes_of(steps, (node, axis), at);
            self.at_steps((scope, known), node, at, compute)
        };
        let is_signed = |node| self.kernel.dtype(node).is_signed();
        let (left_bytes, right_bytes) = (bytes(left)?, bytes(right)?);
        match (is_signed(left), is_signed(right)) {
            (false, true) => return Ok(emit.sum_fours(sum, left_bytes, right_bytes)),
            (true, false) => return Ok(emit.sum_fours(sum, right_bytes, left_bytes)),
            _ => {}
        }
        // The factor that all lanes share is shifted: the correction then serves all rows.
        let (moved, other) = match self.varies(scope, left) {
            true => (right_bytes, left_bytes),
            false => (left_bytes, right_bytes),
        };
        let signs = emit.int_of(Elem::I32, lanes(sum), SIGNS);
        let none = emit.int_of(Elem::I32, lanes(sum), 0);
        let moved = emit.xor(moved, signs);
        let (sum, excess) = match is_signed(left) {
            true => (
                emit.sum_fours(sum, moved, other),
                emit.sum_fours(none, signs, other),
            ),
            false => (
                emit.sum_fours(sum, other, moved),
                emit.sum_fours(none, other, signs),
            ),
        };
        Ok(emit.isub(sum, excess))
    }

    /// The bytes of an integer at four steps of an axis, side by side in lanes of 32 bits.
    pub(super) fn bytes_of(
        &self,
        steps: &[Scope<'ctx>; 4],
        (node, axis): (NodeId, AxisId),
        at: Coordinate,
    ) -> Result<Value<'ctx>, LlvmError> {
        let emit = &self.emit;
        let [scope, ..] = steps;
        if let Some(four) = self.adjacent_elements(scope, (node, axis), at, STEPS)? {
            return Ok(self.widened(scope, emit.regrouped(four, Elem::I32)));
        }
        if let Some(four) = self.packed_group(scope, (node, axis), at, STEPS)? {
            return Ok(four);
        }
        let mut parts = Vec::new();
        for step in steps {
            parts.push(self.value(step, node, at, Form::Lanes)?);
        }
        if parts.iter().all(|&part| lanes(part) == 1) {
            let mut four = emit.int_of(Elem::I32, 1, 0);
            for (place, &part) in parts.iter().enumerate() {
                let byte = emit.zext(part, Elem::I32);
                let place = emit.int_of(Elem::I32, 1, 8 * place as i64);
                four = emit.or(four, emit.shl(byte, place));
            }
            return Ok(self.widened(scope, four));
        }
        let parts: Vec<_> = parts
            .into_iter()
            .map(|part| self.widened(scope, part))
            .collect();
        let [first, second, third, fourth] = *parts.as_slice() else {
            unreachable!("there are four steps")
        };
        let n_lanes = lanes(first);
        let in_order: Vec<u32> = (0..2 * n_lanes).collect();
        let low = emit.shuffle(first, second, &in_order);
        let high = emit.shuffle(third, fourth, &in_order);
        let picks: Vec<u32> = (0..n_lanes)
            .flat_map(|lane| (0..STEPS).map(move |step| step * n_lanes + lane))
            .collect();
        Ok(emit.regrouped(emit.shuffle(low, high, &picks), Elem::I32))
    }
}
