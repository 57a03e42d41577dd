//! `kiln explain --near-misses`: pairs of steps that were not fused, ranked by what fusing them would save.
//!
//! The estimates are those of `kiln report`.

use crate::inputs::InputArguments;
use crate::model::ModelArguments;
use crate::progress::Bar;
use crate::report::{self, Failures};
use anyhow::Error;
use kiln::diagnose::CallReport;

/// The calls whose median counts.
const CALLS: usize = 10;

/// Measures each call, and prints its pairs.
pub(super) fn run(arguments: &ModelArguments, inputs: &InputArguments) -> Result<Failures, Error> {
    let bar = Bar::new();
    // The interpreter has no steps to measure.
    let (model, _) = arguments.load_with(&bar, |loading| arguments.compile_for(loading))?;
    let mut failures = Failures::default();
    for call in inputs.calls()? {
        let inputs = call.inputs(&model);
        bar.begin("measuring calls");
        let measured = inputs.and_then(|inputs| Ok(CallReport::measure(&model, &inputs, CALLS)?));
        bar.finish();
        match measured {
            Ok(measured) => {
                let (title, n_steps) = (call.title(), measured.steps.len());
                report::line(format!(
                    "{title}: {n_steps} steps, {:.3} ms a call",
                    measured.call_ms
                ))?;
                report::line(measured.near_misses().trim_end())?;
            }
            Err(error) => failures.add(call.title(), &error),
        }
    }
    Ok(failures)
}
