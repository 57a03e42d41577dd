//! Makes the launch plan of a segment: facts checked, sizes evaluated, kernels chosen and compiled, places resolved.

mod constants;
mod variants;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kiln_interpreter::{InterpretError, OpSite};
use kiln_kernel::{LaunchContext, Schedule};
use kiln_program::{Action, BlockId, BufferId, KernelLaunch, Place, Program, SizeId, Step};
use kiln_symbolic_shape::Binding;
use kiln_tensor::{TensorError, alignment_of, element_count};
use smallvec::SmallVec;

use super::frame::{MemoryIndex, Operand, OperandMemory};
use super::{
    AxisOrder, BuiltinPlan, KernelPlan, Prepared, Refusal, SegmentPlan, StepPlan, TensorPlace, Use,
    Waits, facts,
};
use crate::call::CallControl;
use crate::compile::{Chosen, CompiledKernel, LaunchNumbers, NoCode, Patience, Wanted};
use crate::error::RuntimeError;
use crate::runtime::{Runtime, those_that_hold};
use crate::variants::Stale;

pub(crate) use constants::place_all_constants;

/// Makes the plan of a segment for these values of symbols. `earlier` are the plans of the segments before it, for
/// the same values.
pub(crate) fn make_plan(
    runtime: &Runtime,
    prepared: &Prepared,
    block: BlockId,
    segment: usize,
    binding: Binding,
    earlier: &[Arc<SegmentPlan>],
    patience: &Patience,
) -> Result<SegmentPlan, Refusal> {
    let program = &prepared.program;
    let data = program.block(block);
    let of_segment = &data.segments[segment];
    facts::check(program, of_segment, &binding)?;
    let mut maker = Maker {
        runtime,
        prepared,
        program,
        block,
        sizes: vec![None; program.sizes().len()],
        slots: Vec::new(),
        segment,
        earlier,
    };
    maker.evaluate(&of_segment.sizes, &binding)?;
    let arena = maker.place_slots()?;
    let own = of_segment.own.iter().map(|&buffer| maker.own(buffer));
    let own = own.collect::<Result<Vec<_>, _>>()?;
    maker.check_live(arena, &own)?;
    // Taken before anything is asked for, so that nothing that becomes ready meanwhile is overlooked.
    let published = runtime.published();
    let kernels = maker.choose_all(&of_segment.steps, patience)?;
    maker.place_constants(&of_segment.steps, &kernels);
    let mut kernels = kernels.into_iter();
    let mut is_provisional = false;
    let mut steps = Vec::with_capacity(of_segment.steps.len());
    for step in &of_segment.steps {
        let kernel = match &step.action {
            Action::Kernel(_) => kernels.next(),
            _ => None,
        };
        is_provisional |= matches!(kernel, Some(Err(NoCode::Later)));
        steps.push(maker.step(step, kernel)?);
    }
    let stale = Stale::default();
    let heat = maker.settle_variants(&of_segment.steps, &mut steps, &binding, &stale)?;
    let results = if segment + 1 == data.segments.len() {
        data.results
            .iter()
            .map(|&buffer| maker.tensor(buffer))
            .collect::<Result<_, _>>()?
    } else {
        Vec::new()
    };
    Ok(SegmentPlan {
        binding,
        arena,
        slots: maker.slots,
        own,
        steps,
        results,
        waits: is_provisional.then_some(Waits {
            since: published,
            is_asked_for: patience.compiles(),
        }),
        use_so_far: Use::default(),
        heat,
        stale,
        is_hot: AtomicBool::new(false),
    })
}

struct Maker<'a> {
    runtime: &'a Runtime,
    prepared: &'a Prepared,
    program: &'a Program,
    block: BlockId,
    /// The value of each size of the program that this segment needs.
    sizes: Vec<Option<i64>>,
    slots: Vec<usize>,
    segment: usize,
    earlier: &'a [Arc<SegmentPlan>],
}

impl Maker<'_> {
    // Sizes

    fn evaluate(&mut self, sizes: &[SizeId], binding: &Binding) -> Result<(), RuntimeError> {
        let table = self.program.graph().dims();
        let dims: Vec<_> = sizes
            .iter()
            .map(|&size| self.program.sizes().dim(size))
            .collect();
        match table.evaluate_all(&dims, binding) {
            Ok(values) => {
                for (&size, value) in sizes.iter().zip(values) {
                    self.sizes[cranelift_entity::EntityRef::index(size)] = Some(value);
                }
                Ok(())
            }
            // Once more, one by one, to say which.
            Err(error) => {
                let failing = |dim: &&_| table.evaluate(**dim, binding).is_err();
                let dim = dims.iter().find(failing);
                let what = dim.map_or_else(String::new, |&dim| table.display(dim).to_string());
                Err(RuntimeError::Size { what, error })
            }
        }
    }

    fn value(&self, size: SizeId) -> Result<i64, RuntimeError> {
        let value = self.sizes.get(cranelift_entity::EntityRef::index(size));
        value.copied().flatten().ok_or_else(|| {
            RuntimeError::malformed(format!("{size} is not among the sizes of its segment"))
        })
    }

    fn size(&self, size: SizeId) -> Result<usize, RuntimeError> {
        let value = self.value(size)?;
        usize::try_from(value).map_err(|_| {
            let dims = self.program.graph().dims();
            let what = dims.display(self.program.sizes().dim(size));
            RuntimeError::Requirement {
                step: self.program.graph().name().to_owned(),
                message: "sizes of at least 0".to_owned(),
                predicate: format!("{what} >= 0"),
                found: format!("{value}"),
            }
        })
    }

    fn shape(&self, buffer: BufferId) -> Result<SmallVec<[usize; 6]>, RuntimeError> {
        let buffer = &self.program.block(self.block).buffers[buffer];
        buffer.shape.iter().map(|&size| self.size(size)).collect()
    }

    /// The bytes from a buffer's first element to the end of its last.
    fn bytes(&self, id: BufferId) -> Result<usize, RuntimeError> {
        let buffer = &self.program.block(self.block).buffers[id];
        let shape = self.shape(id)?;
        let count = element_count(buffer.dtype, &shape)
            .map_err(RuntimeError::tensor(format!("%{}", buffer.name)))?;
        let width = buffer.dtype.size_in_bytes();
        let Some(strides) = &buffer.strides else {
            return Ok(count * width);
        };
        if count == 0 {
            return Ok(0);
        }
        let mut last = 0i64;
        for (&size, &stride) in shape.iter().zip(strides) {
            let reach = i64::try_from(size - 1)
                .ok()
                .and_then(|n| n.checked_mul(self.value(stride).ok()?));
            last = reach
                .and_then(|reach| last.checked_add(reach))
                .ok_or_else(|| {
                    RuntimeError::malformed(format!("%{} reaches out of memory", buffer.name))
                })?;
        }
        let end = usize::try_from(last)
            .ok()
            .and_then(|last| last.checked_add(1)?.checked_mul(width));
        end.ok_or_else(|| RuntimeError::malformed(format!("%{} is too large", buffer.name)))
    }

    // Places

    /// Lays the slots one after another; answers with the bytes of the arena.
    fn place_slots(&mut self) -> Result<usize, RuntimeError> {
        let block = self.program.block(self.block);
        let mut end = 0usize;
        for slot in &block.segments[self.segment].slots {
            let mut largest = 0;
            for &buffer in &slot.buffers {
                largest = largest.max(self.bytes(buffer)?);
            }
            let too_large = || RuntimeError::Tensor {
                context: "the arena".to_owned(),
                error: TensorError::Allocation { bytes: usize::MAX },
            };
            let start = end
                .checked_next_multiple_of(alignment_of(largest))
                .ok_or_else(too_large)?;
            self.slots.push(start);
            end = start.checked_add(largest).ok_or_else(too_large)?;
        }
        Ok(end)
    }

    /// Holds what the block takes, this segment and those before it, against the limit.
    fn check_live(&self, arena: usize, own: &[(MemoryIndex, usize)]) -> Result<(), RuntimeError> {
        let bytes = |arena: usize, own: &[(MemoryIndex, usize)]| {
            let own = own.iter().map(|&(_, bytes)| bytes as u64);
            own.fold(arena as u64, u64::saturating_add)
        };
        let earlier = self.earlier.iter().map(|plan| bytes(plan.arena, &plan.own));
        let given = earlier.fold(bytes(arena, own), u64::saturating_add);
        let limit = self.runtime.options().live_bytes;
        if given > limit {
            let at = OpSite {
                op: "graph",
                origin: self.program.graph().name().to_owned(),
            };
            return Err(InterpretError::LiveBytes { at, given, limit }.into());
        }
        Ok(())
    }

    fn own(&self, buffer: BufferId) -> Result<(MemoryIndex, usize), RuntimeError> {
        Ok((self.memory_of(buffer)?, self.bytes(buffer)?))
    }

    fn memory_of(&self, buffer: BufferId) -> Result<MemoryIndex, RuntimeError> {
        self.prepared
            .memory_of(self.block, buffer)
            .ok_or_else(|| RuntimeError::malformed(format!("{buffer} has no memory of its own")))
    }

    fn operand(&self, id: BufferId) -> Result<Operand, RuntimeError> {
        let buffers = &self.program.block(self.block).buffers;
        let bytes = self.bytes(id)?;
        let (root, elements) = match buffers[id].place {
            Place::View { of, offset } => (of, self.size(offset)?),
            _ => (id, 0),
        };
        // A view of nothing may begin anywhere; it is put at the start.
        let elements = if bytes == 0 { 0 } else { elements };
        let offset = elements
            .checked_mul(buffers[id].dtype.size_in_bytes())
            .ok_or_else(|| RuntimeError::malformed(format!("{id} lies out of memory")))?;
        let (memory, offset) = match buffers[root].place {
            Place::Constant(constant) => (OperandMemory::Fixed(self.constant(constant)?), offset),
            Place::Slot { segment, slot } => {
                let slots = match self.earlier.get(segment) {
                    Some(plan) => &plan.slots,
                    None => &self.slots,
                };
                let start = slots.get(slot).copied().ok_or_else(|| {
                    RuntimeError::malformed(format!("{root} lies in a slot that is not there"))
                })?;
                let index = u32::try_from(segment)
                    .map_err(|_| RuntimeError::malformed("too many segments"))?;
                (
                    OperandMemory::Run(MemoryIndex(index)),
                    start.saturating_add(offset),
                )
            }
            Place::View { .. } => {
                return Err(RuntimeError::malformed(format!(
                    "{root} is a view of a view"
                )));
            }
            _ => (OperandMemory::Run(self.memory_of(root)?), offset),
        };
        Ok(Operand {
            memory,
            offset,
            bytes,
        })
    }

    fn tensor(&self, id: BufferId) -> Result<TensorPlace, RuntimeError> {
        let buffer = &self.program.block(self.block).buffers[id];
        let shape = self.shape(id)?;
        let (mut order, mut apart) = (None, None);
        if let Some(strides) = &buffer.strides {
            let strides = strides.iter().map(|&size| self.value(size));
            let strides = strides.collect::<Result<Vec<_>, _>>()?;
            order = AxisOrder::of(&shape, &strides);
            if order.is_none() {
                let whole = strides.into_iter().map(isize::try_from);
                let whole = whole.collect::<Result<_, _>>();
                apart = Some(whole.map_err(|_| {
                    RuntimeError::malformed(format!("%{} reaches out of memory", buffer.name))
                })?);
            }
        }
        Ok(TensorPlace {
            operand: self.operand(id)?,
            dtype: buffer.dtype,
            apart,
            shape,
            order,
        })
    }

    fn tensors(&self, buffers: &[BufferId]) -> Result<Vec<TensorPlace>, RuntimeError> {
        buffers.iter().map(|&buffer| self.tensor(buffer)).collect()
    }

    // Kernels

    /// Chooses what the kernel steps need, and has compiled what is not there yet.
    fn choose_all(&self, steps: &[Step], patience: &Patience) -> Result<Vec<Chosen>, RuntimeError> {
        let launches = steps.iter().filter_map(|step| match &step.action {
            Action::Kernel(launch) => Some(launch),
            _ => None,
        });
        let wanted = launches.map(|launch| {
            let identity = self.prepared.identity(launch.kernel);
            let choices = self.prepared.choices(launch.kernel, self.runtime);
            Ok(Wanted {
                identity,
                choices: those_that_hold(identity, choices, &self.symbols(launch)?),
            })
        });
        let wanted: Vec<Wanted<'_>> = wanted.collect::<Result<_, RuntimeError>>()?;
        let recorder = &self.prepared.recorder;
        let chosen = self.runtime.obtain(&wanted, patience, recorder);
        patience.control.map_or(Ok(()), CallControl::check)?;
        Ok(chosen)
    }

    fn symbols(&self, launch: &KernelLaunch) -> Result<Vec<i64>, RuntimeError> {
        launch
            .symbols
            .iter()
            .map(|&size| self.value(size))
            .collect()
    }

    fn kernel(
        &self,
        launch: &KernelLaunch,
        compiled: Arc<CompiledKernel>,
        schedule: Schedule,
    ) -> Result<KernelPlan, RuntimeError> {
        let symbols = self.symbols(launch)?;
        let ctx = LaunchContext {
            symbols: &symbols,
            threads: self.runtime.pool().threads(),
            caches: self.runtime.executor().caches(),
        };
        let numbers = LaunchNumbers::of(&compiled, &ctx)?;
        let mut operands: SmallVec<[Operand; 6]> = SmallVec::new();
        for (position, &buffer) in launch.operands.iter().enumerate() {
            let specs = &compiled.artifact.packs;
            operands.push(match specs.iter().find(|spec| spec.buffer == position) {
                Some(spec) => {
                    let memory = self.packed(buffer, launch, (position, spec), &compiled)?;
                    let bytes = memory.bytes();
                    Operand {
                        memory: OperandMemory::Fixed(memory),
                        offset: 0,
                        bytes,
                    }
                }
                None => self.operand(buffer)?,
            });
        }
        Ok(KernelPlan {
            compiled,
            schedule,
            operands,
            numbers,
            symbols,
            rival: None,
        })
    }

    // Steps

    fn step(&self, step: &Step, kernel: Option<Chosen>) -> Result<StepPlan, RuntimeError> {
        Ok(match &step.action {
            Action::Kernel(launch) => match kernel {
                Some(Ok((compiled, schedule))) => {
                    StepPlan::Kernel(Box::new(self.kernel(launch, compiled, schedule)?))
                }
                Some(Err(NoCode::Error(error))) => self.interpreted(step, launch, error)?,
                Some(Err(NoCode::Later)) => self.on_the_host(launch, true)?,
                None => return Err(RuntimeError::malformed("a kernel step without a choice")),
            },
            Action::Builtin {
                builtin,
                inputs,
                outputs,
            } => StepPlan::Builtin(Box::new(BuiltinPlan {
                builtin: builtin.clone(),
                inputs: self.tensors(inputs)?,
                outputs: self.tensors(outputs)?,
            })),
            Action::Dims { sizes, output } => {
                let values = sizes.iter().map(|&size| self.value(size));
                StepPlan::Dims(values.collect::<Result<_, _>>()?, self.memory_of(*output)?)
            }
            action => StepPlan::Host(self.tensors(&self.program.reads(action))?),
        })
    }

    /// A kernel that will never have code is left to the interpreter, loudly; unless there is nothing but the interpreter.
    fn interpreted(
        &self,
        step: &Step,
        launch: &KernelLaunch,
        error: RuntimeError,
    ) -> Result<StepPlan, RuntimeError> {
        if error.ends_the_call() {
            return Err(error);
        }
        tracing::warn!(step = step.name, %error, "left to the interpreter");
        self.on_the_host(launch, false)
    }

    fn on_the_host(
        &self,
        launch: &KernelLaunch,
        is_meanwhile: bool,
    ) -> Result<StepPlan, RuntimeError> {
        let action = Action::Kernel(launch.clone());
        Ok(StepPlan::Interpreted {
            reads: self.tensors(&self.program.reads(&action))?,
            writes: self.tensors(&self.program.writes(&action))?,
            is_meanwhile,
        })
    }
}
