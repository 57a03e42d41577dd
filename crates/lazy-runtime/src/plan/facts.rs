//! The size checks of a segment, in order: requirements of its ops, which reject the call; its check, which selects the
//! plan; and requirements of the segment, which reject the call.

use kiln_interpreter::check_requirements;
use kiln_program::{Program, Segment, UnknownFact};
use kiln_symbolic_shape::Binding;

use super::Refusal;
use crate::error::RuntimeError;

/// Executes a segment's check, and checks its requirements.
pub(super) fn check(
    program: &Program,
    segment: &Segment,
    binding: &Binding,
) -> Result<(), Refusal> {
    let dims = program.graph().dims();
    check_requirements(dims, &segment.contract, binding).map_err(RuntimeError::from)?;
    if let Some(check) = &segment.check {
        let failed = check.failed_facts(dims, binding);
        let failed = failed
            .map_err(|UnknownFact { name: what, error }| RuntimeError::Size { what, error })?;
        if !failed.is_empty() {
            return Err(Refusal::Facts(failed));
        }
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
