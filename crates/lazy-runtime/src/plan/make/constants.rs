//! Constants of a plan: which form of which one a step wants, and having all of them brought into it at once.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cranelift_entity::EntityRef;
use kiln_ir::Constant;
use kiln_kernel::{Memory, PackSpec};
use kiln_program::{Action, BufferId, ConstantId, KernelLaunch, Place, SizeId};
use kiln_symbolic_shape::Binding;
use smallvec::SmallVec;

use super::Maker;
use super::launches::Launches;
use crate::compile::{CompiledKernel, ConstantPart, Patience, Wanted};
use crate::error::RuntimeError;
use crate::plan::Prepared;
use crate::plan::frame::{Operand, OperandMemory};
use crate::plan::placed::PlacedLaunch;
use crate::runtime::Runtime;

/// Bytes of constants from which on it is quicker to bring them into form on several threads.
const WORTH_THREADS: usize = 4 << 20;

/// A constant in the form in which a step wants it.
enum Need<'a> {
    Packed(ConstantPart<'a>, &'a PackSpec),
    Plain(&'a Constant),
}

impl Need<'_> {
    fn bytes(&self) -> usize {
        match self {
            Self::Packed(part, _) => part.bytes(),
            Self::Plain(constant) => constant.tensor().byte_len(),
        }
    }
}

/// Brings every constant of a program into the form in which the code that serves all sizes wants it.
pub(crate) fn place_all_constants(runtime: &Runtime, prepared: &Prepared, patience: &Patience) {
    let program = &prepared.program;
    for (block, data) in program.blocks() {
        for (segment, of_segment) in data.segments.iter().enumerate() {
            let mut maker = Maker::new(runtime, prepared, block, segment, &[]);
            maker.evaluate_constants(&of_segment.sizes);
            let launches = of_segment
                .steps
                .iter()
                .filter_map(|step| match &step.action {
                    Action::Kernel(launch) => Some(launch),
                    _ => None,
                });
            let launches: Vec<&KernelLaunch> = launches.collect();
            let wanted = launches.iter().map(|launch| Wanted {
                identity: prepared.identity(launch.kernel),
                choices: prepared
                    .choices(launch.kernel, runtime)
                    .iter()
                    .filter(|choice| choice.candidate.predicate.is_empty())
                    .collect(),
            });
            let wanted: Vec<Wanted<'_>> = wanted.collect();
            let chosen = runtime.obtain(&wanted, patience, &prepared.recorder);
            let code = chosen.iter().map(|chosen| Some(&chosen.as_ref().ok()?.0));
            maker.bring(launches.into_iter().zip(code));
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

    /// The constants of each launch that were placed for other sizes; the others are brought into the form that its code
    /// wants.
    pub(super) fn place_constants(
        &self,
        launches: &Launches<'_>,
    ) -> Vec<Option<Arc<PlacedLaunch>>> {
        let placed = self.prepared.placed(self.block, self.segment);
        let known = placed.all(launches.with_code().map(|(_, code)| code));
        let unknown = launches.with_code().zip(&known);
        self.bring(
            unknown
                .filter(|(_, known)| known.is_none())
                .map(|(launch, _)| launch),
        );
        known
    }

    /// Brings the constants of launches into the form that their code wants, on several threads where that is worth
    /// while. What goes wrong is told when a step asks for the constant.
    fn bring<'l>(
        &self,
        launches: impl Iterator<Item = (&'l KernelLaunch, Option<&'l Arc<CompiledKernel>>)>,
    ) {
        let store = self.runtime.constants();
        let mut wanted = Vec::new();
        for (launch, compiled) in launches {
            let Some(compiled) = compiled else { continue };
            for (position, &buffer) in launch.operands.iter().enumerate() {
                let specs = &compiled.artifact.packs;
                let need = match specs.iter().find(|spec| spec.buffer == position) {
                    Some(spec) => match self.constant_part(buffer, launch, position) {
                        Ok(part) if !store.has_packed(&part, spec) => Need::Packed(part, spec),
                        _ => continue,
                    },
                    None => match self.constant_of(buffer) {
                        Some(constant) if !store.has_plain(constant) => Need::Plain(constant),
                        _ => continue,
                    },
                };
                wanted.push(need);
            }
        }
        if wanted.is_empty() {
            return;
        }
        // The largest first, so that no thread is left with it in the end.
        wanted.sort_by_key(|need| Reverse(need.bytes()));
        let recorder = &self.prepared.recorder;
        let _span = recorder.constants();
        let next = AtomicUsize::new(0);
        let pack = || {
            while let Some(need) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                let _ = match need {
                    Need::Packed(part, spec) => self.runtime.packed_constant(part, spec, recorder),
                    Need::Plain(constant) => {
                        let _span = recorder.load_constants();
                        store.plain(self.runtime.executor(), constant)
                    }
                };
            }
        };
        let bytes = wanted.iter().map(Need::bytes);
        let threads = match bytes.fold(0, usize::saturating_add) < WORTH_THREADS {
            true => 1,
            false => self.runtime.pool().threads().min(wanted.len()),
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // One that cannot be had is one less.
                let _ = std::thread::Builder::new().spawn_scoped(scope, pack);
            }
            pack();
        });
        self.runtime.store_constants(recorder);
    }

    /// A constant in the form in which code wants its operand at a position.
    pub(super) fn packed(
        &self,
        buffer: BufferId,
        launch: &KernelLaunch,
        (position, spec): (usize, &PackSpec),
    ) -> Result<Memory, RuntimeError> {
        let part = self.constant_part(buffer, launch, position)?;
        let recorder = &self.prepared.recorder;
        self.runtime.packed_constant(&part, spec, recorder)
    }

    /// The memory of an operand that is a constant whatever the sizes.
    pub(super) fn lasting(
        &self,
        launch: &KernelLaunch,
        compiled: &CompiledKernel,
        position: usize,
        operand: &Operand,
    ) -> Option<Memory> {
        let OperandMemory::Fixed(memory) = &operand.memory else {
            return None;
        };
        let buffer = *launch.operands.get(position)?;
        let place = &self.program.block(self.block).buffers[buffer].place;
        let packs = &mut compiled.artifact.packs.iter();
        let is_packed = packs.any(|spec| spec.buffer == position);
        // Of a part of one, which part is packed may depend on sizes.
        (!is_packed || matches!(place, Place::Constant(_))).then(|| memory.clone())
    }

    pub(super) fn constant(&self, constant: ConstantId) -> Result<Memory, RuntimeError> {
        let constant = &self.program.constants()[constant];
        let _span = self.prepared.recorder.constants();
        self.runtime
            .constants()
            .plain(self.runtime.executor(), constant)
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

    /// The constant that an operand is, or is a part of, in the shape in which the kernel has it.
    pub(super) fn constant_part(
        &self,
        id: BufferId,
        launch: &KernelLaunch,
        position: usize,
    ) -> Result<ConstantPart<'_>, RuntimeError> {
        let buffers = &self.program.block(self.block).buffers;
        let buffer = &buffers[id];
        let (root, offset) = match buffer.place {
            Place::View { of, offset } => (of, self.size(offset)?),
            _ => (id, 0),
        };
        let Place::Constant(constant) = buffers[root].place else {
            let problem = format!("%{} is packed, and no constant", buffer.name);
            return Err(RuntimeError::malformed(problem));
        };
        let kernel = self.program.kernel(launch.kernel);
        let dims = kernel.kernel().dims();
        // Sizes of constants depend on none that calls bring.
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
            constant: &self.program.constants()[constant],
            offset,
            shape,
        })
    }
}
