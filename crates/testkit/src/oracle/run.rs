//! Running a graph and what a transformation made of it.

use super::compare::{Mismatch, Tolerance, compare_all};
use kiln_interpreter::{InterpretError, InterpretLimits, InterpretOptions, interpret};
use kiln_ir::Graph;
use kiln_tensor::Tensor;

/// What two graphs that compute the same did.
#[derive(Debug)]
pub enum Agreement {
    /// Both gave these outputs, as far as the tolerance goes.
    Outputs(Vec<Tensor>),
    /// The first failed; what the second did is then its own affair, as it may have dropped the
    /// op that failed. Or the second alone needed more memory than it may have.
    Failed(InterpretError),
}

/// How two graphs that compute the same differ.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Disagreement {
    /// Another output.
    #[error("outputs differ: {0}")]
    Outputs(#[from] Mismatch),
    /// The second fails where the first does not.
    #[error("fails where the original does not: {0}")]
    Fails(InterpretError),
}

/// Runs both graphs under the interpreter and compares what they give.
///
/// # Errors
/// When the original gives outputs and the other does not, or gives others.
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
        // How much is alive at once is no part of what a graph means.
        Err(error @ InterpretError::LiveBytes { .. }) => return Ok(Agreement::Failed(error)),
        Err(error) => return Err(Disagreement::Fails(error)),
    };
    compare_all(&expected, &found, tolerance)?;
    Ok(Agreement::Outputs(expected))
}

/// Limits that keep a random graph from filling the machine: 64 MiB alive, 1000 iterations.
pub fn small_limits() -> InterpretLimits {
    InterpretLimits {
        live_bytes: 64 << 20,
        iterations: 1000,
        ..InterpretLimits::default()
    }
}
