//! The GPU compiler, a `KernelCompiler`: compiles verified kernels to artifacts with cubins.
#![allow(unsafe_code, reason = "it vouches for its own output")]

use kiln_backend::{
    Artifact, ArtifactBuffer, ArtifactParts, Candidate, CompileError, CompileObserver,
    CompilePhase, Condition, KernelCompiler, Listing, Phase, Quantity, Schedule, Target,
    Unobserved,
};
use kiln_kernel::analysis::may_share;
use kiln_kernel::{BufferId, VerifiedKernel};

use crate::arch::CudaArch;
use crate::builtin::DeviceBuiltin;
use crate::container::{DeviceCode, Entry};
use crate::error::CudaError;
use crate::find::{CudaLibrary, Places, locate};
use crate::generate::{Machine, Plan, Source, for_device, generate, propose, strides};
use crate::nvrtc::{Compiled, Nvrtc, OPTIONS, Output};

/// Compiles kernels for GPUs.
#[derive(Clone, Copy, Debug)]
pub struct CudaCompiler {
    nvrtc: Nvrtc,
    host: CudaArch,
    /// Whether cuBLASLt is available on this machine.
    has_library: bool,
}

impl CudaCompiler {
    /// The compiler, on a machine whose device is of this architecture.
    ///
    /// # Errors
    /// E0551 if there is no NVRTC: it names every place that was searched.
    pub fn new(host: CudaArch) -> Result<Self, CudaError> {
        let nvrtc = Nvrtc::get()?;
        let has_library = locate(CudaLibrary::CublasLt, &Places::of_process()).is_ok();
        Ok(Self {
            nvrtc,
            host,
            has_library,
        })
    }

    /// The CUDA C of a kernel without the definitions that exist only on a device, for tests that execute it on the
    /// host.
    ///
    /// # Errors
    /// If the schedule is not for the kernel.
    #[doc(hidden)]
    pub fn host_source(
        kernel: &VerifiedKernel,
        schedule: &Schedule,
    ) -> Result<HostSource, CudaError> {
        let source = generate(kernel, &Plan::of(schedule)?)?;
        Ok(HostSource {
            text: source.for_host().to_owned(),
            parts: parts(kernel, &CudaArch::Sm90a.target(), schedule, source),
        })
    }

    /// Compiles the code of a builtin.
    ///
    /// # Errors
    /// If there is no NVRTC, or it fails.
    #[doc(hidden)]
    pub fn compile_builtin(builtin: DeviceBuiltin, arch: CudaArch) -> Result<Artifact, CudaError> {
        let nvrtc = Nvrtc::get()?;
        let text = for_device(&builtin.host_text()?);
        let compiled = nvrtc.compile(&builtin.name(), &text, arch, Output::Cubin, &|| false)?;
        let parts = builtin.parts(arch);
        let entry = |phase: &Phase| Entry::Function {
            name: phase.entry.clone(),
            threads: phase.block,
        };
        let code = DeviceCode {
            arch: arch.name().to_owned(),
            nvrtc: nvrtc.version(),
            entries: parts.phases.iter().map(entry).collect(),
            cubin: compiled.code,
        };
        let parts = ArtifactParts {
            code: code.to_bytes()?,
            ..parts
        };
        // SAFETY: the code was just compiled from the source that the parts describe.
        Ok(unsafe { Artifact::trusted(parts) })
    }

    /// The schedules that are offered for a kernel, without a compiler.
    #[doc(hidden)]
    pub fn offered(kernel: &VerifiedKernel) -> Vec<Candidate> {
        candidates(kernel, Machine::of(CudaArch::Sm90a, false))
    }

    /// The assembler's report on a kernel: registers, spills and the stack of each function.
    ///
    /// # Errors
    /// As [`compile`](KernelCompiler::compile).
    pub fn report(
        &self,
        kernel: &VerifiedKernel,
        arch: CudaArch,
        schedule: &Schedule,
    ) -> Result<String, CudaError> {
        let (_, compiled) = self.run(kernel, arch, schedule, Output::Cubin, &mut Unobserved)?;
        Ok(compiled.log)
    }

    fn run(
        &self,
        kernel: &VerifiedKernel,
        arch: CudaArch,
        schedule: &Schedule,
        output: Output,
        observer: &mut dyn CompileObserver,
    ) -> Result<(Source, Compiled), CudaError> {
        observer.begin(CompilePhase::Lower);
        let plan = plan_for(schedule, arch);
        let source = plan.and_then(|plan| generate(kernel, &plan));
        observer.end(CompilePhase::Lower);
        let source = source?;
        observer.begin(CompilePhase::Emit);
        let text = source.for_device();
        let compiled = self.nvrtc.compile(kernel.name(), &text, arch, output, &|| {
            observer.is_cancelled()
        });
        observer.end(CompilePhase::Emit);
        Ok((source, compiled?))
    }
}

/// A kernel's CUDA C for the host, and the parts of its artifact, except the code.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct HostSource {
    /// The text.
    pub text: String,
    /// The artifact's parts.
    pub parts: ArtifactParts,
}

impl KernelCompiler for CudaCompiler {
    fn version(&self) -> String {
        let code = env!("CARGO_PKG_VERSION");
        let options = OPTIONS.join(" ");
        format!("nvrtc {}, code {code}, {options}", self.nvrtc.version())
    }

    fn host(&self) -> Target {
        self.host.target()
    }

    fn features(&self, target: &Target) -> Vec<String> {
        vec![target.level.clone()]
    }

    fn supports(&self, target: &Target) -> bool {
        CudaArch::of_target(target).is_ok()
    }

    fn schedules(&self, kernel: &VerifiedKernel, target: &Target) -> Vec<Candidate> {
        match CudaArch::of_target(target) {
            Ok(arch) => candidates(kernel, Machine::of(arch, self.has_library)),
            Err(_) => Vec::new(),
        }
    }

    fn compile(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        observer: &mut dyn CompileObserver,
    ) -> Result<Artifact, CompileError> {
        let failed = |error: CudaError| failed(kernel, target, schedule, error);
        let arch = CudaArch::of_target(target).map_err(failed)?;
        let ran = self.run(kernel, arch, schedule, Output::Cubin, observer);
        let (source, compiled) = ran.map_err(failed)?;
        let code = DeviceCode {
            arch: arch.name().to_owned(),
            nvrtc: self.nvrtc.version(),
            entries: source.entries.clone(),
            cubin: compiled.code,
        };
        let code = code.to_bytes().map_err(|error| failed(error.into()))?;
        let parts = ArtifactParts {
            code,
            ..parts(kernel, target, schedule, source)
        };
        // SAFETY: the code was just compiled from a verified kernel, and the parts describe it.
        Ok(unsafe { Artifact::trusted(parts) })
    }

    /// The source is CUDA C, the assembly PTX.
    fn listing(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        listing: Listing,
    ) -> Result<String, CompileError> {
        let failed = |error: CudaError| failed(kernel, target, schedule, error);
        let arch = CudaArch::of_target(target).map_err(failed)?;
        if listing == Listing::Source {
            let plan = plan_for(schedule, arch);
            let source = plan.and_then(|plan| generate(kernel, &plan));
            return Ok(source.map_err(failed)?.for_device());
        }
        let ran = self.run(kernel, arch, schedule, Output::Ptx, &mut Unobserved);
        let (_, compiled) = ran.map_err(failed)?;
        Ok(String::from_utf8_lossy(&compiled.code).into_owned())
    }
}

/// The plan of a schedule, if an architecture has the instructions that it needs.
fn plan_for(schedule: &Schedule, arch: CudaArch) -> Result<Plan, CudaError> {
    let plan = Plan::of(schedule)?;
    if plan.needs_warp_groups() && !arch.has_warp_groups() {
        return Err(CudaError::Schedule {
            text: format!("`{}`, which {arch} cannot execute", schedule.text),
        });
    }
    Ok(plan)
}

fn candidates(kernel: &VerifiedKernel, machine: Machine) -> Vec<Candidate> {
    let plans = propose(kernel, machine).into_iter();
    // In the order of the proposal: measurements decide between them.
    let costs = (1_u32..).map(f64::from);
    plans
        .zip(costs)
        .map(|(plan, cost)| Candidate {
            schedule: plan.schedule(),
            predicate: Vec::new(),
            layouts: Vec::new(),
            cost,
        })
        .collect()
}

/// The parts of an artifact other than its code.
fn parts(
    kernel: &VerifiedKernel,
    target: &Target,
    schedule: &Schedule,
    source: Source,
) -> ArtifactParts {
    let position = |buffer: BufferId| buffer.as_u32() as usize;
    let pairs = may_share(kernel.kernel()).into_iter();
    ArtifactParts {
        kernel: kernel.name().to_owned(),
        target: target.clone(),
        schedule: schedule.clone(),
        code: Vec::new(),
        contract: Condition::contract(kernel.dims()),
        buffers: buffers(kernel),
        arguments: source.arguments,
        phases: source.phases,
        shared_scratch: source.shared_scratch,
        packs: Vec::new(),
        in_place: pairs
            .map(|pair| (position(pair.written), position(pair.read)))
            .collect(),
        fault_sites: source.fault_sites,
    }
}

/// What a launch must provide for each buffer.
fn buffers(kernel: &VerifiedKernel) -> Vec<ArtifactBuffer> {
    let (zero, one) = (|| Quantity::constant(0), || Quantity::constant(1));
    let all = kernel.buffers().iter();
    all.map(|(id, buffer)| {
        // The last element of a buffer that is not empty, plus one.
        let (mut last, mut filled) = (one(), one());
        for (&dim, stride) in buffer.shape.iter().zip(strides(kernel, id)) {
            let size = Quantity::of(kernel.dims(), dim);
            last = last + (size.clone() - one()) * stride;
            filled = filled.min(size);
        }
        let elements = (last * filled).max(zero());
        ArtifactBuffer {
            name: buffer.name.clone(),
            dtype: buffer.dtype,
            written: buffer.role.is_written(),
            bytes: elements * Quantity::constant(buffer.dtype.size_in_bytes() as i64),
        }
    })
    .collect()
}

fn failed(
    kernel: &VerifiedKernel,
    target: &Target,
    schedule: &Schedule,
    error: CudaError,
) -> CompileError {
    CompileError {
        kernel: kernel.name().to_owned(),
        target: target.clone(),
        schedule: schedule.clone(),
        code: error.code(),
        source: Box::new(error),
    }
}
