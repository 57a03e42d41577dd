//! The edge of a run: inputs taken in, outputs handed out.

use crate::buffer::dense;
use crate::error::{InterpretError, OpSite};
use crate::evaluate::convert;
use kiln_ir::Graph;
use kiln_scalar::Mode;
use kiln_tensor::Tensor;

/// The inputs as the run computes with them: of the declared dtypes, then as the mode stores them.
/// In [`Mode::Promoted`] an input may be `f64` already.
pub(super) fn accept(
    graph: &Graph,
    inputs: &[Tensor],
    mode: Mode,
) -> Result<Vec<Tensor>, InterpretError> {
    if inputs.len() != graph.inputs().len() {
        return Err(InterpretError::InputCount {
            expected: graph.inputs().len(),
            found: inputs.len(),
        });
    }
    let accepted = graph.inputs().iter().zip(inputs).map(|(&value, tensor)| {
        let name = || graph.input_name(value);
        let ty = || graph.ty(value).display(graph.dims()).to_string();
        let Some(declared) = graph.tensor_ty(value) else {
            return Err(InterpretError::NotATensor {
                value: format!("input {}", name()),
                ty: ty(),
            });
        };
        let stored = mode.stored(declared.dtype);
        if tensor.dtype() != declared.dtype && tensor.dtype() != stored {
            return Err(InterpretError::InputDType {
                input: name(),
                ty: ty(),
                found: tensor.dtype(),
            });
        }
        let tensor = dense(tensor).and_then(|tensor| convert(&tensor, stored));
        tensor.map_err(|error| InterpretError::Tensor {
            value: format!("input {}", name()),
            error,
        })
    });
    accepted.collect()
}

/// The outputs, contiguous; copies of views together take at most `limit` bytes.
pub(super) fn deliver(
    graph: &Graph,
    outputs: Vec<Tensor>,
    limit: u64,
) -> Result<Vec<Tensor>, InterpretError> {
    let mut copied = 0u64;
    let delivered = outputs.iter().enumerate().map(|(index, tensor)| {
        let name = graph.output_names().get(index);
        let name = || name.map_or_else(|| index.to_string(), ToString::to_string);
        if !tensor.is_contiguous() {
            copied = copied.saturating_add(tensor.byte_len() as u64);
        }
        if copied > limit {
            let (op, origin, given) = ("return", name(), copied);
            let at = OpSite { op, origin };
            return Err(InterpretError::LiveBytes { at, given, limit });
        }
        dense(tensor).map_err(|error| InterpretError::Tensor {
            value: format!("output {}", name()),
            error,
        })
    });
    delivered.collect()
}
