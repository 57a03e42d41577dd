//! Stands in for the compiler that made a bundle: it knows which schedules the bundle has code for, and compiles nothing
//! itself.
//!
//! Keys of compiled code contain the compiler's version, so reporting that version finds the code. If this build has
//! that same compiler, it compiles what the bundle lacks.

use super::{BundledCandidate, Manifest, kernel_digest};
use kiln_backend::{
    Artifact, Candidate, CompileError, CompileObserver, KernelCompiler, Listing, Schedule, Target,
};
use kiln_kernel::VerifiedKernel;
use kiln_schedule_cpu::ScheduleError;
use std::collections::BTreeMap;

/// The stand-in for the compiler of a bundle.
pub(super) struct BundleCompiler {
    version: String,
    target: Target,
    features: Vec<String>,
    kernels: BTreeMap<String, Vec<BundledCandidate>>,
    /// The same compiler, if this build has it.
    real: Option<Box<dyn KernelCompiler>>,
}

impl BundleCompiler {
    /// `own` is this build's compiler, used if it is the one that made the bundle.
    pub(super) fn new(manifest: Manifest, own: Option<Box<dyn KernelCompiler>>) -> Self {
        let Manifest {
            target,
            features,
            compiler,
            kernels,
            ..
        } = manifest;
        Self {
            real: own.filter(|own| own.version() == compiler && own.supports(&target)),
            version: compiler,
            target,
            features,
            kernels,
        }
    }

    /// Whether it can compile kernels that the bundle lacks.
    pub(super) fn compiles(&self) -> bool {
        self.real.is_some()
    }

    fn missing(&self, kernel: &VerifiedKernel, schedule: &Schedule) -> CompileError {
        CompileError {
            kernel: kernel.name().to_owned(),
            target: self.target.clone(),
            schedule: schedule.clone(),
            code: ScheduleError::NoCompiler.code(),
            source: "the bundle has no code for it, and this build has no compiler".into(),
        }
    }
}

impl KernelCompiler for BundleCompiler {
    fn version(&self) -> String {
        self.version.clone()
    }

    fn host(&self) -> Target {
        self.target.clone()
    }

    fn features(&self, _target: &Target) -> Vec<String> {
        self.features.clone()
    }

    fn supports(&self, target: &Target) -> bool {
        *target == self.target
    }

    fn schedules(&self, kernel: &VerifiedKernel, target: &Target) -> Vec<Candidate> {
        if let Some(known) = self.kernels.get(&kernel_digest(kernel)) {
            let candidates = known.iter().map(|known| Candidate {
                schedule: known.schedule.clone(),
                predicate: Vec::new(),
                layouts: known.layouts.clone(),
                cost: 0.0,
            });
            return candidates.collect();
        }
        let real = self.real.as_ref();
        real.map_or_else(Vec::new, |compiler| compiler.schedules(kernel, target))
    }

    fn adapted(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        general: &Schedule,
    ) -> Option<Schedule> {
        self.real.as_ref()?.adapted(kernel, target, general)
    }

    fn compile(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        observer: &mut dyn CompileObserver,
    ) -> Result<Artifact, CompileError> {
        match &self.real {
            Some(compiler) => compiler.compile(kernel, target, schedule, observer),
            None => Err(self.missing(kernel, schedule)),
        }
    }

    fn listing(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        listing: Listing,
    ) -> Result<String, CompileError> {
        match &self.real {
            Some(compiler) => compiler.listing(kernel, target, schedule, listing),
            None => Err(self.missing(kernel, schedule)),
        }
    }
}
