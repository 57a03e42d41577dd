//! Addresses of elements, stores to buffers, and locals in memory.
//!
//! An access whose index advances by constants along the tile's axes has one address for the first point of the tile and
//! constant offsets from it. Consecutive elements are a vector load or store, a uniform element is a scalar; anything else
//! is a gather or a scatter.

use kiln_backend::Quantity;
use kiln_kernel::seeded::{Fault, is_on};
use kiln_kernel::{AxisId, BufferId, IndexClass, NodeId, StageId, Store};
use kiln_tensor::DType;

use inkwell::IntPredicate;

use super::address::Address;
use super::context::KernelLowering;
use super::load::Condition;
use super::scope::{Array, Coordinate, Form, Place, Scope, StageValue};
use crate::abi::FaultCause;
use crate::emit::{Elem, Value, lanes};
use crate::error::LlvmError;

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// Stores a value in the lanes in range.
    pub(super) fn store_at(
        &self,
        scope: &Scope<'ctx>,
        buffer: BufferId,
        indices: &[NodeId],
        value: Value<'ctx>,
        at: Coordinate,
    ) -> Result<(), LlvmError> {
        let dtype = self.kernel.buffer(buffer).dtype;
        let address = self.buffer_address(scope, buffer, indices, at, Form::Lanes)?;
        self.write(scope, at, dtype, (address, None), value);
        Ok(())
    }

    /// A stage's local.
    pub(super) fn local(
        &self,
        scope: &Scope<'ctx>,
        stage: StageId,
        moment: StageValue,
        indices: &[NodeId],
        at: Coordinate,
        form: Form,
    ) -> Result<Value<'ctx>, LlvmError> {
        let emit = &self.emit;
        let dtype = self.kernel.stage_dtype(stage);
        let array = match scope.placed(stage, moment) {
            Some(Place::Registers(values)) => {
                let at = self.stage_coordinate(scope, stage, at);
                return match values.get(&at) {
                    Some(&value) => Ok(value),
                    None => unreachable!("a stage computes every point of the tile"),
                };
            }
            Some(Place::Spilled {
                base,
                lanes,
                vectors,
            }) => {
                let at = self.stage_coordinate(scope, stage, at);
                let pointer = self.spilled(scope, *base, (*lanes, *vectors), dtype, at);
                return Ok(emit.load_dtype(dtype, *lanes, pointer));
            }
            Some(Place::Memory(array)) => array,
            None => unreachable!("the verifier accepts stages in scope alone"),
        };
        let depends = |axis| self.dependence.stage_depends(stage, axis);
        let own = scope.rows.is_some_and(|rows| depends(rows.axis));
        let array = &if own {
            self.array_of_row(scope, array, at)
        } else {
            array.clone()
        };
        let varies = |index: &NodeId| self.varies(scope, *index);
        if form == Form::First || !indices.iter().any(varies) {
            let address = self.address(scope, array, indices, at, Form::First)?;
            let pointer = self.lanes_of_element(array, address.pointer(), at);
            let lanes = if form == Form::First { 1 } else { array.lanes };
            return Ok(emit.load_dtype(dtype, lanes, pointer));
        }
        let Some(vectors) = scope.vectors else {
            unreachable!("a value varies along vectors in use alone")
        };
        let zero = emit.splat(self.zero(dtype), vectors.lanes);
        Ok(
            match (
                self.address(scope, array, indices, at, form)?,
                self.mask(scope, at),
            ) {
                (Address::Same(pointer), _) => {
                    emit.splat(emit.load_dtype(dtype, 1, pointer), vectors.lanes)
                }
                (Address::Consecutive(pointer), None) => {
                    emit.load_dtype(dtype, vectors.lanes, pointer)
                }
                (Address::EveryOther(pointer), mask) => {
                    let pointers = self.every_other(dtype, vectors.lanes, pointer);
                    let mask = mask.unwrap_or_else(|| emit.bool_of(vectors.lanes, true));
                    emit.gather_dtype(dtype, pointers, mask, zero)
                }
                (Address::Consecutive(pointer), Some(mask)) => {
                    emit.masked_load_dtype(dtype, pointer, mask, zero)
                }
                (Address::Each(pointers), mask) => {
                    let mask = mask.unwrap_or_else(|| emit.bool_of(vectors.lanes, true));
                    emit.gather_dtype(dtype, pointers, mask, zero)
                }
            },
        )
    }

    /// Stores a value to a local in memory, at the current point of the stage's own axes.
    pub(super) fn store_own(
        &self,
        scope: &Scope<'ctx>,
        array: &Array<'ctx>,
        axes: &[AxisId],
        value: Value<'ctx>,
        at: Coordinate,
    ) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let mut element = emit.i64(0);
        let mut step = Quantity::constant(0);
        for (&axis, stride) in axes.iter().zip(&array.strides) {
            let index = self.axis_value(scope, axis, at, Form::First);
            element = emit.iadd(element, emit.imul(index, self.quantity(stride)));
            if scope.vectors.is_some_and(|vectors| vectors.axis == axis) {
                step = stride.clone();
            }
        }
        let pointer = emit.element(array.base, array.dtype, element);
        if array.lanes > 1 {
            // Lanes out of range have their own memory.
            let pointer = self.lanes_of_element(array, pointer, at);
            emit.store_dtype(array.dtype, pointer, self.widened(scope, value));
            return Ok(());
        }
        let address = match (scope.vectors, step.as_constant()) {
            (None, _) | (_, Some(0)) => Address::Same(pointer),
            (_, Some(1)) => Address::Consecutive(pointer),
            (Some(vectors), _) => {
                let numbers = emit.lane_numbers(Elem::I64, vectors.lanes);
                let step = emit.splat(self.quantity(&step), vectors.lanes);
                Address::Each(emit.element(pointer, array.dtype, emit.imul(numbers, step)))
            }
        };
        self.write(scope, at, array.dtype, (address, None), value);
        Ok(())
    }

    /// Replaces elements by the values that `update` computes from them: one element, or those of a vector, which are
    /// distinct. An index out of bounds is a fault, and nothing is written there.
    pub(super) fn update_at(
        &self,
        scope: &Scope<'ctx>,
        store: &Store,
        classes: &[IndexClass],
        at: Coordinate,
        update: impl Fn(Value<'ctx>) -> Result<Value<'ctx>, LlvmError>,
    ) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let buffer = self.kernel.buffer(store.buffer);
        let mut condition = Condition::default();
        for (axis, &index) in store.indices.iter().enumerate() {
            if classes.get(axis) != Some(&IndexClass::Proved) {
                let inside = self.in_range(scope, store.buffer, axis, index, at, Form::Lanes)?;
                let site = || format!("index {axis} of %{}", buffer.name);
                self.report(
                    scope,
                    at,
                    emit.not(inside),
                    FaultCause::IndexOutOfRange,
                    site,
                );
                condition.require(self, inside);
            }
        }
        let address = self.buffer_address(scope, store.buffer, &store.indices, at, Form::Lanes)?;
        let Some(vectors) = scope.vectors else {
            let pointer = address.pointer();
            let pointer = match condition.all(self) {
                Some(condition) => emit.select(condition, pointer, self.dummy()),
                None => pointer,
            };
            let value = update(emit.load_dtype(buffer.dtype, 1, pointer))?;
            emit.store_dtype(buffer.dtype, pointer, value);
            return Ok(());
        };
        let dtype = buffer.dtype;
        let lanes_of = || self.masked(scope, at, condition.lanes);
        let replace = || -> Result<(), LlvmError> {
            let mask = lanes_of();
            let zero = emit.splat(self.zero(dtype), vectors.lanes);
            let all = || mask.unwrap_or_else(|| emit.bool_of(vectors.lanes, true));
            let there = match (address, mask) {
                (Address::Consecutive(pointer), None) => {
                    emit.load_dtype(dtype, vectors.lanes, pointer)
                }
                (Address::Consecutive(pointer), Some(mask)) => {
                    emit.masked_load_dtype(dtype, pointer, mask, zero)
                }
                (Address::EveryOther(pointer), _) => {
                    let pointers = self.every_other(dtype, vectors.lanes, pointer);
                    emit.gather_dtype(dtype, pointers, all(), zero)
                }
                (Address::Each(pointers), _) => emit.gather_dtype(dtype, pointers, all(), zero),
                (Address::Same(_), _) => {
                    return Err(LlvmError::Unsupported {
                        what: "a vector of updates of one element".to_owned(),
                    });
                }
            };
            let value = update(there)?;
            self.write(scope, at, dtype, (address, condition.lanes), value);
            Ok(())
        };
        match condition.uniform {
            None => replace(),
            Some(inside) => self.either(inside, &mut |holds| match holds {
                true => replace(),
                false => Ok(()),
            }),
        }
    }

    /// The part of an array that belongs to a row.
    pub(super) fn array_of_row(
        &self,
        scope: &Scope<'ctx>,
        array: &Array<'ctx>,
        at: Coordinate,
    ) -> Array<'ctx> {
        let emit = &self.emit;
        let Some(rows) = scope
            .rows
            .filter(|_| array.row_stride.as_constant() != Some(0))
        else {
            return array.clone();
        };
        let row = emit.iadd(rows.offset, emit.i64(i64::from(at.row)));
        let elements = emit.imul(row, self.quantity(&array.row_stride));
        Array {
            base: emit.element(array.base, array.dtype, elements),
            ..array.clone()
        }
    }

    /// The address of a vector of an element of an array.
    fn lanes_of_element(
        &self,
        array: &Array<'ctx>,
        element: Value<'ctx>,
        at: Coordinate,
    ) -> Value<'ctx> {
        match array.lanes {
            1 => element,
            lanes => {
                let before = self.emit.i64(i64::from(lanes * at.vector));
                self.emit.element(element, array.dtype, before)
            }
        }
    }

    /// The address to which a scalar local is spilled.
    pub(super) fn spilled(
        &self,
        scope: &Scope<'ctx>,
        base: Value<'ctx>,
        (lanes, vectors): (u32, u32),
        dtype: DType,
        at: Coordinate,
    ) -> Value<'ctx> {
        let emit = &self.emit;
        let row = emit.i64(i64::from(at.row));
        let row = scope.rows.map_or(row, |rows| emit.iadd(rows.offset, row));
        let vector = emit.iadd(
            emit.imul(row, emit.i64(i64::from(vectors))),
            emit.i64(i64::from(at.vector)),
        );
        emit.element(base, dtype, emit.imul(vector, emit.i64(i64::from(lanes))))
    }

    /// The part of a point that a stage depends on.
    pub(super) fn stage_coordinate(
        &self,
        scope: &Scope<'ctx>,
        stage: StageId,
        at: Coordinate,
    ) -> Coordinate {
        let depends = |axis| self.dependence.stage_depends(stage, axis);
        Coordinate {
            row: if scope.rows.is_some_and(|rows| depends(rows.axis)) {
                at.row
            } else {
                0
            },
            vector: if scope.vectors.is_some_and(|vectors| depends(vectors.axis)) {
                at.vector
            } else {
                0
            },
        }
    }

    /// A zero of a dtype, as a scalar.
    pub(super) fn zero(&self, dtype: DType) -> Value<'ctx> {
        self.literal(kiln_scalar::ScalarValue::zero(dtype))
    }

    /// The lanes in range in which a condition holds, if they may not be all.
    fn masked(
        &self,
        scope: &Scope<'ctx>,
        at: Coordinate,
        condition: Option<Value<'ctx>>,
    ) -> Option<Value<'ctx>> {
        match (self.mask(scope, at), condition) {
            (Some(mask), Some(condition)) => Some(self.both(Some(mask), condition)),
            (mask, condition) => mask.or(condition),
        }
    }

    /// Stores a value in the lanes in range in which a condition holds.
    fn write(
        &self,
        scope: &Scope<'ctx>,
        at: Coordinate,
        dtype: DType,
        (address, condition): (Address<'ctx>, Option<Value<'ctx>>),
        value: Value<'ctx>,
    ) {
        let emit = &self.emit;
        let Some(vectors) = scope.vectors else {
            let pointer = address.pointer();
            return emit.store_dtype(dtype, pointer, value);
        };
        match (address, self.masked(scope, at, condition)) {
            // All lanes denote one element and one value.
            (Address::Same(pointer), _) => {
                let value = if lanes(value) > 1 {
                    emit.extract(value, 0)
                } else {
                    value
                };
                emit.store_dtype(dtype, pointer, value);
            }
            (Address::Consecutive(pointer), None) => {
                let value = self.widened(scope, value);
                if self.is_stored_non_temporally(scope, value) {
                    emit.store_non_temporal(pointer, value);
                } else {
                    emit.store_dtype(dtype, pointer, value);
                }
            }
            (Address::EveryOther(pointer), mask) => {
                let pointers = self.every_other(dtype, vectors.lanes, pointer);
                let mask = mask.unwrap_or_else(|| emit.bool_of(vectors.lanes, true));
                emit.scatter_dtype(dtype, pointers, self.widened(scope, value), mask);
            }
            (Address::Consecutive(pointer), Some(_))
                if self.level().has_slow_masked_stores()
                    && condition.is_none()
                    && scope.rows.is_none_or(|rows| rows.count == 1)
                    && let Some(left) = self.lanes_left(scope, at) =>
            {
                let left = emit.iadd(left, emit.i64(i64::from(is_on(Fault::WideMask))));
                emit.store_first(dtype, pointer, self.widened(scope, value), left);
            }
            (Address::Consecutive(pointer), Some(mask)) => {
                emit.masked_store_dtype(dtype, pointer, self.widened(scope, value), mask);
            }
            (Address::Each(pointers), mask) => {
                let mask = mask.unwrap_or_else(|| emit.bool_of(vectors.lanes, true));
                emit.scatter_dtype(dtype, pointers, self.widened(scope, value), mask);
            }
        }
    }

    pub(super) fn both(&self, a: Option<Value<'ctx>>, b: Value<'ctx>) -> Value<'ctx> {
        let emit = &self.emit;
        match a {
            None => b,
            Some(a) if lanes(a) == lanes(b) => emit.and(a, b),
            Some(a) if lanes(a) == 1 => emit.and(emit.splat(a, lanes(b)), b),
            Some(a) => emit.and(a, emit.splat(b, lanes(a))),
        }
    }

    /// Whether an index is in `0..size`.
    pub(super) fn in_range(
        &self,
        scope: &Scope<'ctx>,
        buffer: BufferId,
        axis: usize,
        index: NodeId,
        at: Coordinate,
        form: Form,
    ) -> Result<Value<'ctx>, LlvmError> {
        let emit = &self.emit;
        let Some(&size) = self.kernel.buffer(buffer).shape.get(axis) else {
            unreachable!("the verifier accepts one index per axis")
        };
        let size = self.dim(size);
        if let (Some(vectors), Form::Lanes) = (scope.vectors, form)
            && self.dependence.step_along(self.kernel, index, vectors.axis) == Some(1)
        {
            // The lanes between the start and the end of the buffer, counted from the first lane.
            let first = self.value(scope, index, at, Form::First)?;
            let lanes = emit.i64(i64::from(vectors.lanes));
            let within =
                |lane| emit.trunc_int(emit.smin(emit.smax(lane, emit.i64(0)), lanes), Elem::I32);
            let begin = within(emit.isub(emit.i64(0), first));
            let end = within(emit.isub(size, first));
            let numbers = emit.lane_numbers(Elem::I32, vectors.lanes);
            let splat = |lane| emit.splat(lane, vectors.lanes);
            return Ok(emit.and(
                emit.icmp(IntPredicate::SGE, numbers, splat(begin)),
                emit.icmp(IntPredicate::SLT, numbers, splat(end)),
            ));
        }
        let index = self.value(scope, index, at, form)?;
        let size = if lanes(index) > 1 {
            emit.splat(size, lanes(index))
        } else {
            size
        };
        // Unsigned, so that a negative index is too large.
        Ok(emit.icmp(IntPredicate::ULT, index, size))
    }

    pub(super) fn buffer_address(
        &self,
        scope: &Scope<'ctx>,
        buffer: BufferId,
        indices: &[NodeId],
        at: Coordinate,
        form: Form,
    ) -> Result<Address<'ctx>, LlvmError> {
        let data = self.kernel.buffer(buffer);
        if let Some(pack) = self.layout.pack(buffer) {
            return self.packed_address(scope, buffer, pack, indices, at, form);
        }
        let strides = self.layout.strides(buffer).to_vec();
        let array = Array {
            base: self.base(buffer),
            dtype: data.dtype,
            strides,
            row_stride: Quantity::constant(0),
            lanes: 1,
        };
        self.address(scope, &array, indices, at, form)
    }

    /// The sum of the terms of an address, each with the index from which it comes. Terms that change in inner loops
    /// come last, so that the others are hoisted.
    pub(super) fn summed(&self, mut parts: Vec<(NodeId, Value<'ctx>)>) -> Value<'ctx> {
        let emit = &self.emit;
        parts.sort_by_key(|(node, _)| self.dependence.depth(self.kernel, *node));
        parts
            .into_iter()
            .fold(emit.i64(0), |sum, (_, part)| emit.iadd(sum, part))
    }

    /// The address of an element at a point of the tile.
    fn address(
        &self,
        scope: &Scope<'ctx>,
        array: &Array<'ctx>,
        indices: &[NodeId],
        at: Coordinate,
        form: Form,
    ) -> Result<Address<'ctx>, LlvmError> {
        let emit = &self.emit;
        let indices: Vec<NodeId> = indices
            .iter()
            .map(|&index| self.resolved(scope, index))
            .collect();
        // The strides of the access per row and per element along the vectors, if they are constant.
        let along = |axis| {
            let mut sum = Quantity::constant(0);
            for (&index, stride) in indices.iter().zip(&array.strides) {
                let step = self.dependence.step_along(self.kernel, index, axis)?;
                sum = sum + stride.clone() * Quantity::constant(step);
            }
            Some(sum)
        };
        let per_row = scope
            .rows
            .map(|rows| Some(along(rows.axis)? * self.row_step(&rows)));
        let per_lane = scope.vectors.map(|vectors| along(vectors.axis));
        let first = |at: Coordinate| -> Result<Value<'ctx>, LlvmError> {
            let parts = indices.iter().zip(&array.strides);
            let parts = parts.map(|(&node, stride)| {
                let index = self.value(scope, node, at, Form::First)?;
                Ok((node, emit.imul(index, self.quantity(stride))))
            });
            Ok(self.summed(parts.collect::<Result<Vec<_>, LlvmError>>()?))
        };
        // For rows: a constant offset from the first one if possible.
        let row_zero = matches!(per_row, Some(Some(_)));
        let lane_even = !matches!(per_lane, Some(None));
        if !lane_even && form == Form::Lanes {
            // A separate address per lane.
            let Some(vectors) = scope.vectors else {
                unreachable!("lanes differ along vectors in use alone")
            };
            let mut element = emit.int_of(Elem::I64, vectors.lanes, 0);
            for (&index, stride) in indices.iter().zip(&array.strides) {
                let index = self.value(scope, index, at, Form::Lanes)?;
                let index = self.widened(scope, index);
                let stride = emit.splat(self.quantity(stride), vectors.lanes);
                element = emit.iadd(element, emit.imul(index, stride));
            }
            return Ok(Address::Each(emit.element(
                array.base,
                array.dtype,
                element,
            )));
        }
        let anchor = Coordinate {
            row: if row_zero { 0 } else { at.row },
            vector: if lane_even { 0 } else { at.vector },
        };
        let advanced = |pointer, step: &Quantity, by: i64| {
            let distance = step.clone() * Quantity::constant(by);
            if distance.as_constant() == Some(0) {
                pointer
            } else {
                emit.element(pointer, array.dtype, self.quantity(&distance))
            }
        };
        // The row first: its address is invariant in loops over its contents. The vector last: an offset that is the same
        // for all sizes becomes part of the instruction.
        let mut pointer = array.base;
        if let Some(Some(per_row)) = &per_row {
            pointer = match self.repeated(scope.rows, at.row) {
                Some(row) => {
                    let distance = emit.imul(row, self.quantity(per_row));
                    emit.element(pointer, array.dtype, distance)
                }
                None => advanced(pointer, per_row, i64::from(at.row)),
            };
        }
        pointer = emit.element(pointer, array.dtype, first(anchor)?);
        if let (Some(vectors), Some(Some(per_lane))) = (scope.vectors, &per_lane) {
            let elements = i64::from(at.vector) * i64::from(vectors.lanes);
            pointer = advanced(pointer, per_lane, elements);
        }
        let (Some(vectors), Some(Some(per_lane)), Form::Lanes) = (scope.vectors, per_lane, form)
        else {
            return Ok(Address::Same(pointer));
        };
        Ok(self.lanes_apart((pointer, array.dtype), &per_lane, vectors.lanes))
    }
}
