//! Which code each launch of a plan takes: the generic kernel's, a variant's that won, or both in turns.

use std::sync::Arc;

use kiln_kernel::LaunchContext;
use kiln_program::{Action, Step};
use kiln_symbolic_shape::Binding;

use super::Maker;
use crate::compile::{CompiledKernel, LaunchNumbers};
use crate::error::RuntimeError;
use crate::plan::{Rival, StepPlan};
use crate::variants::{Heat, HeatGroups, Stage, Stale};

impl Maker<'_> {
    /// Puts variants into the steps for which there are some, and watches the others.
    pub(super) fn settle_variants(
        &self,
        steps: &[Step],
        planned: &mut [StepPlan],
        binding: &Binding,
        stale: &Stale,
    ) -> Result<Option<Heat>, RuntimeError> {
        let variants = self.runtime.variants();
        if variants.options().is_none() {
            return Ok(None);
        }
        let mut groups = HeatGroups::default();
        for (step, planned) in steps.iter().zip(planned) {
            let (Action::Kernel(launch), StepPlan::Kernel(plan)) = (&step.action, planned) else {
                groups.skip();
                continue;
            };
            let identity = self.prepared.identity(launch.kernel);
            let known = match plan.symbols.is_empty() {
                true => None,
                false => variants.find(identity.digest(), &plan.symbols),
            };
            let Some(variant) = known else {
                match plan.symbols.is_empty() {
                    true => groups.skip(),
                    false => groups.add(identity.digest(), &plan.symbols),
                }
                continue;
            };
            let stage = variant.stage();
            match &stage {
                Stage::Kept(trial, _) => {
                    plan.numbers = self.numbers_of(&trial.code, &plan.symbols)?;
                    plan.compiled = Arc::clone(&trial.code);
                    plan.schedule = trial.schedule.clone();
                }
                Stage::OnTrial(trial) => {
                    let numbers = self.numbers_of(&trial.code, &plan.symbols)?;
                    plan.rival = Some(Box::new(Rival {
                        variant: Arc::clone(&variant),
                        trial: Arc::clone(trial),
                        numbers,
                    }));
                }
                Stage::Queued | Stage::Lost(_) | Stage::Impossible(_) => {}
            }
            variant.watch(&stage, stale);
            groups.skip();
        }
        Ok(groups.finish(self.is_likely(binding), stale.clone()))
    }

    fn numbers_of(
        &self,
        code: &CompiledKernel,
        symbols: &[i64],
    ) -> Result<LaunchNumbers, RuntimeError> {
        let ctx = LaunchContext {
            symbols,
            threads: self.runtime.pool().threads(),
            caches: self.runtime.executor().caches(),
        };
        LaunchNumbers::of(code, &ctx)
    }

    /// Whether the user says that these sizes are likely: of each symbol of which something is said.
    fn is_likely(&self, binding: &Binding) -> bool {
        let hints = self.program.graph().dims().hints();
        let mut known = hints
            .iter()
            .filter_map(|hint| Some((binding.get(hint.symbol)?, hint.likely)))
            .peekable();
        known.peek().is_some() && known.all(|(size, likely)| size == likely)
    }
}
