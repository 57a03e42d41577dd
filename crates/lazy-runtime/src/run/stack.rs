//! The stacked results of a loop's iterations, under a new outermost axis: written into one memory, or copied there.
//!
//! The memory is the device's, so limits apply to it. If every iteration is known to run, all of it is allocated before
//! the second one; otherwise it grows by doubling.

use std::sync::Arc;

use kiln_backend::{Builtin, BuiltinOperand, Memory, MemorySlice};
use kiln_interpreter::InterpretError;
use kiln_program::Step;
use kiln_tensor::{DType, TensorError};
use smallvec::SmallVec;

use super::walk::Run;
use super::{Stop, Value};
use crate::error::RuntimeError;

/// The layers so far.
pub(super) struct Stack {
    memory: Memory,
    dtype: DType,
    /// The shape of a layer.
    shape: SmallVec<[usize; 6]>,
    /// The size of a layer in bytes.
    bytes: usize,
    /// The number of layers for which the memory has space.
    room: usize,
    layers: usize,
}

impl Stack {
    /// Adds the layer, if it was written to the place from [`next_layer`](Run::next_layer); false if it is elsewhere.
    pub(super) fn push_written(&mut self, memory: &Memory, offset: usize) -> bool {
        let is_next = self.layers < self.room
            && is_same(memory, &self.memory)
            && offset == self.layers * self.bytes;
        self.layers += usize::from(is_next);
        is_next
    }

    /// The layers as one value.
    pub(super) fn into_value(self) -> Value {
        let shape = [self.layers].into_iter().chain(self.shape);
        Value {
            memory: self.memory,
            offset: 0,
            dtype: self.dtype,
            shape: shape.collect(),
            order: None,
            apart: None,
        }
    }
}

impl Run<'_> {
    /// The place of the next layer of a stack, for a launch to write it there; `None` if it does not fit the layers so far.
    /// `expected` is their final number, if that is known.
    pub(super) fn next_layer(
        &mut self,
        step: &Step,
        stack: &mut Option<Stack>,
        layer: (DType, &[usize]),
        expected: Option<usize>,
    ) -> Result<Option<(Memory, usize)>, Stop> {
        let stack = match stack {
            Some(stack) => stack,
            None => stack.insert(self.new_stack(step, layer, expected.unwrap_or(1))?),
        };
        if layer != (stack.dtype, &stack.shape) {
            return Ok(None);
        }
        if stack.layers == stack.room {
            let room = stack.room.saturating_mul(2);
            let grown = self.memory_of_layers(step, stack.bytes, room)?;
            let bytes = stack.layers * stack.bytes;
            self.copy_bytes(step, (&stack.memory, 0), (&grown, 0), bytes)?;
            (stack.memory, stack.room) = (grown, room);
        }
        Ok(Some((stack.memory.clone(), stack.layers * stack.bytes)))
    }

    /// Adds a layer, which is copied unless it was written to the place from [`next_layer`](Self::next_layer).
    pub(super) fn push_layer(
        &mut self,
        step: &Step,
        stack: &mut Option<Stack>,
        value: &Value,
        expected: Option<usize>,
    ) -> Result<(), Stop> {
        let layer = (value.dtype, value.shape.as_slice());
        let next = self.next_layer(step, stack, layer, expected)?;
        let (Some(stack), Some((memory, offset))) = (stack.as_mut(), next) else {
            return Err(mismatch(step, stack.as_ref(), value).into());
        };
        if is_same(&value.memory, &memory) && value.offset == offset {
            // It is in place.
        } else if value.order.is_none() && value.apart.is_none() {
            let from = (&value.memory, value.offset);
            self.copy_bytes(step, from, (&memory, offset), stack.bytes)?;
        } else {
            self.finish()?;
            let tensor = self.download(value.placed(), &step.name)?;
            let row_major = self.upload(&tensor, step)?;
            let from = (&row_major.memory, 0);
            self.copy_bytes(step, from, (&memory, offset), stack.bytes)?;
        }
        stack.layers += 1;
        Ok(())
    }

    fn new_stack(
        &mut self,
        step: &Step,
        (dtype, shape): (DType, &[usize]),
        room: usize,
    ) -> Result<Stack, Stop> {
        let elements: usize = shape.iter().product();
        let bytes = elements * dtype.size_in_bytes();
        Ok(Stack {
            memory: self.memory_of_layers(step, bytes, room)?,
            dtype,
            shape: shape.into(),
            bytes,
            room,
            layers: 0,
        })
    }

    /// Memory for `n` layers, within the limit of live bytes.
    fn memory_of_layers(&self, step: &Step, bytes: usize, room: usize) -> Result<Memory, Stop> {
        let bytes = bytes.saturating_mul(room);
        let (given, limit) = (bytes as u64, self.runtime.options().live_bytes);
        if given > limit {
            let at = self.loop_site(step);
            return Err(InterpretError::LiveBytes { at, given, limit }.into());
        }
        let memory = self.runtime.alloc(bytes);
        Ok(memory.map_err(RuntimeError::execute(step.name.as_str()))?)
    }

    fn copy_bytes(
        &mut self,
        step: &Step,
        (from, from_offset): (&Memory, usize),
        (to, to_offset): (&Memory, usize),
        bytes: usize,
    ) -> Result<(), Stop> {
        if bytes == 0 {
            return Ok(());
        }
        let slice = |memory, offset| MemorySlice {
            memory,
            offset,
            bytes,
        };
        let what = BuiltinOperand {
            dtype: DType::U8,
            shape: &[bytes],
        };
        let from = [(slice(from, from_offset), what)];
        let to = [(slice(to, to_offset), what)];
        Ok(self.run_builtin(&step.name, &Builtin::Copy, &from, &to)?)
    }
}

/// Layers of different shapes.
fn mismatch(step: &Step, stack: Option<&Stack>, value: &Value) -> RuntimeError {
    let under_axis = |shape: &[usize]| [&[1], shape].concat();
    let error = TensorError::ConcatMismatch {
        operand: stack.map_or(0, |stack| stack.layers),
        axis: 0,
        expected: under_axis(stack.map_or(&[], |stack| &stack.shape)),
        found: under_axis(&value.shape),
    };
    RuntimeError::tensor(step.name.as_str())(error)
}

/// Whether two handles refer to the same memory.
pub(super) fn is_same(one: &Memory, other: &Memory) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one.handle()), Arc::as_ptr(other.handle()))
}
