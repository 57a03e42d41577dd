//! The boundary of a run: converts inputs and outputs.

use crate::context::convert;
use crate::error::{InterpretError, OpSite};
use crate::fault::OpFault;
use crate::interrupt::Interrupt;
use crate::options::InterpretOptions;
use kiln_ir::Graph;
use kiln_tensor::Tensor;
use std::cell::Cell;

/// The inputs in the run's representation: checked against the declared dtypes, then converted to the mode's
/// representation. In [`Mode::Promoted`] an input may already be `f64`.
pub(super) fn accept(
    graph: &Graph,
    inputs: &[Tensor],
    options: &InterpretOptions<'_>,
) -> Result<Vec<Tensor>, InterpretError> {
    if inputs.len() != graph.inputs().len() {
        return Err(InterpretError::InputCount {
            expected: graph.inputs().len(),
            found: inputs.len(),
        });
    }
    let done = Cell::new(0);
    let interrupt = Interrupt::new(options.cancelled, &done);
    let accepted = graph.inputs().iter().zip(inputs).map(|(&value, tensor)| {
        let name = || graph.input_name(value);
        let ty = || graph.ty(value).display(graph.dims()).to_string();
        let Some(declared) = graph.tensor_ty(value) else {
            return Err(InterpretError::NotATensor {
                value: format!("input {}", name()),
                ty: ty(),
            });
        };
        let stored = options.mode.stored(declared.dtype);
        if tensor.dtype() != declared.dtype && tensor.dtype() != stored {
            return Err(InterpretError::InputDType {
                input: name(),
                ty: ty(),
                found: tensor.dtype(),
            });
        }
        let tensor = interrupt
            .dense(tensor)
            .and_then(|tensor| convert(interrupt, &tensor, stored));
        tensor.map_err(|fault| at_the_edge(format!("input {}", name()), fault))
    });
    accepted.collect()
}

/// A fault at the boundary of a run, as an error for the caller.
fn at_the_edge(value: String, fault: OpFault) -> InterpretError {
    match fault {
        OpFault::Stopped => InterpretError::Cancelled,
        OpFault::Tensor(error) => InterpretError::Tensor { value, error },
        fault => InterpretError::Op {
            at: OpSite {
                op: "copy",
                origin: value,
            },
            fault: Box::new(fault),
        },
    }
}

/// The outputs, contiguous; copies of views together take at most the limit on live bytes.
pub(super) fn deliver(
    graph: &Graph,
    outputs: Vec<Tensor>,
    options: &InterpretOptions<'_>,
) -> Result<Vec<Tensor>, InterpretError> {
    let limit = options.limits.live_bytes;
    let done = Cell::new(0);
    let interrupt = Interrupt::new(options.cancelled, &done);
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
        let delivered = interrupt.dense(tensor);
        delivered.map_err(|fault| at_the_edge(format!("output {}", name()), fault))
    });
    delivered.collect()
}
