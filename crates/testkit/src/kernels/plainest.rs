//! A compiler restricted to the fallback schedule.

use std::sync::Arc;

use kiln_backend::{
    Artifact, Candidate, CompileError, CompileObserver, FALLBACK_SCHEDULE, KernelCompiler, Listing,
    Schedule, Target,
};
use kiln_kernel::VerifiedKernel;

/// A compiler that offers only its fallback schedule.
pub struct Plainest(pub Arc<dyn KernelCompiler>);

impl KernelCompiler for Plainest {
    fn version(&self) -> String {
        self.0.version()
    }

    fn host(&self) -> Target {
        self.0.host()
    }

    fn features(&self, target: &Target) -> Vec<String> {
        self.0.features(target)
    }

    fn supports(&self, target: &Target) -> bool {
        self.0.supports(target)
    }

    fn schedules(&self, _kernel: &VerifiedKernel, _target: &Target) -> Vec<Candidate> {
        vec![Candidate {
            schedule: Schedule::new(FALLBACK_SCHEDULE),
            predicate: Vec::new(),
            layouts: Vec::new(),
            cost: 0.0,
        }]
    }

    fn compile(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        observer: &mut dyn CompileObserver,
    ) -> Result<Artifact, CompileError> {
        self.0.compile(kernel, target, schedule, observer)
    }

    fn listing(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        listing: Listing,
    ) -> Result<String, CompileError> {
        self.0.listing(kernel, target, schedule, listing)
    }
}
