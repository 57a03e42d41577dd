//! The kernel ABI, as seen from inside a phase.
//!
//! A phase is `extern "C" fn(args, scratch, first, last)`: it runs tasks `first..last`. `args` points to five words: the
//! buffers' base addresses, the sizes (the artifact's evaluated arguments), the scratch memory shared by all tasks, the
//! fault word, and the stop word. None of these tables changes during a launch. The stop word is 0 until the launch is
//! stopped; code that reads another value returns. The fault word keeps the first fault: `site << 8 | cause`.

use inkwell::values::BasicValue as _;

use crate::emit::{Elem, Emitter, Value};
use crate::module::PhaseParameters;

const BUFFERS: i64 = 0;
const SIZES: i64 = 8;
const SHARED: i64 = 16;
const FAULT: i64 = 24;
const STOP: i64 = 32;

/// Why a kernel faults; the low byte of the fault word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultCause {
    IndexOutOfRange = 1,
    DivisionByZero = 2,
}

/// The launch arguments of a phase. Load each one once, at the start of the function.
#[derive(Clone, Copy)]
pub(crate) struct Launch<'ctx> {
    arguments: Value<'ctx>,
}

impl<'ctx> Launch<'ctx> {
    pub(crate) fn new(parameters: PhaseParameters<'ctx>) -> Launch<'ctx> {
        Launch {
            arguments: parameters.arguments,
        }
    }

    /// The base address of a buffer, by its position in the kernel.
    pub(crate) fn buffer(self, e: &Emitter<'_, 'ctx>, position: usize) -> Value<'ctx> {
        self.entry(e, BUFFERS, position, Elem::Pointer)
    }

    /// An evaluated argument of the artifact, an i64, by its position.
    pub(crate) fn size(self, e: &Emitter<'_, 'ctx>, position: usize) -> Value<'ctx> {
        self.entry(e, SIZES, position, Elem::I64)
    }

    /// The scratch memory shared by all tasks.
    pub(crate) fn shared(self, e: &Emitter<'_, 'ctx>) -> Value<'ctx> {
        self.word(e, SHARED)
    }

    /// Makes the loops emitted from here on return once the launch is stopped.
    pub(crate) fn poll(self, e: &Emitter<'_, 'ctx>) {
        e.poll_at(self.word(e, STOP));
    }

    /// Records a fault of a site (numbered below 2^24) if the i1 is true.
    pub(crate) fn fault_if(
        self,
        e: &Emitter<'_, 'ctx>,
        condition: Value<'ctx>,
        site: u32,
        cause: FaultCause,
    ) {
        e.when(condition, || {
            let word = e.int_of(Elem::I32, 1, i64::from((site << 8) | cause as u32));
            e.set_if_zero(self.word(e, FAULT), word);
        });
    }

    fn entry(self, e: &Emitter<'_, 'ctx>, table: i64, position: usize, elem: Elem) -> Value<'ctx> {
        let table = self.word(e, table);
        let place = e.offset(table, e.i64(8 * position as i64));
        invariant(e, e.load(e.ty(elem, 1), place, 8))
    }

    fn word(self, e: &Emitter<'_, 'ctx>, offset: i64) -> Value<'ctx> {
        let place = e.offset(self.arguments, e.i64(offset));
        invariant(e, e.load(e.ty(Elem::Pointer, 1), place, 8))
    }
}

/// Marks a load as invariant, so that LLVM can hoist it out of loops.
fn invariant<'ctx>(e: &Emitter<'_, 'ctx>, loaded: Value<'ctx>) -> Value<'ctx> {
    if let Some(instruction) = loaded.as_instruction_value() {
        let context = e.module().context();
        let kind = context.get_kind_id("invariant.load");
        // This fails only on a value that is not an instruction.
        let _ = instruction.set_metadata(context.metadata_node(&[]), kind);
    }
    loaded
}

#[cfg(test)]
mod tests {
    use kiln_native::LaunchArguments;

    use super::*;
    use crate::session::{Output, compile_module};
    use crate::testing::{host_levels, load_phase, request};
    use kiln_backend::IsaLevel;

    #[test]
    fn a_phase_reads_its_arguments_and_records_the_first_fault() {
        for level in host_levels() {
            let object = compile_module(request(level, Output::Object), &mut |_| {}, |module| {
                let (e, parameters) = module.phase("phase");
                let launch = Launch::new(parameters);
                let out = launch.buffer(&e, 1);
                let sum = e.iadd(
                    launch.size(&e, 2),
                    e.iadd(parameters.first, parameters.last),
                );
                e.store(out, sum, 8);
                launch.fault_if(&e, e.bool_of(1, false), 7, FaultCause::IndexOutOfRange);
                launch.fault_if(&e, e.bool_of(1, true), 5, FaultCause::DivisionByZero);
                launch.fault_if(&e, e.bool_of(1, true), 6, FaultCause::IndexOutOfRange);
                e.return_none();
                Ok(())
            })
            .unwrap();
            let phase = load_phase(&object);
            let (mut out, mut fault, stop) = (0i64, 0u32, 0u32);
            let buffers = [std::ptr::null_mut(), (&raw mut out).cast::<u8>()];
            let sizes = [1i64, 2, 30];
            let arguments = LaunchArguments {
                buffers: buffers.as_ptr(),
                sizes: sizes.as_ptr(),
                shared: std::ptr::null_mut(),
                fault: &raw mut fault,
                stop: &raw const stop,
            };
            // SAFETY: everything that the phase above reads and writes is allocated here.
            unsafe { phase.call(&arguments, 4, 6) };
            assert_eq!((out, fault), (40, (5 << 8) | 2));
        }
    }

    #[test]
    fn faults_compile_on_every_level() {
        for level in IsaLevel::ALL {
            let text = compile_module(request(level, Output::Assembly), &mut |_| {}, |module| {
                let (e, parameters) = module.phase("phase");
                let always = e.bool_of(1, true);
                Launch::new(parameters).fault_if(&e, always, 1, FaultCause::IndexOutOfRange);
                e.return_none();
                Ok(())
            });
            assert!(text.is_ok(), "{level}: {text:?}");
        }
    }
}
