//! What a loop gives in each iteration, under a new outermost axis: copied into one memory as it comes.
//!
//! The memory is the device's, so that limits see it. Where every iteration is known to run, all of it is asked for before the
//! second one; else it grows by doubling.

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
    /// Of a layer.
    shape: SmallVec<[usize; 6]>,
    /// Of a layer.
    bytes: usize,
    /// How many layers the memory has room for.
    room: usize,
    layers: usize,
}

impl Stack {
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
    /// Adds a layer. `expected` is how many there will be, if that is known.
    pub(super) fn push_layer(
        &mut self,
        step: &Step,
        stack: &mut Option<Stack>,
        value: &Value,
        expected: Option<usize>,
    ) -> Result<(), Stop> {
        let stack = match stack {
            Some(stack) => stack,
            None => stack.insert(self.new_stack(step, value, expected.unwrap_or(1))?),
        };
        if value.shape != stack.shape {
            let under_axis = |shape: &[usize]| [&[1], shape].concat();
            let error = TensorError::ConcatMismatch {
                operand: stack.layers,
                axis: 0,
                expected: under_axis(&stack.shape),
                found: under_axis(&value.shape),
            };
            return Err(RuntimeError::tensor(step.name.as_str())(error).into());
        }
        if stack.layers == stack.room {
            let room = stack.room.saturating_mul(2);
            let grown = self.memory_of_layers(step, stack.bytes, room)?;
            let bytes = stack.layers * stack.bytes;
            self.copy_bytes(step, (&stack.memory, 0), (&grown, 0), bytes)?;
            (stack.memory, stack.room) = (grown, room);
        }
        let offset = stack.layers * stack.bytes;
        let to = (&stack.memory, offset);
        if value.order.is_none() && value.apart.is_none() {
            self.copy_bytes(step, (&value.memory, value.offset), to, stack.bytes)?;
        } else {
            let tensor = self.download(value.placed(), &step.name)?;
            let row_major = self.upload(&tensor, step)?;
            self.copy_bytes(step, (&row_major.memory, 0), to, stack.bytes)?;
        }
        stack.layers += 1;
        Ok(())
    }

    fn new_stack(&self, step: &Step, value: &Value, room: usize) -> Result<Stack, Stop> {
        let elements: usize = value.shape.iter().product();
        let bytes = elements * value.dtype.size_in_bytes();
        Ok(Stack {
            memory: self.memory_of_layers(step, bytes, room)?,
            dtype: value.dtype,
            shape: value.shape.clone(),
            bytes,
            room,
            layers: 0,
        })
    }

    /// Memory for so many layers, within the limit of what may be alive at once.
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
