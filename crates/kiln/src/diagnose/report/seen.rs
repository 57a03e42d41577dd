//! The data that a report is made from: the graph, its plans, and the profile of a call.

use super::{MachineRates, StepRun};
use crate::diagnose::StepProfile;
use kiln_fusion::FusionPlan;
use kiln_ir::Graph;
use kiln_program::Program;
use kiln_symbolic_shape::Binding;
use std::time::Duration;

/// The data from which the parts of a report are made.
pub(super) struct Seen<'a> {
    pub(super) graph: &'a Graph,
    pub(super) fusion: &'a FusionPlan,
    /// The main program, then those made for sizes for which its facts do not hold.
    pub(super) programs: &'a [Program],
    /// The sizes of the call, as far as its inputs determine them.
    pub(super) binding: &'a Binding,
    pub(super) rates: Option<MachineRates>,
}

pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The runs of steps in one call.
pub(super) fn runs(profile: &[StepProfile], step_of: &[usize]) -> Vec<StepRun> {
    let start = profile
        .iter()
        .map(|step| step.begin)
        .min()
        .unwrap_or_default();
    let runs = profile.iter().zip(step_of).map(|(run, &step)| StepRun {
        step,
        begin_ms: milliseconds(run.begin.saturating_sub(start)),
        ms: milliseconds(run.time),
    });
    let mut runs: Vec<StepRun> = runs.collect();
    runs.sort_by(|a, b| a.begin_ms.total_cmp(&b.begin_ms));
    runs
}
