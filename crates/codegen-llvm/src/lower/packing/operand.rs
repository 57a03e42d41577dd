//! Packing one operand: contiguous runs, register-tile transposes, and partial blocks.

use kiln_backend::{PackAxis, PackSpec, Quantity};
use kiln_kernel::seeded::{Fault, is_on};
use kiln_schedule_cpu::{PackedCopy, ScheduledNest, packed_points, packed_strides};
use kiln_tensor::DType;

use super::super::context::KernelLowering;
use crate::emit::Value;
use crate::error::LlvmError;

/// Blocks that a unit packs side by side: the number of concurrent streams that memory handles well.
const BLOCKS: i64 = 4;

/// An operand being packed.
pub(super) struct PackedOperand<'ctx> {
    dtype: DType,
    source: Value<'ctx>,
    target: Value<'ctx>,
    /// Outermost first; the last axis is the run, and the one before it is looped over.
    axes: Vec<Axis>,
    /// Lanes of the vectors that copy it: whole vectors make up a block.
    lanes: u32,
}

/// An axis of the packed array.
#[derive(Clone)]
struct Axis {
    points: Quantity,
    /// The stride in the operand.
    from: Quantity,
    /// The stride in the packed copy.
    to: Quantity,
    /// Of a blocked axis: its block, and the size of the operand's axis.
    block: Option<(i64, Quantity)>,
}

impl Axis {
    fn pieces(&self) -> Quantity {
        match self.block {
            Some(_) => self.points.clone().ceil_div(Quantity::constant(BLOCKS)),
            None => self.points.clone(),
        }
    }

    fn is_dense(&self) -> bool {
        self.from.as_constant() == Some(1)
    }
}

impl<'ctx> PackedOperand<'ctx> {
    pub(super) fn of(
        lowering: &KernelLowering<'_, '_, 'ctx>,
        nest: &ScheduledNest,
        copy: &PackedCopy,
    ) -> Self {
        let kernel = lowering.kernel;
        let buffer = copy.buffer();
        let dtype = kernel.buffer(buffer).dtype;
        let late = dtype.size_in_bytes() * usize::from(is_on(Fault::MisplacedCopy));
        let offset = copy.offset.clone() + Quantity::constant(late as i64);
        let (strides, _) = packed_strides(kernel, &copy.spec);
        let axes = copy.spec.axes.iter().zip(strides).map(|(&axis, to)| {
            let points = packed_points(kernel, buffer, axis);
            let (of, step, block) = match axis {
                PackAxis::Outer { axis, block } => {
                    let size = packed_points(kernel, buffer, PackAxis::Whole(axis));
                    (axis, block as i64, Some((block as i64, size)))
                }
                PackAxis::Whole(axis) | PackAxis::Inner { axis, .. } => (axis, 1, None),
            };
            Axis {
                points,
                from: lowering.layout.stride(buffer, of) * Quantity::constant(step),
                to,
                block,
            }
        });
        Self {
            dtype,
            source: lowering.base(buffer),
            target: lowering.shared(&offset),
            axes: axes.collect(),
            lanes: lanes_of(nest.loops.tile.lanes, &copy.spec),
        }
    }

    /// The axes that units cover, the looped one, and the run.
    fn axis_roles(&self) -> (&[Axis], &Axis, &Axis) {
        match self.axes.as_slice() {
            [units @ .., along, run] => (units, along, run),
            _ => unreachable!("what is laid out anew has two axes or more"),
        }
    }

    pub(super) fn units(&self) -> Quantity {
        let (units, ..) = self.axis_roles();
        units.iter().fold(Quantity::constant(1), |product, axis| {
            product * axis.pieces()
        })
    }

    /// Elements per unit.
    pub(super) fn per_unit(&self) -> Quantity {
        let (units, along, run) = self.axis_roles();
        let blocks = if units.iter().any(|axis| axis.block.is_some()) {
            BLOCKS
        } else {
            1
        };
        along.points.clone() * run.points.clone() * Quantity::constant(blocks)
    }

    pub(super) fn unit(
        &self,
        lowering: &KernelLowering<'_, '_, 'ctx>,
        unit: Value<'ctx>,
    ) -> Result<(), LlvmError> {
        let emit = &lowering.emit;
        let (units, along, run) = self.axis_roles();
        let mut rest = unit;
        let (mut source, mut target) = (self.source, self.target);
        let mut blocks = None;
        for axis in units {
            let pieces = lowering.quantity(&axis.pieces());
            let index = emit.urem(rest, pieces);
            rest = emit.udiv(rest, pieces);
            match &axis.block {
                Some((block, size)) => blocks = Some((axis, *block, size, index)),
                None => (source, target) = self.step(lowering, (source, target), axis, index),
            }
        }
        let Some((axis, block, size, group)) = blocks else {
            return self.along(lowering, along, (source, target), &mut |at| {
                self.run(lowering, run, at, lowering.quantity(&run.points))
            });
        };
        let begin = emit.imul(group, emit.i64(BLOCKS));
        let end = emit.smin(
            emit.iadd(begin, emit.i64(BLOCKS)),
            lowering.quantity(&axis.points),
        );
        let size = lowering.quantity(size);
        let full = emit.smin(end, emit.udiv(size, emit.i64(block)));
        let transposes = along.is_dense() && !run.is_dense();
        if transposes {
            lowering.counted(begin, full, emit.i64(1), &[], |index, _| {
                let at = self.step(lowering, (source, target), axis, index);
                let squares = 0..block / i64::from(self.lanes);
                self.transposed(lowering, (along, run), at, emit.i64(block), |square| {
                    squares
                        .clone()
                        .try_for_each(|number| square(emit.i64(number * i64::from(self.lanes))))
                })?;
                Ok(Vec::new())
            })?;
        } else {
            self.along(lowering, along, (source, target), &mut |at| {
                lowering.counted(begin, full, emit.i64(1), &[], |index, _| {
                    let at = self.step(lowering, at, axis, index);
                    self.run(lowering, run, at, emit.i64(block))?;
                    Ok(Vec::new())
                })?;
                Ok(())
            })?;
        }
        // A partial block, the last one.
        let begin = emit.smax(begin, full);
        lowering.counted(begin, end, emit.i64(1), &[], |index, _| {
            let at = self.step(lowering, (source, target), axis, index);
            let inside = emit.isub(size, emit.imul(index, emit.i64(block)));
            let mut from = emit.i64(0);
            if transposes {
                from = lowering.multiple_below(inside, self.lanes);
                let lanes = emit.i64(i64::from(self.lanes));
                self.transposed(lowering, (along, run), at, from, |square| {
                    lowering.counted(emit.i64(0), from, lanes, &[], |first, _| {
                        square(first)?;
                        Ok(Vec::new())
                    })?;
                    Ok(())
                })?;
            }
            self.along(lowering, along, at, &mut |at| {
                self.partly(lowering, run, at, (from, inside, block))
            })?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// The addresses this many points further along an axis.
    fn step(
        &self,
        lowering: &KernelLowering<'_, '_, 'ctx>,
        (source, target): (Value<'ctx>, Value<'ctx>),
        axis: &Axis,
        index: Value<'ctx>,
    ) -> (Value<'ctx>, Value<'ctx>) {
        let emit = &lowering.emit;
        let moved = |place, stride: &Quantity| {
            let elements = emit.imul(index, lowering.quantity(stride));
            emit.element(place, self.dtype, elements)
        };
        (moved(source, &axis.from), moved(target, &axis.to))
    }

    fn along(
        &self,
        lowering: &KernelLowering<'_, '_, 'ctx>,
        along: &Axis,
        at: (Value<'ctx>, Value<'ctx>),
        body: &mut dyn FnMut((Value<'ctx>, Value<'ctx>)) -> Result<(), LlvmError>,
    ) -> Result<(), LlvmError> {
        let emit = &lowering.emit;
        let end = lowering.quantity(&along.points);
        lowering.counted(emit.i64(0), end, emit.i64(1), &[], |index, _| {
            body(self.step(lowering, at, along, index))?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// A run of `count` elements.
    fn run(
        &self,
        lowering: &KernelLowering<'_, '_, 'ctx>,
        run: &Axis,
        at: (Value<'ctx>, Value<'ctx>),
        length: Value<'ctx>,
    ) -> Result<(), LlvmError> {
        let emit = &lowering.emit;
        let mut begin = emit.i64(0);
        if run.is_dense() {
            let whole = lowering.multiple_below(length, self.lanes);
            let step = emit.i64(i64::from(self.lanes));
            lowering.counted(begin, whole, step, &[], |index, _| {
                let (source, target) = self.step(lowering, at, run, index);
                let loaded = emit.load_dtype(self.dtype, self.lanes, source);
                emit.store_dtype(self.dtype, target, loaded);
                Ok(Vec::new())
            })?;
            begin = whole;
        }
        lowering.counted(begin, length, emit.i64(1), &[], |index, _| {
            let (source, target) = self.step(lowering, at, run, index);
            let loaded = emit.load_dtype(self.dtype, 1, source);
            emit.store_dtype(self.dtype, target, loaded);
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// The elements of a partial block that has `inside` of them, except the first `from`; zero-padded.
    fn partly(
        &self,
        lowering: &KernelLowering<'_, '_, 'ctx>,
        run: &Axis,
        at: (Value<'ctx>, Value<'ctx>),
        (from, inside, block): (Value<'ctx>, Value<'ctx>, i64),
    ) -> Result<(), LlvmError> {
        let emit = &lowering.emit;
        let rest = self.step(lowering, at, run, from);
        self.run(lowering, run, rest, emit.isub(inside, from))?;
        let zero = lowering.zero(self.dtype);
        let zeros = emit.splat(zero, self.lanes);
        let (lanes, end) = (i64::from(self.lanes), emit.i64(block));
        // The lanes of one vector, then whole vectors.
        let whole = lowering.multiple_below(emit.iadd(inside, emit.i64(lanes - 1)), self.lanes);
        for (begin, end, step, value) in [(inside, whole, 1, zero), (whole, end, lanes, zeros)] {
            lowering.counted(begin, end, emit.i64(step), &[], |index, _| {
                let (_, target) = self.step(lowering, at, run, index);
                emit.store_dtype(self.dtype, target, value);
                Ok(Vec::new())
            })?;
        }
        Ok(())
    }

    /// Elements of a block that are strided, while those of the looped axis are contiguous: transposed in the register
    /// tiles that `squares` lists by their first element in the block, which has `count` elements.
    fn transposed(
        &self,
        lowering: &KernelLowering<'_, '_, 'ctx>,
        (along, run): (&Axis, &Axis),
        at: (Value<'ctx>, Value<'ctx>),
        count: Value<'ctx>,
        squares: impl Fn(&mut dyn FnMut(Value<'ctx>) -> Result<(), LlvmError>) -> Result<(), LlvmError>,
    ) -> Result<(), LlvmError> {
        let emit = &lowering.emit;
        let lanes = i64::from(self.lanes);
        let end = lowering.quantity(&along.points);
        let whole = lowering.multiple_below(end, self.lanes);
        lowering.counted(emit.i64(0), whole, emit.i64(lanes), &[], |index, _| {
            let at = self.step(lowering, at, along, index);
            squares(&mut |first| {
                let at = self.step(lowering, at, run, first);
                let rows: Vec<Value<'ctx>> = (0..lanes)
                    .map(|number| {
                        let (source, _) = self.step(lowering, at, run, emit.i64(number));
                        emit.load_dtype(self.dtype, self.lanes, source)
                    })
                    .collect();
                for (number, column) in (0..).zip(emit.transpose(rows)) {
                    let (_, target) = at;
                    let column_at = emit.i64(number);
                    let elements = emit.imul(column_at, lowering.quantity(&along.to));
                    let target = emit.element(target, self.dtype, elements);
                    emit.store_dtype(self.dtype, target, column);
                }
                Ok(())
            })?;
            Ok(Vec::new())
        })?;
        lowering.counted(whole, end, emit.i64(1), &[], |index, _| {
            let at = self.step(lowering, at, along, index);
            self.run(lowering, run, at, count)?;
            Ok(Vec::new())
        })?;
        Ok(())
    }
}

/// The most lanes, up to these, that a block is a multiple of.
fn lanes_of(lanes: u32, spec: &PackSpec) -> u32 {
    match spec.axes.last() {
        Some(PackAxis::Inner { block, .. }) => lanes.min(1 << block.trailing_zeros()),
        _ => lanes,
    }
}
