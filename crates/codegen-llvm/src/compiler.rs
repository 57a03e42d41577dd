//! The backend as the rest of Kiln sees it: verified kernels in, artifacts out.

use kiln_backend::{
    Artifact, ArtifactBuffer, ArtifactParts, Candidate, CompileError, CompileObserver,
    CompilePhase, Condition, KernelCompiler, Listing, Quantity, Schedule, Target,
};
use kiln_kernel::analysis::may_share;
use kiln_kernel::{BufferId, VerifiedKernel};

use crate::error::LlvmError;
use crate::lower::{
    LaunchBuilder, Nest, Transform, copies, emit_nest, packed_strides, strides_of, units,
};
use crate::schedule::{self, Plan, Regime, work};
use crate::session::{Effort, Output, Request, Stage, compile_module};
use crate::spills::hot_loop;
use kiln_backend::IsaLevel;

/// The backend's name in targets.
pub const BACKEND: &str = "llvm";

/// Scalar operations that are worth a task.
const TASK_WORK: i64 = 1 << 16;

/// Compiles kernels for CPUs.
#[derive(Clone, Copy, Debug, Default)]
pub struct LlvmCompiler {
    effort: Effort,
    transform: Transform,
    leaves_polls_out: bool,
}

impl LlvmCompiler {
    /// The backend; LLVM itself starts with the first kernel.
    pub fn new() -> Self {
        Self::default()
    }

    /// The backend with LLVM's passes chosen: for comparing what they make of the same kernel.
    pub fn with_effort(effort: Effort) -> Self {
        Self {
            effort,
            ..Self::default()
        }
    }

    /// Sums windows of three by three with 36 products for sixteen sums instead of 64 (Winograd's F(4x4, 3x3) instead
    /// of F(2x2, 3x3)), or as is usual. It is faster, and errors are about 1.6 times those of summing nine products, where
    /// otherwise they are no larger.
    #[must_use]
    pub fn with_fewer_products(mut self, wanted: bool) -> Self {
        self.transform = match wanted {
            true => Transform::FourByFour,
            false => Transform::default(),
        };
        self
    }

    /// Code that never asks whether its launch is to end, to measure what asking costs. Nothing ends a launch of it early.
    #[doc(hidden)]
    #[must_use]
    pub fn without_polls(mut self) -> Self {
        self.leaves_polls_out = true;
        self
    }

    /// The target of a level.
    pub fn target(level: IsaLevel) -> Target {
        Target {
            backend: BACKEND.to_owned(),
            level: level.name().to_owned(),
        }
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
        let plan = schedule::plan_of(kernel, schedule)?;
        let launch = LaunchBuilder::default();
        let text = kiln_kernel::text::print(kernel);
        let request = Request {
            kernel: kernel.name(),
            text: &text,
            level,
            effort: self.effort,
            leaves_polls_out: self.leaves_polls_out,
            output,
        };
        let mut shared_scratch = Quantity::constant(0);
        let nests: Vec<Nest> = schedule::regimes(&plan, kernel)
            .into_iter()
            .map(|regime| {
                let (nest, bytes) = nest(kernel, regime);
                shared_scratch = shared_scratch.clone() + nest.when.clone() * bytes;
                nest
            })
            .collect();
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
                let mut nests = nests.iter();
                nests.try_for_each(|nest| emit_nest(module, kernel, nest, &launch))
            },
        );
        if let Some(phase) = current.take() {
            observer.end(phase);
        }
        Ok(Compiled {
            code: code?,
            plan,
            launch,
            shared_scratch,
        })
    }
}

/// A kernel's code and what a launch of it needs to know.
struct Compiled {
    code: Vec<u8>,
    plan: Plan,
    launch: LaunchBuilder,
    shared_scratch: Quantity,
}

impl KernelCompiler for LlvmCompiler {
    fn version(&self) -> String {
        let (major, minor, patch) = inkwell::support::get_llvm_version();
        let code = env!("CARGO_PKG_VERSION");
        // Other passes make other code, which must not share a key.
        let passes = match self.effort {
            Effort::None => ", no passes",
            Effort::Light => "",
            Effort::Full => ", all passes",
        };
        let polls = match self.leaves_polls_out {
            true => ", no polls",
            false => "",
        };
        format!("llvm {major}.{minor}.{patch}, code {code}{passes}{polls}")
    }

    fn host(&self) -> Target {
        Self::target(IsaLevel::host().unwrap_or(IsaLevel::Portable))
    }

    fn features(&self, target: &Target) -> Vec<String> {
        let features = level_of(target).map_or("", IsaLevel::features).split(',');
        features
            .filter(|feature| !feature.is_empty())
            .map(str::to_owned)
            .collect()
    }

    fn supports(&self, target: &Target) -> bool {
        level_of(target).is_ok()
    }

    fn schedules(&self, kernel: &VerifiedKernel, target: &Target) -> Vec<Candidate> {
        match level_of(target) {
            Ok(level) => schedule::candidates(kernel, level, self.transform),
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
        let run = |schedule: &Schedule, observer: &mut dyn CompileObserver| {
            self.run(kernel, target, schedule, Output::Object, observer)
                .map_err(|error| failed(kernel, target, schedule, error))
        };
        let mut schedule = schedule.clone();
        let mut compiled = run(&schedule, observer)?;
        // A tile that turns out not to fit the registers gives way to a smaller one, as long as that has fewer spills.
        while let Some(hot) = hot_loop(&compiled.code).filter(|hot| hot.is_spilled())
            && let Some(smaller) = schedule::smaller(kernel, &schedule)
        {
            let other = run(&smaller, observer)?;
            let fits = hot_loop(&other.code).is_none_or(|other| other.spills < hot.spills);
            tracing::debug!(kernel = kernel.name(), %schedule, spills = hot.spills, fits, "tile.spilled");
            if !fits {
                break;
            }
            (schedule, compiled) = (smaller, other);
        }
        let plan = compiled.plan;
        let metadata = compiled.launch.finish();
        let parts = ArtifactParts {
            kernel: kernel.name().to_owned(),
            target: target.clone(),
            schedule,
            code: compiled.code,
            contract: Condition::contract(kernel.dims()),
            buffers: buffers(kernel, &plan),
            arguments: metadata.arguments,
            phases: metadata.phases,
            shared_scratch: compiled.shared_scratch,
            packs: plan.packs(kernel),
            in_place: in_place(kernel),
            fault_sites: metadata.fault_sites,
        };
        // SAFETY: the code was just made of a verified kernel, and the numbers with it.
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

/// The pairs of a written and a read buffer, by position, that may be one memory.
fn in_place(kernel: &VerifiedKernel) -> Vec<(usize, usize)> {
    let position = |buffer: BufferId| buffer.as_u32() as usize;
    let pairs = may_share(kernel.kernel()).into_iter();
    pairs
        .map(|pair| (position(pair.written), position(pair.read)))
        .collect()
}

fn level_of(target: &Target) -> Result<IsaLevel, LlvmError> {
    let level = (target.backend == BACKEND)
        .then(|| target.level.parse().ok())
        .flatten();
    level.ok_or_else(|| LlvmError::UnknownTarget {
        target: target.to_string().escape_default().to_string(),
    })
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

/// Shares a regime's points out: enough work per task to be worth it, and tasks for every thread. And the bytes of scratch
/// that its copies take.
fn nest(kernel: &VerifiedKernel, regime: Regime) -> (Nest, Quantity) {
    let one = Quantity::constant(1);
    let (copies, bytes) = copies(kernel, regime.copies);
    let bytes = match &regime.winograd {
        Some(winograd) => winograd.shared_bytes(kernel),
        None => bytes,
    };
    // Parts of reductions lie where copies would; no regime has both.
    let (shares, bytes) = match regime.shares {
        Some((shares, parts)) => (Some(shares), parts),
        None => (None, bytes),
    };
    let columns_first = schedule::columns_first(kernel, &regime.tile, &regime.packs);
    let mut packs = regime.packs;
    let blocked = copies.iter().filter(|copy| copy.is_blocked());
    packs.extend(blocked.map(|copy| copy.spec.clone()));
    let tile = regime.tile;
    let mut nest = Nest {
        tile,
        chunk: regime.chunk,
        columns_first,
        units_per_task: one.clone(),
        edges: schedule::edges(kernel, &tile, &packs, copies.is_empty()),
        packs,
        copies,
        winograd: regime.winograd,
        shares,
        when: regime.when,
    };
    let rows = tile.rows.map_or(one.clone(), |(axis, count)| {
        let rows = Quantity::of(kernel.dims(), kernel.axis(axis).extent.bound());
        rows.min(Quantity::constant(i64::from(count)))
    });
    let columns = match tile.vector {
        crate::lower::VectorAxis::Outer(_) => i64::from(nest.chunk),
        _ => 1,
    };
    let work = work::per_point(kernel) * rows * Quantity::constant(columns);
    let worth = Quantity::constant(TASK_WORK).ceil_div(work.max(one.clone()));
    let fair = units(kernel, &nest).ceil_div(Quantity::threads());
    nest.units_per_task = worth.min(fair).max(one);
    (nest, bytes)
}

/// What a launch must give for each buffer.
fn buffers(kernel: &VerifiedKernel, plan: &Plan) -> Vec<ArtifactBuffer> {
    let packs = plan.packs(kernel);
    kernel
        .buffers()
        .iter()
        .map(|(id, buffer)| {
            let size = |dim| Quantity::of(kernel.dims(), dim);
            let zero = Quantity::constant(0);
            let one = Quantity::constant(1);
            let pack = packs
                .iter()
                .find(|pack| pack.buffer == id.as_u32() as usize);
            let elements = match pack {
                Some(pack) => packed_strides(kernel, pack).1,
                None => {
                    // The last element of a buffer that is not empty, plus one.
                    let strides = strides_of(kernel, id);
                    let mut last = one.clone();
                    let mut filled = one.clone();
                    for (&dim, stride) in buffer.shape.iter().zip(&strides) {
                        last = last + (size(dim) - one.clone()) * stride.clone();
                        filled = filled.min(size(dim));
                    }
                    (last * filled.min(one.clone())).max(zero)
                }
            };
            ArtifactBuffer {
                name: buffer.name.clone(),
                dtype: buffer.dtype,
                written: buffer.role.is_written(),
                bytes: elements * Quantity::constant(buffer.dtype.size_in_bytes() as i64),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_effort_has_a_version_of_its_own() {
        let version = |effort| LlvmCompiler::with_effort(effort).version();
        let usual = LlvmCompiler::new().version();
        assert_eq!(version(Effort::Light), usual);
        assert_eq!(version(Effort::None), format!("{usual}, no passes"));
        assert_eq!(version(Effort::Full), format!("{usual}, all passes"));
    }
}
