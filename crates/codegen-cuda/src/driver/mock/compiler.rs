//! A compiler for the mock: a kernel's "cubin" is its text, its arguments are its symbols.

use crate::container::{DeviceCode, Entry};
use kiln_backend::{
    Artifact, ArtifactBuffer, ArtifactParts, Candidate, CompileError, CompileObserver,
    CompilePhase, Condition, FALLBACK_SCHEDULE, KernelCompiler, Listing, Phase, Quantity, Schedule,
    Target,
};
use kiln_kernel::{Buffer, VerifiedKernel};
use kiln_symbolic_shape::DimTable;

/// Threads of a block of every kernel.
const THREADS: u32 = 128;

/// The compiler.
#[derive(Clone, Copy, Debug, Default)]
pub struct MockCompiler;

impl MockCompiler {
    /// A kernel's artifact.
    pub fn artifact(kernel: &VerifiedKernel) -> Artifact {
        let form = kernel.kernel();
        let dims = form.dims();
        let code = DeviceCode {
            arch: "sm_90a".to_owned(),
            nvrtc: "mock".to_owned(),
            entries: vec![Entry::Function {
                name: form.name().to_owned(),
                threads: THREADS,
            }],
            cubin: kiln_kernel::text::print(form).into_bytes(),
        };
        let buffers = form.buffers().values().map(|buffer| ArtifactBuffer {
            name: buffer.name.clone(),
            dtype: buffer.dtype,
            written: buffer.role.is_written(),
            bytes: bytes_of(buffer, dims),
        });
        let parts = ArtifactParts {
            kernel: form.name().to_owned(),
            target: target(),
            schedule: Schedule::new(FALLBACK_SCHEDULE),
            code: code.to_bytes().expect("a small kernel"),
            contract: Condition::contract(dims),
            buffers: buffers.collect(),
            arguments: (0..dims.symbols().count() as u32)
                .map(Quantity::symbol)
                .collect(),
            phases: vec![Phase {
                entry: form.name().to_owned(),
                tasks: Quantity::constant(1),
                block: THREADS,
                scratch: Quantity::constant(0),
            }],
            shared_scratch: Quantity::constant(0),
            packs: Vec::new(),
            in_place: Vec::new(),
            fault_sites: vec!["somewhere in the kernel".to_owned()],
        };
        #[allow(unsafe_code, reason = "the code is a text")]
        // SAFETY: the code is a kernel's text, which the mock evaluates.
        unsafe {
            Artifact::trusted(parts)
        }
    }
}

fn target() -> Target {
    Target {
        backend: "cuda".to_owned(),
        level: "sm_90a".to_owned(),
    }
}

/// Bytes from the start of a buffer to the end of its last element.
fn bytes_of(buffer: &Buffer, dims: &DimTable) -> Quantity {
    let width = Quantity::constant(buffer.dtype.size_in_bytes() as i64);
    let one = || Quantity::constant(1);
    let size = |dim| Quantity::of(dims, dim);
    let Some(strides) = &buffer.strides else {
        return buffer
            .shape
            .iter()
            .fold(width, |bytes, &dim| bytes * size(dim));
    };
    let axes = buffer.shape.iter().zip(strides);
    let reach = axes.fold(one(), |reach, (&dim, &stride)| {
        reach + (size(dim) - one()) * size(stride)
    });
    // An empty buffer is not accessed; an upper bound would suffice as well.
    let any = buffer
        .shape
        .iter()
        .fold(one(), |any, &dim| any.min(size(dim)));
    (reach * width * any).max(Quantity::constant(0))
}

impl KernelCompiler for MockCompiler {
    fn version(&self) -> String {
        "mock cuda 1".to_owned()
    }

    fn host(&self) -> Target {
        target()
    }

    fn supports(&self, target: &Target) -> bool {
        *target == self.host()
    }

    fn schedules(&self, _kernel: &VerifiedKernel, _target: &Target) -> Vec<Candidate> {
        vec![Candidate {
            schedule: Schedule::new(FALLBACK_SCHEDULE),
            predicate: Vec::new(),
            layouts: Vec::new(),
            cost: 1.0,
        }]
    }

    fn compile(
        &self,
        kernel: &VerifiedKernel,
        _target: &Target,
        _schedule: &Schedule,
        observer: &mut dyn CompileObserver,
    ) -> Result<Artifact, CompileError> {
        observer.begin(CompilePhase::Emit);
        observer.end(CompilePhase::Emit);
        Ok(Self::artifact(kernel))
    }

    fn listing(
        &self,
        kernel: &VerifiedKernel,
        _target: &Target,
        _schedule: &Schedule,
        _listing: Listing,
    ) -> Result<String, CompileError> {
        Ok(kiln_kernel::text::print(kernel.kernel()))
    }
}
