//! Builds the launch plan of a segment: checks facts, evaluates sizes, chooses and compiles kernels, resolves operands.

mod constants;
mod launches;
mod variants;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kiln_backend::Memory;
use kiln_interpreter::{InterpretError, OpSite, check_window_elements};
use kiln_ir::{LoopCourse, LoopTrips, Op};
use kiln_program::{Action, BlockId, BufferId, KernelLaunch, Place, Program, SizeId, Step};
use kiln_symbolic_shape::Binding;
use kiln_tensor::{TensorError, element_count};
use smallvec::SmallVec;

use self::launches::{GroupCode, LaunchGroup, PlannedLaunch};
use super::frame::{MemoryIndex, OperandMemory, OperandSlice};
use super::placed::PlacedLaunch;
use super::{
    AxisOrder, BuiltinPlan, DonationPlan, KernelPlan, OwnMemory, Prepared, Refusal, SegmentPlan,
    StepPlan, TensorPlace, Until, Use, Waits, arena, facts,
};
use crate::call::CallControl;
use crate::compile::Patience;
use crate::error::RuntimeError;
use crate::run::{fault_of, site_of};
use crate::runtime::Runtime;
use crate::variants::Stale;

pub(crate) use constants::place_all_constants;

/// Makes the plan of a segment for these values of symbols. `earlier` are the plans of the previous segments, for the same
/// values.
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
    check_windows(runtime, program, &of_segment.steps, &binding)?;
    check_iterations(runtime, program, &of_segment.steps, &binding)?;
    let control = patience.control;
    let mut maker = Maker::new(runtime, prepared, block, segment, earlier, control);
    maker.evaluate(&of_segment.sizes, &binding)?;
    let arena = maker.place_buffers()?;
    let own = of_segment.own.iter().map(|&buffer| maker.own(buffer));
    let mut own = own.collect::<Result<Vec<_>, _>>()?;
    maker.check_live(arena, &own)?;
    // Read before anything is requested, so that code that becomes ready meanwhile is not missed.
    let published = runtime.published();
    let launches = maker.launches(&of_segment.steps, patience)?;
    let placed = maker.place_constants(&launches)?;
    let mut planned = launches.of_step.iter().zip(&placed).enumerate();
    let mut is_provisional = false;
    let mut steps = Vec::with_capacity(of_segment.steps.len());
    for step in &of_segment.steps {
        steps.push(match &step.action {
            Action::Kernel(_) => {
                let Some((number, (planned, placed))) = planned.next() else {
                    return Err(RuntimeError::malformed("a kernel step without a launch").into());
                };
                let group = &launches.groups[planned.group];
                is_provisional |= matches!(group.code, GroupCode::Interpreter(Until::Code));
                maker.launch(number, *planned, group, placed.as_deref())?
            }
            action => maker.step(action)?,
        });
    }
    let stale = Stale::default();
    let heat = maker.settle_variants(&of_segment.steps, &launches, &mut steps, &binding, &stale)?;
    let results: Vec<TensorPlace> = if segment + 1 == data.segments.len() {
        data.results
            .iter()
            .map(|&buffer| maker.tensor(buffer))
            .collect::<Result<_, _>>()?
    } else {
        Vec::new()
    };
    let is_host = |step: &StepPlan| matches!(step, StepPlan::Host(_) | StepPlan::Loop { .. });
    let mut donations = Vec::new();
    if data.segments.len() == 1 && !steps.iter().any(is_host) {
        donations = maker.donations(&own, &results)?;
        let lends_from = runtime.executor().lends_from();
        for own in own.iter_mut().filter(|own| own.bytes >= lends_from) {
            own.result = result_in(own, &results);
        }
    }
    Ok(SegmentPlan {
        id: SegmentPlan::next_id(),
        binding,
        arena,
        starts: match segment + 1 == data.segments.len() {
            true => Vec::new(),
            false => maker.starts,
        },
        own,
        donations,
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

/// Rejects windows of more elements than the limit.
fn check_windows(
    runtime: &Runtime,
    program: &Program,
    steps: &[Step],
    binding: &Binding,
) -> Result<(), RuntimeError> {
    let (graph, limit) = (program.graph(), runtime.options().window_elements);
    steps.iter().flat_map(|step| &step.ops).try_for_each(|&op| {
        let checked = check_window_elements(graph, op, binding, limit);
        checked.map_err(|fault| fault_of(graph, op, fault))
    })
}

/// Rejects loops that are kernels and have more iterations than the limit. Loops that the host walks count theirs.
fn check_iterations(
    runtime: &Runtime,
    program: &Program,
    steps: &[Step],
    binding: &Binding,
) -> Result<(), RuntimeError> {
    let (graph, limit) = (program.graph(), runtime.options().loop_iterations);
    let is_kernel = |step: &&Step| matches!(step.action, Action::Kernel(_));
    for &op in steps.iter().filter(is_kernel).flat_map(|step| &step.ops) {
        if !matches!(graph.op(op).op, Op::Loop { .. }) {
            continue;
        }
        let trips = match LoopCourse::of(graph, op).trips {
            Some(LoopTrips::Count(count)) => count,
            Some(LoopTrips::Size(size)) => graph.dims().evaluate(size, binding).unwrap_or(0),
            None => 0,
        };
        if u64::try_from(trips).is_ok_and(|trips| trips > limit) {
            let at = site_of(graph, op);
            return Err(InterpretError::Iterations { at, limit }.into());
        }
    }
    Ok(())
}

/// The only result in a memory, if it fills that.
fn result_in(own: &OwnMemory, results: &[TensorPlace]) -> Option<usize> {
    let mut inside = results.iter().enumerate().filter(|(_, place)| {
        matches!(place.operand.memory, OperandMemory::Run(index) if index == own.index)
    });
    let (Some((number, place)), None) = (inside.next(), inside.next()) else {
        return None;
    };
    place.fills(own).then_some(number)
}

struct Maker<'a> {
    runtime: &'a Runtime,
    prepared: &'a Prepared,
    program: &'a Program,
    block: BlockId,
    /// The value of each size of the program that this segment needs.
    sizes: Vec<Option<i64>>,
    /// The bytes of each queried buffer.
    bytes: RefCell<Vec<Option<usize>>>,
    /// The offsets of the buffers in the arena, by buffer.
    starts: Vec<(BufferId, usize)>,
    segment: usize,
    earlier: &'a [Arc<SegmentPlan>],
    /// The cancellation of the call that the plan is for.
    control: Option<&'a CallControl>,
}

impl<'a> Maker<'a> {
    fn new(
        runtime: &'a Runtime,
        prepared: &'a Prepared,
        block: BlockId,
        segment: usize,
        earlier: &'a [Arc<SegmentPlan>],
        control: Option<&'a CallControl>,
    ) -> Self {
        let program = &prepared.program;
        Self {
            runtime,
            prepared,
            program,
            block,
            sizes: vec![None; program.sizes().len()],
            bytes: RefCell::new(vec![None; program.block(block).buffers.len()]),
            starts: Vec::new(),
            segment,
            earlier,
            control,
        }
    }

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
            // Evaluate again, one by one, to find which failed.
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
        let place = cranelift_entity::EntityRef::index(id);
        let known = self.bytes.borrow().get(place).copied().flatten();
        if let Some(bytes) = known {
            return Ok(bytes);
        }
        let bytes = self.evaluate_bytes(id)?;
        if let Some(known) = self.bytes.borrow_mut().get_mut(place) {
            *known = Some(bytes);
        }
        Ok(bytes)
    }

    fn evaluate_bytes(&self, id: BufferId) -> Result<usize, RuntimeError> {
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
                    RuntimeError::malformed(format!("%{} extends beyond its memory", buffer.name))
                })?;
        }
        let end = usize::try_from(last)
            .ok()
            .and_then(|last| last.checked_add(1)?.checked_mul(width));
        end.ok_or_else(|| RuntimeError::malformed(format!("%{} is too large", buffer.name)))
    }

    // Places

    /// Places each of its buffers in the arena; returns the bytes of the arena.
    fn place_buffers(&mut self) -> Result<usize, RuntimeError> {
        let lifetimes = self.prepared.lifetimes(self.block, self.segment);
        let bytes = lifetimes.iter().map(|lifetime| self.bytes(lifetime.buffer));
        let bytes = bytes.collect::<Result<Vec<usize>, _>>()?;
        let (starts, end) =
            arena::place(lifetimes, &bytes).ok_or_else(|| RuntimeError::Tensor {
                context: "the arena".to_owned(),
                error: TensorError::Allocation { bytes: usize::MAX },
            })?;
        let buffers = lifetimes.iter().map(|lifetime| lifetime.buffer);
        self.starts = buffers.zip(starts).collect();
        self.starts.sort_unstable();
        Ok(end)
    }

    /// Checks the memory of the block, of this segment and those before it, against the limit.
    fn check_live(&self, arena: usize, own: &[OwnMemory]) -> Result<(), RuntimeError> {
        let bytes = |arena: usize, own: &[OwnMemory]| {
            let own = own.iter().map(|own| own.bytes as u64);
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

    fn own(&self, buffer: BufferId) -> Result<OwnMemory, RuntimeError> {
        Ok(OwnMemory {
            index: self.memory_of(buffer)?,
            bytes: self.bytes(buffer)?,
            result: None,
        })
    }

    /// The parameters whose memory a result may have: only of the program's body, if each result that the program lists
    /// has separate memory for itself.
    fn donations(
        &self,
        own: &[OwnMemory],
        results: &[TensorPlace],
    ) -> Result<Vec<DonationPlan>, RuntimeError> {
        if self.block != self.program.body() {
            return Ok(Vec::new());
        }
        let block = self.program.block(self.block);
        let mut donations = Vec::with_capacity(block.donations.len());
        for donation in &block.donations {
            let (Some(&parameter), Some(place)) = (
                block.parameters.get(donation.parameter),
                results.get(donation.result),
            ) else {
                continue;
            };
            let own = own.iter().find(|own| place.fills(own));
            if let Some(own) = own
                && own.bytes == self.bytes(parameter)?
            {
                donations.push(DonationPlan {
                    parameter: donation.parameter,
                    own: own.index,
                    result: donation.result,
                });
            }
        }
        Ok(donations)
    }

    fn memory_of(&self, buffer: BufferId) -> Result<MemoryIndex, RuntimeError> {
        self.prepared
            .memory_of(self.block, buffer)
            .ok_or_else(|| RuntimeError::malformed(format!("{buffer} has no memory of its own")))
    }

    fn operand(&self, id: BufferId) -> Result<OperandSlice, RuntimeError> {
        self.operand_with(id, None)
    }

    /// An operand; if it is a constant, or a part of one, in this memory if that is known.
    fn operand_with(
        &self,
        id: BufferId,
        known: Option<&Memory>,
    ) -> Result<OperandSlice, RuntimeError> {
        let buffers = &self.program.block(self.block).buffers;
        let bytes = self.bytes(id)?;
        let (root, elements) = match buffers[id].place {
            Place::View { of, offset } => (of, self.size(offset)?),
            _ => (id, 0),
        };
        // An empty view may begin anywhere; it is put at the start.
        let elements = if bytes == 0 { 0 } else { elements };
        let offset = elements
            .checked_mul(buffers[id].dtype.size_in_bytes())
            .ok_or_else(|| RuntimeError::malformed(format!("{id} is outside its memory")))?;
        let (memory, offset) = match buffers[root].place {
            Place::Constant(constant) => {
                let memory = match known {
                    Some(memory) => memory.clone(),
                    None => self.constant(constant)?,
                };
                (OperandMemory::Fixed(memory), offset)
            }
            Place::Slot { segment, .. } => {
                let starts = match self.earlier.get(segment) {
                    Some(plan) => &plan.starts,
                    None => &self.starts,
                };
                let position = starts.binary_search_by_key(&root, |&(buffer, _)| buffer);
                let start = position.ok().and_then(|position| starts.get(position));
                let &(_, start) = start.ok_or_else(|| {
                    RuntimeError::malformed(format!("{root} is in the arena, and no step uses it"))
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
        Ok(OperandSlice {
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
                    RuntimeError::malformed(format!("%{} extends beyond its memory", buffer.name))
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

    // Steps

    /// The launch of a kernel, or what the interpreter needs to compute it.
    fn launch(
        &self,
        number: usize,
        PlannedLaunch { launch, .. }: PlannedLaunch<'_>,
        group: &LaunchGroup,
        placed: Option<&PlacedLaunch>,
    ) -> Result<StepPlan, RuntimeError> {
        let (compiled, schedule) = match &group.code {
            GroupCode::Ready(compiled, schedule) => (compiled, schedule),
            GroupCode::Interpreter(until) => return self.on_the_host(launch, *until),
        };
        let Some(numbers) = &group.numbers else {
            return Err(RuntimeError::malformed(
                "code without the numbers of its launch",
            ));
        };
        let mut operands: SmallVec<[OperandSlice; 6]> = SmallVec::new();
        for (position, &buffer) in launch.operands.iter().enumerate() {
            let specs = &compiled.artifact.packs;
            let known = placed.and_then(|placed| placed.memories.get(position)?.as_ref());
            operands.push(match specs.iter().find(|spec| spec.buffer == position) {
                Some(spec) => {
                    let memory = match known {
                        Some(memory) => memory.clone(),
                        None => self.packed(buffer, launch, (position, spec))?,
                    };
                    let bytes = memory.bytes();
                    OperandSlice {
                        memory: OperandMemory::Fixed(memory),
                        offset: 0,
                        bytes,
                    }
                }
                None => self.operand_with(buffer, known)?,
            });
        }
        if placed.is_none() {
            let memories = operands.iter().enumerate();
            let memories = memories
                .map(|(position, operand)| self.lasting(launch, compiled, position, operand));
            let constants = PlacedLaunch::new(compiled, memories);
            let placed = self.prepared.placed(self.block, self.segment);
            placed.insert(number, constants);
        }
        Ok(StepPlan::Kernel(Box::new(KernelPlan {
            compiled: Arc::clone(compiled),
            schedule: Arc::clone(schedule),
            operands,
            numbers: Arc::clone(numbers),
            symbols: Arc::clone(&group.symbols),
            rival: None,
        })))
    }

    fn step(&self, action: &Action) -> Result<StepPlan, RuntimeError> {
        Ok(match action {
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
            Action::Loop { course, .. } => StepPlan::Loop {
                reads: self.tensors(&self.program.reads(action))?,
                trips: course.trips.map(|trips| self.value(trips)).transpose()?,
            },
            action => StepPlan::Host(self.tensors(&self.program.reads(action))?),
        })
    }

    fn on_the_host(&self, launch: &KernelLaunch, until: Until) -> Result<StepPlan, RuntimeError> {
        let action = Action::Kernel(launch.clone());
        Ok(StepPlan::Interpreted {
            reads: self.tensors(&self.program.reads(&action))?,
            writes: self.tensors(&self.program.writes(&action))?,
            until,
        })
    }
}
