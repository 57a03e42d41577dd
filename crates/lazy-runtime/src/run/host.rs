//! Steps that run on the host: `bind`, interpreted ops, and kernels without code.

use kiln_backend::StopSignal as _;
use kiln_backend::{Builtin, BuiltinOperand};
use kiln_interpreter::{
    EvaluateContext, InterpretError, InterpretOptions, OpFault, evaluate_op, interpret_loop,
};
use kiln_ir::{Definition, Graph, Op, OpId, ValueId};
use kiln_kernel::Role;
use kiln_program::{Action, BlockId, BufferId, Place, Step};
use kiln_symbolic_shape::Binding;
use kiln_tensor::{DType, Tensor};
use kiln_timing::Counter;
use std::collections::HashMap;

use super::bind::{bind, bind_sizes, site_of};
use super::walk::Run;
use super::{Stop, Value};
use crate::compile::Counters;
use crate::error::RuntimeError;
use crate::plan::{Frame, TensorPlace};

impl<'a> Run<'a> {
    /// Performs a step that is neither launched nor passed to the executor.
    pub(super) fn host(
        &mut self,
        block: BlockId,
        step: &Step,
        reads: &[TensorPlace],
        frame: &mut Frame,
        binding: &mut Binding,
    ) -> Result<(), Stop> {
        if let Action::Bind { data, symbols } = &step.action
            && let Some(input) = self.input_of(block, *data)
        {
            return self.bind_data(step, input, symbols, binding);
        }
        self.finish()?;
        let values = reads.iter().map(|place| self.value(frame, place));
        let values = values.collect::<Result<Vec<Value>, _>>()?;
        match &step.action {
            Action::Bind { symbols, .. } => {
                let data = self.first(&values, step)?;
                let data = self.download(data.placed(), &step.name)?;
                self.bind_data(step, &data, symbols, binding)
            }
            Action::Interpret {
                inputs,
                outputs,
                symbols,
                ..
            } => {
                self.count_interpreted();
                let given = self.download_all(&values, step)?;
                let given = inputs.iter().map(|&(value, _)| value).zip(given).collect();
                let results = self.evaluate(step, given, binding)?;
                for &(value, buffer) in outputs {
                    let tensor = results.get(&value).ok_or_else(|| {
                        RuntimeError::malformed(format!("{} does not give {value}", step.name))
                    })?;
                    let site = || step_site(self.program.graph(), step);
                    if let Some(ty) = self.program.graph().tensor_ty(value) {
                        let graph = self.program.graph();
                        bind_sizes(graph, binding, ty, symbols, tensor.shape(), &site)?;
                    }
                    self.check_type(step, value, tensor.dtype(), tensor.shape(), binding)?;
                    let own = self.own(tensor, step)?;
                    self.bring(block, buffer, &own, frame)?;
                }
                Ok(())
            }
            Action::If { .. } => self.run_if(block, step, &values, frame, binding),
            other => {
                Err(RuntimeError::malformed(format!("a {} on the host", other.as_word())).into())
            }
        }
    }

    fn count_interpreted(&self) {
        Counters::count(&self.runtime.counters().interpreted_steps);
        self.prepared.recorder.count(Counter::InterpretedSteps);
    }

    /// Interprets a kernel step, and copies the results to where the kernel would have written them.
    pub(super) fn interpret_kernel(
        &mut self,
        step: &Step,
        reads: &[TensorPlace],
        writes: &[TensorPlace],
        frame: &Frame,
        binding: &Binding,
    ) -> Result<(), Stop> {
        self.count_interpreted();
        self.finish()?;
        let Action::Kernel(launch) = &step.action else {
            return Err(RuntimeError::malformed("an interpreted step that is not a kernel").into());
        };
        let values = launch.values.iter().zip(&launch.operands);
        let is_written = |position: usize| self.program.is_written(launch.kernel, position);
        let (written, read): (Vec<_>, Vec<_>) = values
            .enumerate()
            .partition(|(position, _)| is_written(*position));
        let mut given = HashMap::new();
        for ((_, (value, _)), place) in read.iter().zip(reads) {
            let tensor = self.download(frame.tensor(place)?, &step.name)?;
            given.insert(**value, tensor);
        }
        // What a combining store adds to is in its buffer already, under the name of the result.
        let form = self.program.kernels()[launch.kernel].kernel.kernel();
        for ((position, (value, _)), place) in written.iter().zip(writes) {
            let buffer = form.buffers().values().nth(*position);
            let makes = |op: &&OpId| self.program.graph().op(**op).results.contains(value);
            let base = step.ops.iter().find(makes);
            let base = base.and_then(|&op| self.program.graph().op(op).operands.first());
            if buffer.is_some_and(|buffer| buffer.role == Role::InOut)
                && let Some(&base) = base
                && !given.contains_key(&base)
            {
                let tensor = self.download(frame.tensor(place)?, &step.name)?;
                given.insert(base, tensor);
            }
        }
        let results = self.evaluate(step, given, binding)?;
        let mut outputs = Vec::with_capacity(written.len());
        for (_, (value, _)) in &written {
            let tensor = results.get(value).ok_or_else(|| {
                RuntimeError::malformed(format!("{} does not give {value}", step.name))
            })?;
            self.check_type(step, **value, tensor.dtype(), tensor.shape(), binding)?;
            outputs.push(self.own(tensor, step)?);
        }
        // Operands may be in the memory that is written next, which must have no reader then.
        drop(results);
        for (tensor, place) in outputs.iter().zip(writes) {
            self.copy_to(step, tensor, place, frame)?;
        }
        Ok(())
    }

    fn copy_to(
        &mut self,
        step: &Step,
        tensor: &Tensor,
        place: &TensorPlace,
        frame: &Frame,
    ) -> Result<(), Stop> {
        if let Some(strides) = &place.apart {
            return self.scatter(tensor, place, strides, frame, &step.name);
        }
        let executor = self.runtime.executor();
        let (tensor, shape) = match &place.order {
            None => (tensor.clone(), place.shape.clone()),
            Some(order) => {
                let in_order = order.apply(tensor);
                let in_order = in_order.map_err(RuntimeError::tensor(step.name.as_str()))?;
                let tensor = self.copied(&step.name, |goes_on| in_order.dense_while(goes_on))?;
                (tensor, order.shape(&place.shape))
            }
        };
        let from = executor
            .upload(&tensor)
            .map_err(RuntimeError::execute(step.name.as_str()))?;
        let from = kiln_backend::MemorySlice {
            memory: &from,
            offset: 0,
            bytes: tensor.byte_len(),
        };
        let what = BuiltinOperand {
            dtype: place.dtype,
            shape: &shape,
        };
        let to = frame.slice(&place.operand)?;
        Ok(self.run_builtin(&step.name, &Builtin::Copy, &[(from, what)], &[(to, what)])?)
    }

    /// Computes the ops of a step one by one; returns every value.
    fn evaluate(
        &self,
        step: &Step,
        mut values: HashMap<ValueId, Tensor>,
        binding: &Binding,
    ) -> Result<HashMap<ValueId, Tensor>, RuntimeError> {
        let graph = self.program.graph();
        let is_stopped = self.control.map(|control| move || control.is_stopped());
        let is_stopped = is_stopped.as_ref().map(|asked| asked as &dyn Fn() -> bool);
        let ctx = EvaluateContext::new(graph.dims(), binding)
            .with_custom_ops(Some(&self.runtime.options().custom_ops))
            .with_cancelled(is_stopped);
        let options = self.runtime.options();
        let whole = InterpretOptions {
            limits: options.interpret_limits(),
            cancelled: is_stopped,
            custom_ops: Some(&options.custom_ops),
            ..InterpretOptions::default()
        };
        for &id in &step.ops {
            self.check_control()?;
            let op = graph.op(id);
            let operand = |value: &ValueId| {
                let known = values.get(value).cloned();
                let known = known.or_else(|| constant(graph, *value));
                if let (Some(tensor), Some(control)) = (&known, self.control) {
                    control.load(tensor)?;
                }
                known
                    .or_else(|| self.unread(*value, binding))
                    .ok_or_else(|| RuntimeError::malformed(format!("{} lacks {value}", step.name)))
            };
            let operands = op
                .operands
                .iter()
                .map(operand)
                .collect::<Result<Vec<_>, _>>()?;
            let results = match op.op {
                Op::Loop { .. } => interpret_loop(graph, id, &operands, binding, &whole)
                    .map_err(RuntimeError::from),
                _ => {
                    evaluate_op(&ctx, &op.op, &operands).map_err(|fault| fault_of(graph, id, fault))
                }
            };
            // The cause of the cancellation is the error.
            if results.is_err() {
                self.check_control()?;
            }
            let results = results?;
            values.extend(op.results.iter().copied().zip(results));
        }
        Ok(values)
    }

    /// Zeros in place of a value that a kernel does not read because its contents are irrelevant, such as empty
    /// indices.
    fn unread(&self, value: ValueId, binding: &Binding) -> Option<Tensor> {
        let graph = self.program.graph();
        let ty = graph.tensor_ty(value)?;
        let size = |&dim| {
            let size = graph.dims().evaluate(dim, binding).ok()?;
            usize::try_from(size).ok()
        };
        let shape: Option<Vec<usize>> = ty.dims.iter().map(size).collect();
        Tensor::zeros(ty.dtype, &shape?).ok()
    }

    /// Compares a value that the host computed with the graph's type.
    pub(super) fn check_type(
        &self,
        step: &Step,
        value: ValueId,
        dtype: DType,
        shape: &[usize],
        binding: &Binding,
    ) -> Result<(), RuntimeError> {
        let graph = self.program.graph();
        let Some(ty) = graph.tensor_ty(value) else {
            return Err(RuntimeError::malformed(format!("{value} is not a tensor")));
        };
        let mut sizes = Vec::with_capacity(ty.rank());
        for &dim in &ty.dims {
            let what = || graph.dims().display(dim).to_string();
            let size = graph.dims().evaluate(dim, binding);
            sizes.push(size.map_err(|error| RuntimeError::Size {
                what: what(),
                error,
            })?);
        }
        let fits = dtype == ty.dtype
            && sizes.len() == shape.len()
            && sizes
                .iter()
                .zip(shape)
                .all(|(&size, &found)| usize::try_from(size) == Ok(found));
        if fits {
            return Ok(());
        }
        let expected = format!(
            "{} = {}{sizes:?}",
            graph.ty(value).display(graph.dims()),
            ty.dtype
        );
        let fault = OpFault::ResultMismatch {
            expected,
            found: format!("{dtype}{shape:?}"),
        };
        match step.ops.last() {
            Some(&op) => Err(fault_of(graph, op, fault)),
            None => Err(RuntimeError::malformed(fault.to_string())),
        }
    }

    /// The call's input that a buffer represents, if the host has it: reading it needs no wait for a device.
    fn input_of(&self, block: BlockId, buffer: BufferId) -> Option<&Tensor> {
        let data = self.program.block(block);
        match data.buffers.get(buffer)?.place {
            Place::Parameter(index) if block == self.program.body() => self.inputs.get(index),
            _ => None,
        }
    }

    /// Binds symbols to the elements of an integer tensor.
    fn bind_data(
        &self,
        step: &Step,
        data: &Tensor,
        symbols: &[kiln_symbolic_shape::SymbolId],
        binding: &mut Binding,
    ) -> Result<(), Stop> {
        let graph = self.program.graph();
        let values = integers(data).map_err(RuntimeError::tensor(step.name.as_str()))?;
        if values.len() != symbols.len() {
            let (expected, found) = (symbols.len(), values.len());
            let problem = format!("{}: expected {expected} elements, found {found}", step.name);
            return Err(RuntimeError::malformed(problem).into());
        }
        for (&symbol, value) in symbols.iter().zip(values) {
            let site = || step_site(graph, step);
            let Some(value) = value else {
                let Some(&op) = step.ops.last() else { continue };
                let (given, limit) = (u64::MAX, i64::MAX as u64);
                let fault = OpFault::Limit {
                    what: "for a value of a symbol",
                    given,
                    limit,
                };
                return Err(fault_of(graph, op, fault).into());
            };
            bind(graph, binding, symbol, value, &site)?;
        }
        Ok(())
    }

    /// Makes a host tensor the memory of a buffer.
    pub(super) fn bring(
        &self,
        block: BlockId,
        buffer: BufferId,
        tensor: &Tensor,
        frame: &mut Frame,
    ) -> Result<(), RuntimeError> {
        let executor = self.runtime.executor();
        let memory = executor
            .upload(tensor)
            .map_err(RuntimeError::execute("a result"))?;
        self.bring_memory(block, buffer, memory, 0, frame)
    }

    /// Makes a memory the memory of a buffer.
    pub(super) fn bring_memory(
        &self,
        block: BlockId,
        buffer: BufferId,
        memory: kiln_backend::Memory,
        offset: usize,
        frame: &mut Frame,
    ) -> Result<(), RuntimeError> {
        let index = self.prepared.memory_of(block, buffer);
        let index = index.ok_or_else(|| RuntimeError::malformed("a result without a place"))?;
        frame.set(index, memory, offset);
        Ok(())
    }

    /// The tensor in separate memory: a result of the interpreter may be a view of its operand.
    fn own(&self, tensor: &Tensor, step: &Step) -> Result<Tensor, RuntimeError> {
        self.copied(&step.name, |goes_on| tensor.copied_while(goes_on))
    }

    fn download_all(&self, values: &[Value], step: &Step) -> Result<Vec<Tensor>, RuntimeError> {
        values
            .iter()
            .map(|value| self.download(value.placed(), &step.name))
            .collect()
    }

    fn first(&self, values: &[Value], step: &Step) -> Result<Value, RuntimeError> {
        let missing = || RuntimeError::malformed(format!("{} reads nothing", step.name));
        values.first().cloned().ok_or_else(missing)
    }
}

/// A step for messages.
pub(super) fn step_site(graph: &Graph, step: &Step) -> String {
    match step.ops.last() {
        Some(&op) => site_of(graph, op).to_string(),
        None => step.name.clone(),
    }
}

pub(crate) fn fault_of(graph: &Graph, op: OpId, fault: OpFault) -> RuntimeError {
    let (at, fault) = (site_of(graph, op), Box::new(fault));
    RuntimeError::Interpret(InterpretError::Op { at, fault })
}

fn constant(graph: &Graph, value: ValueId) -> Option<Tensor> {
    let Definition::Result { op, .. } = graph.value(value).definition else {
        return None;
    };
    match &graph.op(op).op {
        Op::Constant(constant) => Some(constant.tensor()),
        _ => None,
    }
}

/// The elements of a tensor of integers; `None` if one does not fit an `i64`.
fn integers(tensor: &Tensor) -> Result<Vec<Option<i64>>, kiln_tensor::TensorError> {
    macro_rules! widened {
        ($ty:ty) => {
            tensor
                .to_vec::<$ty>()?
                .into_iter()
                .map(|x| i64::try_from(x).ok())
                .collect()
        };
    }
    Ok(match tensor.dtype() {
        DType::I8 => widened!(i8),
        DType::I16 => widened!(i16),
        DType::I32 => widened!(i32),
        DType::U8 => widened!(u8),
        DType::U16 => widened!(u16),
        DType::U32 => widened!(u32),
        DType::U64 => widened!(u64),
        _ => widened!(i64),
    })
}
