//! A stand-in for the compiler in builds without one: it has the same schedules, layouts and keys, but compiles
//! nothing.

use kiln_backend::{
    Artifact, Candidate, CompileError, CompileObserver, KernelCompiler, Listing, Schedule, Target,
};
use kiln_kernel::VerifiedKernel;

use crate::candidates::{adapted, candidates};
use crate::error::ScheduleError;
use crate::target::{features_of, host_target, level_of};
use crate::winograd::Transform;

/// The version if no compiler is known.
const NONE: &str = "none";

/// A [`KernelCompiler`] with the version of the one that compiled the code of a store, so that keys match; it compiles
/// nothing.
///
/// ```
/// use kiln_backend::{KernelCompiler, Unobserved};
/// use kiln_schedule_cpu::StoredCode;
///
/// let source = "kernel @double(%x: in f32[N], %y: out f32[N]) {
///   outer i < N
///   store %y[i] = %x[i] + %x[i]
/// }";
/// let kernel = kiln_kernel::text::read(source).map_err(|errors| errors.render(source))?;
/// let kernel = kiln_kernel::verify(kernel)?;
/// let stored = StoredCode::new(Some("llvm 19.1.7, code 0.1.0".to_owned()));
/// let target = stored.host();
/// let best = stored.schedules(&kernel, &target).remove(0);
/// let error = stored.compile(&kernel, &target, &best.schedule, &mut Unobserved).unwrap_err();
/// assert_eq!(error.code, "E0517");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct StoredCode {
    version: String,
    transform: Transform,
}

impl StoredCode {
    /// Assumes the version of a compiler, if one is known.
    pub fn new(version: Option<String>) -> Self {
        Self {
            version: version.unwrap_or_else(|| NONE.to_owned()),
            transform: Transform::default(),
        }
    }

    /// Uses the schedules of a compiler with this Winograd transform.
    #[must_use]
    pub fn with_transform(self, transform: Transform) -> Self {
        Self { transform, ..self }
    }

    fn absent(kernel: &VerifiedKernel, target: &Target, schedule: &Schedule) -> CompileError {
        let error = ScheduleError::NoCompiler;
        CompileError {
            kernel: kernel.name().to_owned(),
            target: target.clone(),
            schedule: schedule.clone(),
            code: error.code(),
            source: Box::new(error),
        }
    }
}

impl KernelCompiler for StoredCode {
    fn version(&self) -> String {
        self.version.clone()
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
        _observer: &mut dyn CompileObserver,
    ) -> Result<Artifact, CompileError> {
        Err(Self::absent(kernel, target, schedule))
    }

    fn listing(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        _listing: Listing,
    ) -> Result<String, CompileError> {
        Err(Self::absent(kernel, target, schedule))
    }
}
