//! Variants during a run: rounds of those on trial, and kernels that have become worth one.

use std::sync::Arc;

use kiln_program::{Action, Step};

use super::Stop;
use super::walk::Run;
use crate::compile::CompiledKernel;
use crate::plan::{Frame, KernelPlan, Rival, SegmentPlan, StepPlan};
use crate::variants::{Asked, Begun, Heat, Hot, Turn, VariantReason};

impl Rival {
    /// The side of this round.
    pub(super) fn turn(&self) -> Turn {
        self.trial.turn()
    }
}

impl KernelPlan {
    /// The code of this round's side.
    pub(super) fn code(&self, turn: Option<Turn>) -> &Arc<CompiledKernel> {
        match (turn, &self.rival) {
            (Some(Turn::Variant), Some(rival)) => &rival.trial.code,
            _ => &self.compiled,
        }
    }
}

impl Run<'_> {
    /// Launches this round's side, and records its duration.
    pub(super) fn take_turn(
        &mut self,
        step: &Step,
        plan: &KernelPlan,
        rival: &Rival,
        turn: Turn,
        frame: &Frame,
    ) -> Result<(), Stop> {
        let runs = (turn == Turn::Variant).then_some(rival);
        let begin = self.runtime.clock().now();
        self.launch(step, plan, runs, frame)?;
        // Launches may return before they are done.
        self.finish()?;
        let time = self.runtime.clock().now().saturating_sub(begin);
        let Some(verdict) = rival.trial.note(turn, time) else {
            return Ok(());
        };
        let goes_on = rival.variant.settle(&rival.trial, verdict);
        if goes_on && let Action::Kernel(launch) = &step.action {
            let identity = self.prepared.identity(launch.kernel);
            let worth = verdict.generic;
            let recorder = &self.prepared.recorder;
            self.runtime
                .make_variant(&rival.variant, identity, &plan.compiled, worth, recorder);
        }
        Ok(())
    }

    /// Requests variants of the kernels of a plan that have become worth one.
    pub(super) fn ask_for_variants(&self, steps: &[Step], plan: &SegmentPlan, heat: &Heat) {
        let variants = self.runtime.variants();
        let Some(options) = variants.options() else {
            return;
        };
        heat.each_hot(options.after, |hot: Hot| {
            let step = steps.get(hot.step).map(|step| &step.action);
            let planned = plan.steps.get(hot.step);
            let (Some(Action::Kernel(launch)), Some(StepPlan::Kernel(kernel))) = (step, planned)
            else {
                return;
            };
            let identity = self.prepared.identity(launch.kernel);
            let facts: Vec<String> = identity.facts_at(&kernel.symbols).collect();
            let begun = variants.begin(Asked {
                digest: identity.digest(),
                kernel: identity.name(),
                symbols: &kernel.symbols,
                facts: facts.join(", "),
                schedule: &kernel.compiled.artifact.schedule,
                reason: match hot.is_likely {
                    true => VariantReason::Likely,
                    false => VariantReason::Hot(hot.spent),
                },
            });
            let variant = match begun {
                Begun::Refused => return,
                Begun::Known(variant) => variant,
                Begun::New(variant) => {
                    let recorder = &self.prepared.recorder;
                    self.runtime.make_variant(
                        &variant,
                        identity,
                        &kernel.compiled,
                        hot.spent,
                        recorder,
                    );
                    variant
                }
            };
            // This plan does not use the variant yet; once the variant is at any other stage, the plan is worth
            // rebuilding.
            variant.watch_queued(heat.stale());
        });
    }
}
