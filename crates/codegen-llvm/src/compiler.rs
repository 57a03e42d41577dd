//! The LLVM backend's `KernelCompiler`: compiles verified kernels to artifacts.

use kiln_backend::{
    Artifact, ArtifactParts, Candidate, CompileError, CompileObserver, CompilePhase, Condition,
    KernelCompiler, Listing, Schedule, Target,
};
use kiln_kernel::analysis::may_share;
use kiln_kernel::{BufferId, VerifiedKernel};
use kiln_schedule_cpu::winograd::Transform;
use kiln_schedule_cpu::{
    Scheduled, adapted, candidates, features_of, host_target, level_of, smaller_tile, target_of,
};

use crate::error::LlvmError;
use crate::lower::{LaunchBuilder, emit_nest};
use crate::session::{Effort, Output, Request, Stage, compile_module};
use crate::spills::hot_loop;
use kiln_backend::IsaLevel;

/// Compiles kernels for CPUs.
#[derive(Clone, Copy, Debug, Default)]
pub struct LlvmCompiler {
    effort: Effort,
    transform: Transform,
    omits_polls: bool,
}

impl LlvmCompiler {
    /// The backend; LLVM itself is initialised with the first kernel.
    pub fn new() -> Self {
        Self::default()
    }

    /// The backend with the given LLVM passes, for comparing the code that they produce from one kernel.
    pub fn with_effort(effort: Effort) -> Self {
        Self {
            effort,
            ..Self::default()
        }
    }

    /// Whether 3 x 3 convolutions use Winograd's F(4x4, 3x3), with 36 products per sixteen sums, instead of F(2x2, 3x3),
    /// with 64. It is faster, but its errors are about 1.6 times those of direct summation; those of F(2x2, 3x3) are no
    /// larger.
    #[must_use]
    pub fn with_fewer_products(mut self, wanted: bool) -> Self {
        self.transform = match wanted {
            true => Transform::FourByFour,
            false => Transform::default(),
        };
        self
    }

    /// Code that never polls the stop word, for measuring the cost of polling. Its launches cannot be stopped early.
    #[doc(hidden)]
    #[must_use]
    pub fn without_polls(mut self) -> Self {
        self.omits_polls = true;
        self
    }

    /// The target of a level.
    pub fn target(level: IsaLevel) -> Target {
        target_of(level)
    }

    fn run(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        output: Output,
        observer: &mut dyn CompileObserver,
    ) -> Result<Compiled, LlvmError> {
        let level = level_of(target)?;
        let scheduled = Scheduled::new(kernel, schedule)?;
        let launch = LaunchBuilder::default();
        let text = kiln_kernel::text::print(kernel);
        let request = Request {
            kernel: kernel.name(),
            text: &text,
            level,
            effort: self.effort,
            omits_polls: self.omits_polls,
            output,
        };
        let mut current = None;
        let code = compile_module(
            request,
            &mut |stage| {
                if let Some(phase) = current.take() {
                    observer.end(phase);
                }
                let phase = match stage {
                    Stage::Build => CompilePhase::Lower,
                    Stage::Verify => CompilePhase::Verify,
                    Stage::Optimise => CompilePhase::Optimize,
                    Stage::Emit => CompilePhase::Emit,
                };
                observer.begin(phase);
                current = Some(phase);
            },
            |module| {
                let mut nests = scheduled.nests.iter();
                nests.try_for_each(|nest| emit_nest(module, kernel, nest, &launch))
            },
        );
        if let Some(phase) = current.take() {
            observer.end(phase);
        }
        Ok(Compiled {
            code: code?,
            scheduled,
            launch,
        })
    }
}

/// A kernel's code and the metadata of its launches.
struct Compiled {
    code: Vec<u8>,
    scheduled: Scheduled,
    launch: LaunchBuilder,
}

impl KernelCompiler for LlvmCompiler {
    fn version(&self) -> String {
        let (major, minor, patch) = inkwell::support::get_llvm_version();
        let code = env!("CARGO_PKG_VERSION");
        // Other passes produce different code, which must not share a key.
        let passes = match self.effort {
            Effort::None => ", no passes",
            Effort::Light => "",
            Effort::Full => ", all passes",
        };
        let polls = match self.omits_polls {
            true => ", no polls",
            false => "",
        };
        format!("llvm {major}.{minor}.{patch}, code {code}{passes}{polls}")
    }

    fn host(&self) -> Target {
        host_target()
    }

    fn features(&self, target: &Target) -> Vec<String> {
        features_of(target)
    }

    fn supports(&self, target: &Target) -> bool {
        level_of(target).is_ok()
    }

    fn schedules(&self, kernel: &VerifiedKernel, target: &Target) -> Vec<Candidate> {
        match level_of(target) {
            Ok(level) => candidates(kernel, level, self.transform),
            Err(_) => Vec::new(),
        }
    }

    fn adapted(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        general: &Schedule,
    ) -> Option<Schedule> {
        adapted(kernel, level_of(target).ok()?, self.transform, general)
    }

    fn compile(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        observer: &mut dyn CompileObserver,
    ) -> Result<Artifact, CompileError> {
        let run = |schedule: &Schedule, observer: &mut dyn CompileObserver| {
            self.run(kernel, target, schedule, Output::Object, observer)
                .map_err(|error| failed(kernel, target, schedule, error))
        };
        let level =
            level_of(target).map_err(|error| failed(kernel, target, schedule, error.into()))?;
        let mut schedule = schedule.clone();
        let mut compiled = run(&schedule, observer)?;
        // If a tile does not fit the registers, smaller ones are tried as long as each has fewer spills.
        while let Some(hot) = hot_loop(&compiled.code).filter(|hot| hot.is_spilled())
            && let Some(smaller) = smaller_tile(kernel, level, self.transform, &schedule)
        {
            let other = run(&smaller, observer)?;
            let fits = hot_loop(&other.code).is_none_or(|other| other.spills < hot.spills);
            tracing::debug!(kernel = kernel.name(), %schedule, spills = hot.spills, fits, "tile.spilled");
            if !fits {
                break;
            }
            (schedule, compiled) = (smaller, other);
        }
        let scheduled = compiled.scheduled;
        let metadata = compiled.launch.finish();
        let parts = ArtifactParts {
            kernel: kernel.name().to_owned(),
            target: target.clone(),
            schedule,
            code: compiled.code,
            contract: Condition::contract(kernel.dims()),
            buffers: scheduled.buffers(kernel),
            arguments: metadata.arguments,
            phases: metadata.phases,
            shared_scratch: scheduled.shared_scratch,
            packs: scheduled.packs,
            in_place: in_place(kernel),
            fault_sites: metadata.fault_sites,
        };
        // SAFETY: the code was just compiled from a verified kernel, and the metadata describes it.
        Ok(unsafe { Artifact::trusted(parts) })
    }

    fn listing(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        listing: Listing,
    ) -> Result<String, CompileError> {
        let output = match listing {
            Listing::Assembly => Output::Assembly,
            _ => Output::OptimisedIr,
        };
        let compiled = self
            .run(
                kernel,
                target,
                schedule,
                output,
                &mut kiln_backend::Unobserved,
            )
            .map_err(|error| failed(kernel, target, schedule, error))?;
        Ok(String::from_utf8_lossy(&compiled.code).into_owned())
    }
}

/// The pairs of a written and a read buffer, by position, that may share memory.
fn in_place(kernel: &VerifiedKernel) -> Vec<(usize, usize)> {
    let position = |buffer: BufferId| buffer.as_u32() as usize;
    let pairs = may_share(kernel.kernel()).into_iter();
    pairs
        .map(|pair| (position(pair.written), position(pair.read)))
        .collect()
}

fn failed(
    kernel: &VerifiedKernel,
    target: &Target,
    schedule: &Schedule,
    error: LlvmError,
) -> CompileError {
    CompileError {
        kernel: kernel.name().to_owned(),
        target: target.clone(),
        schedule: schedule.clone(),
        code: error.code(),
        source: Box::new(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_names_the_passes() {
        let version = |effort| LlvmCompiler::with_effort(effort).version();
        let usual = LlvmCompiler::new().version();
        assert_eq!(version(Effort::Light), usual);
        assert_eq!(version(Effort::None), format!("{usual}, no passes"));
        assert_eq!(version(Effort::Full), format!("{usual}, all passes"));
    }
}
