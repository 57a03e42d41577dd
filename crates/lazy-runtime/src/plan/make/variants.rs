//! The code of each launch of a plan: the generic kernel's, a winning variant's, or both interleaved.

use std::sync::Arc;

use kiln_program::{Action, Step};
use kiln_symbolic_shape::Binding;

use super::Maker;
use super::launches::Launches;
use crate::error::RuntimeError;
use crate::plan::{Rival, StepPlan};
use crate::variants::{Heat, HeatGroups, Stage, Stale};

impl Maker<'_> {
    /// Applies existing variants to steps, and watches the other steps.
    pub(super) fn settle_variants(
        &self,
        steps: &[Step],
        launches: &Launches<'_>,
        planned: &mut [StepPlan],
        binding: &Binding,
        stale: &Stale,
    ) -> Result<Option<Heat>, RuntimeError> {
        let variants = self.runtime.variants();
        if variants.options().is_none() {
            return Ok(None);
        }
        let mut groups = HeatGroups::default();
        let mut of_step = launches.of_step.iter();
        for (step, planned) in steps.iter().zip(planned) {
            let group = match &step.action {
                Action::Kernel(_) => of_step.next().map(|launch| launch.group),
                _ => None,
            };
            let (Action::Kernel(launch), Some(group), StepPlan::Kernel(plan)) =
                (&step.action, group, planned)
            else {
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
                    false => groups.add(group),
                }
                continue;
            };
            let stage = variant.stage();
            match &stage {
                Stage::Kept(trial, _) => {
                    let numbers = self.numbers_of(&trial.code, &plan.symbols)?;
                    plan.numbers = Arc::new(numbers);
                    plan.compiled = Arc::clone(&trial.code);
                    plan.schedule = Arc::new(trial.schedule.clone());
                }
                Stage::OnTrial(trial) => {
                    let numbers = self.numbers_of(&trial.code, &plan.symbols)?;
                    plan.rival = Some(Box::new(Rival {
                        variant: Arc::clone(&variant),
                        trial: Arc::clone(trial),
                        numbers: Arc::new(numbers),
                    }));
                }
                Stage::Queued | Stage::Lost(_) | Stage::Impossible(_) => {}
            }
            variant.watch(&stage, stale);
            groups.skip();
        }
        Ok(groups.finish(self.is_likely(binding), stale.clone()))
    }

    /// Whether the user declared these sizes likely: for each symbol with a hint.
    fn is_likely(&self, binding: &Binding) -> bool {
        let hints = self.program.graph().dims().hints();
        let mut known = hints
            .iter()
            .filter_map(|hint| Some((binding.get(hint.symbol)?, hint.likely)))
            .peekable();
        known.peek().is_some() && known.all(|(size, likely)| size == likely)
    }
}
