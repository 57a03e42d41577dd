//! The constants of a plan: the form each step needs, and bringing all of them into it at once.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cranelift_entity::EntityRef;
use kiln_backend::{KernelExecutor, Memory, PackSpec};
use kiln_ir::Constant;
use kiln_program::{Action, BufferId, ConstantId, KernelLaunch, Place, SizeId};
use kiln_symbolic_shape::Binding;
use smallvec::SmallVec;

use super::Maker;
use super::launches::Launches;
use crate::clock::Clock;
use crate::compile::{CompiledKernel, ConstantPart, ConstantStore, Patience, Wanted};
use crate::error::RuntimeError;
use crate::plan::Prepared;
use crate::plan::frame::{OperandMemory, OperandSlice};
use crate::plan::placed::PlacedLaunch;
use crate::recorder::Recorder;
use crate::runtime::Runtime;

/// The size of constants, in bytes, from which it is faster to prepare them on several threads.
const WORTH_THREADS: usize = 4 << 20;

/// A constant in the form that a step needs.
enum Need {
    Packed(ConstantPart, PackSpec),
    Plain(Constant),
}

impl Need {
    fn bytes(&self) -> usize {
        match self {
            Self::Packed(part, _) => part.bytes(),
            Self::Plain(constant) => constant.tensor().byte_len(),
        }
    }
}

/// Constants being prepared for steps.
struct Bringing {
    source: Source,
    needs: Vec<Need>,
}

impl Bringing {
    /// Prepares the missing ones, on several threads where that is worthwhile.
    fn run(mut self) {
        let store = &self.source.store;
        self.needs.retain(|need| match need {
            Need::Packed(part, spec) => !store.has_packed(part, spec),
            Need::Plain(constant) => !store.has_plain(constant),
        });
        if self.needs.is_empty() {
            return;
        }
        // The largest first, so that no thread has to start on it at the end.
        self.needs.sort_by_key(|need| Reverse(need.bytes()));
        let _span = self.source.recorder.constants();
        let next = AtomicUsize::new(0);
        let bring = || {
            while let Some(need) = self.needs.get(next.fetch_add(1, Ordering::Relaxed)) {
                // A failure is reported when a step needs the constant.
                let _ = self.source.bring(need);
            }
        };
        let threads = match total_bytes(&self.needs) < WORTH_THREADS {
            true => 1,
            false => self.source.executor.parallelism().min(self.needs.len()),
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // If a thread cannot be started, the others do the work.
                let _ = std::thread::Builder::new().spawn_scoped(scope, bring);
            }
            bring();
        });
        // Only now is it known which of them are read unpacked.
        for need in &self.needs {
            if let Need::Packed(part, spec) = need {
                store.release(&*self.source.executor, part, spec);
            }
        }
    }
}

/// The state needed to prepare constants. It holds no runtime: if a call ends, the work continues alone.
struct Source {
    store: Arc<ConstantStore>,
    executor: Arc<dyn KernelExecutor>,
    clock: Arc<dyn Clock>,
    recorder: Recorder,
}

impl Source {
    fn bring(&self, need: &Need) -> Result<Memory, RuntimeError> {
        let (store, executor) = (&self.store, &*self.executor);
        match need {
            Need::Packed(part, spec) => {
                store.packed(executor, part, spec, &*self.clock, &self.recorder)
            }
            Need::Plain(constant) => {
                let _span = self.recorder.load_constants();
                store.plain(executor, constant)
            }
        }
    }

    /// Constants that are already prepared.
    fn ready(&self, need: &Need) -> Option<Memory> {
        match need {
            Need::Packed(part, spec) => self.store.packed_if_ready(part, spec),
            Need::Plain(constant) => self.store.plain_if_ready(constant),
        }
    }
}

fn total_bytes(needs: &[Need]) -> usize {
    needs.iter().map(Need::bytes).fold(0, usize::saturating_add)
}

/// Prepares every constant of a program for the code that serves all sizes.
pub(crate) fn place_all_constants(runtime: &Runtime, prepared: &Prepared, patience: &Patience) {
    let program = &prepared.program;
    for (block, data) in program.blocks() {
        for (segment, of_segment) in data.segments.iter().enumerate() {
            let mut maker = Maker::new(runtime, prepared, block, segment, &[], None);
            maker.evaluate_constants(&of_segment.sizes);
            let launches = of_segment
                .steps
                .iter()
                .filter_map(|step| match &step.action {
                    Action::Kernel(launch) => Some(launch),
                    _ => None,
                });
            let launches: Vec<&KernelLaunch> = launches.collect();
            let (manager, recorder) = (runtime.manager(), &prepared.recorder);
            let wanted = launches.iter().map(|launch| {
                let context = prepared.kernel(launch.kernel);
                context.wanted_at_all_sizes(manager.kernels())
            });
            let wanted: Vec<Wanted<'_>> = wanted.collect();
            let chosen = manager.get_or_compile(&wanted, patience, recorder);
            let code = chosen.iter().map(|chosen| Some(&chosen.as_ref().ok()?.0));
            // It cannot be cancelled.
            let _ = maker.bring(launches.into_iter().zip(code));
        }
    }
}

impl Maker<'_> {
    /// The sizes that depend on nothing.
    fn evaluate_constants(&mut self, sizes: &[SizeId]) {
        let (table, nothing) = (self.program.graph().dims(), Binding::default());
        for &size in sizes {
            let value = table.evaluate(self.program.sizes().dim(size), &nothing);
            if let Some(place) = self.sizes.get_mut(size.index()) {
                *place = value.ok();
            }
        }
    }

    /// The constants of each launch that were placed for other sizes; the others are prepared for its code.
    pub(super) fn place_constants(
        &self,
        launches: &Launches<'_>,
    ) -> Result<Vec<Option<Arc<PlacedLaunch>>>, RuntimeError> {
        let placed = self.prepared.placed(self.block, self.segment);
        let known = placed.all(launches.with_code().map(|(_, code)| code));
        let unknown = launches.with_code().zip(&known);
        let unknown = unknown.filter(|(_, known)| known.is_none());
        self.bring(unknown.map(|(launch, _)| launch))?;
        Ok(known)
    }

    /// Prepares the constants of launches for their code. If they are large, a call that is to end does not wait for it.
    fn bring<'l>(
        &self,
        launches: impl Iterator<Item = (&'l KernelLaunch, Option<&'l Arc<CompiledKernel>>)>,
    ) -> Result<(), RuntimeError> {
        let mut needs = Vec::new();
        for (launch, compiled) in launches {
            let Some(compiled) = compiled else { continue };
            for (position, &buffer) in launch.operands.iter().enumerate() {
                let specs = &compiled.artifact.packs;
                let need = match specs.iter().find(|spec| spec.buffer == position) {
                    Some(spec) => self
                        .constant_part(buffer, launch, position)
                        .ok()
                        .map(|part| Need::Packed(part, spec.clone())),
                    None => self.constant_of(buffer).cloned().map(Need::Plain),
                };
                needs.extend(need);
            }
        }
        if needs.is_empty() {
            return Ok(());
        }
        let is_large = total_bytes(&needs) >= WORTH_THREADS;
        let bringing = Bringing {
            source: self.source(),
            needs,
        };
        match self.control.filter(|_| is_large) {
            Some(control) => control.wait_for(move || bringing.run())?,
            None => bringing.run(),
        }
        self.runtime.store_constants(&self.prepared.recorder);
        Ok(())
    }

    /// A constant prepared for code's operand at a position.
    pub(super) fn packed(
        &self,
        buffer: BufferId,
        launch: &KernelLaunch,
        (position, spec): (usize, &PackSpec),
    ) -> Result<Memory, RuntimeError> {
        let part = self.constant_part(buffer, launch, position)?;
        self.brought(Need::Packed(part, spec.clone()))
    }

    /// A prepared constant: a call that is to end does not wait for it.
    fn brought(&self, need: Need) -> Result<Memory, RuntimeError> {
        let source = self.source();
        match (source.ready(&need), self.control) {
            (Some(memory), _) => Ok(memory),
            (None, Some(control)) => control.wait_for(move || source.bring(&need))?,
            (None, None) => source.bring(&need),
        }
    }

    fn source(&self) -> Source {
        Source {
            store: Arc::clone(self.runtime.constants()),
            executor: self.runtime.shared_executor(),
            clock: self.runtime.shared_clock(),
            recorder: self.prepared.recorder.clone(),
        }
    }

    /// The memory of an operand that is a constant for all sizes.
    pub(super) fn lasting(
        &self,
        launch: &KernelLaunch,
        compiled: &CompiledKernel,
        position: usize,
        operand: &OperandSlice,
    ) -> Option<Memory> {
        let OperandMemory::Fixed(memory) = &operand.memory else {
            return None;
        };
        let buffer = *launch.operands.get(position)?;
        let place = &self.program.block(self.block).buffers[buffer].place;
        let packs = &mut compiled.artifact.packs.iter();
        let is_packed = packs.any(|spec| spec.buffer == position);
        // Which part of a constant is packed may depend on sizes.
        (!is_packed || matches!(place, Place::Constant(_))).then(|| memory.clone())
    }

    pub(super) fn constant(&self, constant: ConstantId) -> Result<Memory, RuntimeError> {
        let constant = self.program.constants()[constant].clone();
        let _span = self.prepared.recorder.constants();
        self.brought(Need::Plain(constant))
    }

    /// The constant that a buffer is, or is a view of.
    fn constant_of(&self, id: BufferId) -> Option<&Constant> {
        let buffers = &self.program.block(self.block).buffers;
        let root = match buffers[id].place {
            Place::View { of, .. } => of,
            _ => id,
        };
        match buffers[root].place {
            Place::Constant(constant) => Some(&self.program.constants()[constant]),
            _ => None,
        }
    }

    /// The constant that an operand is, or is a part of, in the kernel's shape.
    pub(super) fn constant_part(
        &self,
        id: BufferId,
        launch: &KernelLaunch,
        position: usize,
    ) -> Result<ConstantPart, RuntimeError> {
        let buffers = &self.program.block(self.block).buffers;
        let buffer = &buffers[id];
        let (root, offset) = match buffer.place {
            Place::View { of, offset } => (of, self.size(offset)?),
            _ => (id, 0),
        };
        let Place::Constant(constant) = buffers[root].place else {
            let problem = format!("%{} is packed and not a constant", buffer.name);
            return Err(RuntimeError::malformed(problem));
        };
        let kernel = self.program.kernel(launch.kernel);
        let dims = kernel.kernel().dims();
        // Sizes of constants do not depend on a call's sizes.
        let known = dims.symbols().zip(&launch.symbols);
        let known = known.filter_map(|(symbol, &size)| Some((symbol, self.value(size).ok()?)));
        let binding: Binding = known.collect();
        let of_kernel = kernel.kernel().buffers().values().nth(position);
        let sizes = of_kernel.into_iter().flat_map(|buffer| &buffer.shape);
        let sizes = sizes.map(|&dim| {
            dims.evaluate(dim, &binding)
                .ok()
                .and_then(|n| usize::try_from(n).ok())
        });
        let shape: Option<SmallVec<[usize; 6]>> = sizes.collect();
        let shape = shape.ok_or_else(|| {
            RuntimeError::malformed(format!("%{} has no sizes in its kernel", buffer.name))
        })?;
        Ok(ConstantPart {
            constant: self.program.constants()[constant].clone(),
            offset,
            shape,
        })
    }
}
