//! Running a graph and its transformation.

use super::compare::{Mismatch, Tolerance, compare_all};
use kiln_interpreter::{InterpretError, InterpretLimits, InterpretOptions, interpret};
use kiln_ir::Graph;
use kiln_tensor::Tensor;

/// The outcome of two graphs that compute the same.
#[derive(Debug)]
pub enum Agreement {
    /// Both returned these outputs, within the tolerance.
    Outputs(Vec<Tensor>),
    /// The first failed; the second's outcome is then irrelevant, as it may have dropped the op that failed. Or only the
    /// second exceeded its memory limit.
    Failed(InterpretError),
}

/// How two graphs that compute the same differ.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Disagreement {
    /// A different output.
    #[error("outputs differ: {0}")]
    Outputs(#[from] Mismatch),
    /// The second fails where the first does not.
    #[error("fails where the original does not: {0}")]
    Fails(InterpretError),
}

/// Interprets both graphs and compares their outputs.
///
/// # Errors
/// When the original has outputs and the other has none, or different ones.
pub fn run_both(
    original: &Graph,
    transformed: &Graph,
    inputs: &[Tensor],
    options: &InterpretOptions<'_>,
    tolerance: Tolerance,
) -> Result<Agreement, Disagreement> {
    let expected = match interpret(original, inputs, options) {
        Ok(expected) => expected,
        Err(error) => return Ok(Agreement::Failed(error)),
    };
    let found = match interpret(transformed, inputs, options) {
        Ok(found) => found,
        // The amount of memory alive at once is not part of a graph's meaning.
        Err(error @ InterpretError::LiveBytes { .. }) => return Ok(Agreement::Failed(error)),
        Err(error) => return Err(Disagreement::Fails(error)),
    };
    compare_all(&expected, &found, tolerance)?;
    Ok(Agreement::Outputs(expected))
}

/// Limits that keep a random graph from exhausting the machine: 64 MiB alive, 1000 iterations.
pub fn small_limits() -> InterpretLimits {
    InterpretLimits {
        live_bytes: 64 << 20,
        iterations: 1000,
        ..InterpretLimits::default()
    }
}
