//! What a segment asks of sizes: what its ops ask, which refuses the call first; plan facts, which pick the plan, and requirements, which refuse the call.

use kiln_interpreter::check_requirements;
use kiln_program::{Program, Segment};
use kiln_symbolic_shape::{Binding, EvaluateError, PlanFact};

use super::Refusal;
use crate::error::RuntimeError;

/// Checks a segment's facts and requirements.
pub(super) fn check(
    program: &Program,
    segment: &Segment,
    binding: &Binding,
) -> Result<(), Refusal> {
    let dims = program.graph().dims();
    check_requirements(dims, &segment.contract, binding).map_err(RuntimeError::from)?;
    let mut failed: Vec<PlanFact> = Vec::new();
    for fact in &segment.facts {
        let value = |dim| dims.evaluate(dim, binding);
        match (value(fact.left), value(fact.right)) {
            (Ok(left), Ok(right)) if left == right => {}
            (Err(error @ EvaluateError::Unbound { .. }), _)
            | (_, Err(error @ EvaluateError::Unbound { .. })) => {
                let what = fact.name(dims);
                return Err(RuntimeError::Size { what, error }.into());
            }
            // What has no value is not equal either; the plan that serves all sizes says what is wrong with them.
            _ => failed.push(fact.clone()),
        }
    }
    if !failed.is_empty() {
        return Err(Refusal::Facts(failed));
    }
    for requirement in &segment.requirements {
        let predicate = || dims.display_predicate(&requirement.predicate).to_string();
        match dims.holds(&requirement.predicate, binding) {
            Ok(true) => {}
            Ok(false) => {
                let found = requirement.predicate.dims().into_iter().map(|dim| {
                    let value = dims.evaluate(dim, binding).unwrap_or_default();
                    format!("{} = {value}", dims.display(dim))
                });
                let error = RuntimeError::Requirement {
                    step: program.graph().name().to_owned(),
                    message: requirement.message.clone(),
                    predicate: predicate(),
                    found: found.collect::<Vec<_>>().join(", "),
                };
                return Err(error.into());
            }
            Err(error) => {
                return Err(RuntimeError::Size {
                    what: predicate(),
                    error,
                }
                .into());
            }
        }
    }
    Ok(())
}
