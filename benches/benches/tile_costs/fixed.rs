//! The compiler, with a fixed register tile.

use kiln::backend::IsaLevel;
use kiln::backend::{Candidate, CompilerWrapper, KernelCompiler, Schedule, Target};
use kiln::codegen_llvm::LlvmCompiler;
use kiln::kernel::VerifiedKernel;
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
            schedule: self.fix(candidate.schedule),
            ..candidate
        });
        fixed.collect()
    }
}
