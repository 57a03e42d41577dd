//! Requirements of ops on the sizes of a call, checked before they compute; with the codes of the corresponding faults.

use crate::error::InterpretError;
use crate::fault::OpFault;
use kiln_symbolic_shape::{
    Binding, DimId, DimTable, EvaluateError, RequirementKind as Kind, SizeRequirement, Unmet,
    Verdict,
};
use kiln_tensor::TensorError;

/// Checks requirements in their order; returns those whose symbols have no values yet.
///
/// # Errors
/// The first that these sizes violate.
pub fn check_requirements<'a>(
    dims: &DimTable,
    requirements: impl IntoIterator<Item = &'a SizeRequirement>,
    binding: &Binding,
) -> Result<Vec<&'a SizeRequirement>, InterpretError> {
    let mut unknown = Vec::new();
    for asked in requirements {
        match dims.judge(asked, binding) {
            Verdict::Met => {}
            Verdict::Unknown => unknown.push(asked),
            Verdict::Unmet(unmet) => {
                return Err(InterpretError::Requirement {
                    problem: problem_of(dims, asked, &unmet),
                    origin: asked.origin.clone(),
                    code: code_of(asked.kind, &unmet),
                });
            }
        }
    }
    Ok(unknown)
}

/// The interpreter's code for the same fault.
fn code_of(kind: Kind, unmet: &Unmet) -> &'static str {
    match (unmet, kind) {
        (Unmet::NoValue(EvaluateError::Broadcast { .. }), Kind::Broadcast) => OpFault::BROADCAST,
        (Unmet::NoValue(_), _) => OpFault::SIZE,
        (Unmet::NegativeStart(_), _) => OpFault::NEGATIVE,
        (Unmet::Sizes(..), kind) => match kind {
            Kind::Broadcast => OpFault::BROADCAST,
            Kind::Equal | Kind::Product | Kind::Covers | Kind::Fits => OpFault::SIZE_MISMATCH,
            Kind::NonNegative => OpFault::NEGATIVE,
            Kind::NotEmpty => OpFault::EMPTY_AXIS,
            Kind::AtMost => OpFault::LIMIT,
            Kind::MeanOfSome | Kind::Divides { .. } => OpFault::MALFORMED,
            Kind::Slice { .. } => TensorError::SLICE_OUT_OF_RANGE,
            Kind::Expand => TensorError::BROADCAST_MISMATCH,
            Kind::SameCount => TensorError::RESHAPE_MISMATCH,
            _ => OpFault::SIZE,
        },
    }
}

fn problem_of(dims: &DimTable, asked: &SizeRequirement, unmet: &Unmet) -> String {
    let named = |of: &[DimId], values: &[i64]| {
        let named = of.iter().zip(values).map(|(&dim, value)| {
            let text = dims.display(dim).to_string();
            match text.parse() == Ok(*value) {
                true => text,
                false => format!("{text} = {value}"),
            }
        });
        named.collect::<Vec<_>>().join(", ")
    };
    let what = &asked.what;
    match unmet {
        Unmet::NoValue(error) => format!("expected {what}, found none: {error}"),
        Unmet::NegativeStart(start) => {
            format!("expected the start of a slice of at least 0, found {start}")
        }
        Unmet::Sizes(left, right) => {
            let (left, right) = (named(&asked.left, left), named(&asked.right, right));
            match asked.kind {
                Kind::Broadcast => {
                    let left = left.replacen(", ", " with ", 1);
                    format!("cannot broadcast {left}")
                }
                Kind::NonNegative => format!("expected {what} of at least 0, found {left}"),
                Kind::NotEmpty | Kind::MeanOfSome => {
                    format!("expected an axis with elements for {what}, found {left}")
                }
                Kind::Divides { divisor } => {
                    format!("expected {what} that divide {left}, found {divisor}")
                }
                Kind::AtMost => format!("expected at most {right} {what}, found {left}"),
                _ => format!("expected {what} that fit, found {left} and {right}"),
            }
        }
    }
}
