//! The compiler, with a register tile that somebody chose.

use kiln::codegen_llvm::{IsaLevel, LlvmCompiler};
use kiln::kernel::{
    Artifact, Candidate, CompileError, CompileObserver, KernelCompiler, Listing, Schedule, Target,
    VerifiedKernel,
};
use std::sync::Arc;

/// Compiles for one level, with one tile.
pub(crate) struct Fixed {
    compiler: LlvmCompiler,
    level: IsaLevel,
    rows: u32,
    vectors: u32,
}

impl Fixed {
    pub(crate) fn new(level: IsaLevel, rows: u32, vectors: u32) -> Arc<Self> {
        Arc::new(Self {
            compiler: LlvmCompiler::new(),
            level,
            rows,
            vectors,
        })
    }

    fn fix(&self, schedule: Schedule) -> Schedule {
        let (Some(lanes), Some(_)) = (schedule.get("lanes"), schedule.get("rows")) else {
            return schedule;
        };
        let vectors = i64::from(self.vectors);
        schedule
            .with("rows", i64::from(self.rows))
            .with("vectors", vectors)
            .with("chunk", lanes * vectors)
    }
}

impl KernelCompiler for Fixed {
    fn version(&self) -> String {
        let version = self.compiler.version();
        format!("{version}, tiles of {} by {}", self.rows, self.vectors)
    }

    fn host(&self) -> Target {
        LlvmCompiler::target(self.level)
    }

    fn features(&self, target: &Target) -> Vec<String> {
        self.compiler.features(target)
    }

    fn supports(&self, target: &Target) -> bool {
        self.compiler.supports(target)
    }

    fn schedules(&self, kernel: &VerifiedKernel, target: &Target) -> Vec<Candidate> {
        let candidates = self.compiler.schedules(kernel, target).into_iter();
        let fixed = candidates.map(|candidate| Candidate {
            schedule: self.fix(candidate.schedule),
            ..candidate
        });
        fixed.collect()
    }

    fn compile(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        observer: &mut dyn CompileObserver,
    ) -> Result<Artifact, CompileError> {
        self.compiler.compile(kernel, target, schedule, observer)
    }

    fn listing(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        listing: Listing,
    ) -> Result<String, CompileError> {
        self.compiler.listing(kernel, target, schedule, listing)
    }
}
