//! Products of scaled bytes, four steps of the innermost reduced axis at once: integer sums, each scaled once.
//!
//! The sum of `x * (w - zero) * scale` is `(sum(x * w) - zero * sum(x)) * scale`: the first sum is one per point of the tile,
//! the second one per row, since all lanes share `x`.

use kiln_kernel::{AxisId, NodeId};
use kiln_schedule_cpu::{ByteStep, ScaledBytes, UnsignedByte};
use kiln_tensor::DType;

use super::adjacent_steps::Known;
use super::context::KernelLowering;
use super::fours::STEPS;
use super::reduce::Reduce;
use super::scope::{Coordinate, Form, Scope};
use crate::emit::{Elem, Value};
use crate::error::LlvmError;
use crate::scalar_ops::resize;

/// The maximum number of steps whose products are summed before the sum is scaled: their sum fits an i32.
const BLOCK: i64 = 4096;

/// A byte of one in each lane.
const ONES: i64 = 0x0101_0101;

/// A sum of products of scaled bytes along an axis.
#[derive(Clone, Copy)]
struct Sum<'s> {
    axis: AxisId,
    bytes: &'s ScaledBytes,
}

/// Four steps of the axis, and the bytes that are known at them.
struct FourSteps<'ctx> {
    steps: [Scope<'ctx>; 4],
    axis: AxisId,
    known: Known<'ctx>,
}

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// The bytes whose products are summed as integers, if vectors have instructions for it.
    pub(super) fn scaled_bytes(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
    ) -> Option<ScaledBytes> {
        let vectors = scope.vectors?;
        // Sums that all lanes share are scalars.
        let fits = self.loops_of(reduce.stage).scaled_fours
            && self.emit.sums_small_fours(vectors.lanes)
            && self.varies(scope, reduce.value);
        fits.then(|| ScaledBytes::of(self.kernel, self.dependence, reduce.stage))?
    }

    /// Sums products of scaled bytes along an axis.
    pub(super) fn scaled_sums(
        &self,
        scope: &Scope<'ctx>,
        (axis, bytes): (AxisId, &ScaledBytes),
        points: &[Coordinate],
        carried: &[Value<'ctx>],
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let emit = &self.emit;
        let sum = Sum { axis, bytes };
        let (zero, extent) = (emit.i64(0), self.extent(scope, axis)?);
        let points_of_axis = self.bound(axis).as_constant();
        if points_of_axis.is_some_and(|points| points <= BLOCK) {
            return self.scaled_block(scope, sum, (zero, extent), points, carried);
        }
        let step = emit.i64(BLOCK);
        self.counted(zero, extent, step, carried, |begin, carried| {
            let end = emit.smin(emit.iadd(begin, step), extent);
            self.scaled_block(scope, sum, (begin, end), points, carried)
        })
    }

    /// The same for a block of steps, a multiple of four.
    fn scaled_block(
        &self,
        scope: &Scope<'ctx>,
        sum: Sum<'_>,
        range: (Value<'ctx>, Value<'ctx>),
        points: &[Coordinate],
        carried: &[Value<'ctx>],
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let emit = &self.emit;
        let bytes = sum.bytes;
        // The rows whose own sums are needed.
        let mut rows: Vec<u32> = Vec::new();
        if bytes.offset.is_some() {
            rows.extend(points.iter().map(|point| point.row));
            rows.dedup();
        }
        let registers = self.level().n_vector_registers() as usize;
        let (sums, of_rows) = if 2 * (points.len() + rows.len()) <= registers {
            let mut sums = self.integer_sums(scope, sum, range, (points, &rows))?;
            let of_rows = sums.split_off(points.len());
            (sums, of_rows)
        } else {
            // Together they would not fit the registers.
            let of_rows = self.integer_sums(scope, sum, range, (&[], &rows))?;
            (
                self.integer_sums(scope, sum, range, (points, &[]))?,
                of_rows,
            )
        };
        let of_row = |row: u32| {
            let place = rows.iter().position(|&other| other == row);
            place.and_then(|place| of_rows.get(place)).copied()
        };
        let mut results = Vec::with_capacity(points.len());
        for ((&point, sum), &carried) in points.iter().zip(sums).zip(carried) {
            let factor = |node| {
                let factor = self.value(scope, node, point, Form::Lanes)?;
                Ok::<_, LlvmError>(self.widened(scope, factor))
            };
            let float = |sum| self.cast(sum, DType::I32, DType::F32);
            let mut value = float(sum)?;
            if let (Some(offset), Some(of_row)) = (bytes.offset, of_row(point.row)) {
                let (offset_by, of_row) = (factor(offset.value)?, float(of_row)?);
                value = match offset.is_subtracted {
                    true => emit.fnma(offset_by, of_row, value),
                    false => emit.fma(offset_by, of_row, value),
                };
            }
            let mut scale = None;
            for &node in &bytes.scales {
                let next = factor(node)?;
                scale = Some(match scale {
                    Some(scale) => emit.fmul(scale, next),
                    None => next,
                });
            }
            results.push(match scale {
                Some(scale) => emit.fma(value, scale, carried),
                None => emit.fadd(value, carried),
            });
        }
        Ok(results)
    }

    /// For each point, the sum of the products of bytes, and for each row, the sum of the signed bytes.
    fn integer_sums(
        &self,
        scope: &Scope<'ctx>,
        Sum { axis, bytes }: Sum<'_>,
        (begin, end): (Value<'ctx>, Value<'ctx>),
        (points, rows): (&[Coordinate], &[u32]),
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let emit = &self.emit;
        let n_lanes = scope.vectors.map_or(1, |vectors| vectors.lanes);
        let ones = emit.int_of(Elem::I32, n_lanes, ONES);
        // Before the loop: LLVM does not hoist loads.
        let masks = match points {
            [] => Vec::new(),
            _ => self.masks(scope, &bytes.unsigned)?,
        };
        let initial = vec![emit.int_of(Elem::I32, n_lanes, 0); points.len() + rows.len()];
        let step = emit.i64(i64::from(STEPS));
        self.counted(begin, end, step, &initial, |base, carried| {
            let step = |step| scope.with_axis(axis, emit.iadd(base, emit.i64(step)));
            let mut four = FourSteps {
                steps: [step(0), step(1), step(2), step(3)],
                axis,
                known: Known::new(),
            };
            let (sums, of_rows) = carried.split_at(points.len());
            let mut next = Vec::with_capacity(carried.len());
            for (&point, &sum) in points.iter().zip(sums) {
                let mut unsigned = self.known_bytes(&mut four, bytes.unsigned.load, point)?;
                for &(by, mask) in &masks {
                    let shifted = by.map_or(unsigned, |by| emit.lshr(unsigned, by));
                    unsigned = emit.and(shifted, mask);
                }
                let signed = self.known_bytes(&mut four, bytes.signed, point)?;
                next.push(emit.sum_small_fours(sum, unsigned, signed));
            }
            for (&row, &sum) in rows.iter().zip(of_rows) {
                let point = Coordinate { row, vector: 0 };
                let signed = self.known_bytes(&mut four, bytes.signed, point)?;
                next.push(emit.sum_small_fours(sum, ones, signed));
            }
            Ok(next)
        })
    }

    /// The bytes of an integer at four steps, which may be known from other points of the tile.
    fn known_bytes(
        &self,
        four: &mut FourSteps<'ctx>,
        node: NodeId,
        at: Coordinate,
    ) -> Result<Value<'ctx>, LlvmError> {
        let compute = || self.bytes_of(&four.steps, (node, four.axis), at);
        self.at_steps((&four.steps[0], &mut four.known), node, at, compute)
    }

    /// The steps of a byte, for four at once: shifts by the first value, if there is one, and masks by the second.
    fn masks(
        &self,
        scope: &Scope<'ctx>,
        byte: &UnsignedByte,
    ) -> Result<Vec<(Option<Value<'ctx>>, Value<'ctx>)>, LlvmError> {
        let emit = &self.emit;
        let mut masks: Vec<(Option<Value<'ctx>>, Value<'ctx>)> = Vec::new();
        for step in &byte.steps {
            match (*step, masks.last_mut()) {
                (ByteStep::Mask(mask), last) => {
                    let mask = emit.int_of(Elem::I32, 1, i64::from(mask) * ONES);
                    match last {
                        Some((_, before)) => *before = emit.and(*before, mask),
                        None => masks.push((None, mask)),
                    }
                }
                (ByteStep::Shift(by), _) => {
                    let by = self.value(scope, by, Coordinate::default(), Form::First)?;
                    // A shift by a negative number, or by all bits or more, leaves zero.
                    let by = emit.umin(by, emit.int(by, 31));
                    let by = resize(emit, by, false, Elem::I32);
                    // Bits of the next byte are shifted in.
                    let kept = emit.lshr(emit.int(by, 0xff), by);
                    masks.push((Some(by), emit.imul(kept, emit.int(kept, ONES))));
                }
            }
        }
        let n_lanes = scope.vectors.map_or(1, |vectors| vectors.lanes);
        let wide = |value| emit.splat(value, n_lanes);
        let masks = masks.into_iter();
        Ok(masks.map(|(by, mask)| (by.map(wide), wide(mask))).collect())
    }
}
