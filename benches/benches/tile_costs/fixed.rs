//! The compiler, with a fixed register tile.

use kiln::internals::backend::IsaLevel;
use kiln::internals::backend::{Candidate, CompilerWrapper, KernelCompiler, Schedule, Target};
use kiln::internals::codegen_llvm::LlvmCompiler;
use kiln::internals::kernel::VerifiedKernel;
use kiln::internals::schedule_cpu::winograd::Transform;
use kiln::internals::schedule_cpu::with_tile;
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

    fn fix(&self, kernel: &VerifiedKernel, schedule: Schedule) -> Schedule {
        let tile = (self.rows, self.vectors);
        match schedule.is_fallback() {
            true => schedule,
            false => {
                let fixed = with_tile(kernel, self.level, Transform::default(), tile);
                fixed.unwrap_or(schedule)
            }
        }
    }
}

impl CompilerWrapper for Fixed {
    type Inner = LlvmCompiler;

    fn inner(&self) -> &LlvmCompiler {
        &self.compiler
    }

    fn version(&self) -> String {
        let version = self.compiler.version();
        format!("{version}, tiles of {} by {}", self.rows, self.vectors)
    }

    fn host(&self) -> Target {
        LlvmCompiler::target(self.level)
    }

    fn schedules(&self, kernel: &VerifiedKernel, target: &Target) -> Vec<Candidate> {
        let candidates = self.compiler.schedules(kernel, target).into_iter();
        let fixed = candidates.map(|candidate| Candidate {
            schedule: self.fix(kernel, candidate.schedule),
            ..candidate
        });
        fixed.collect()
    }
}
