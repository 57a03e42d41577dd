//! The edge of a run: inputs compared with the graph's types, their sizes as a key and with a key.

use kiln_interpreter::InterpretError;
use kiln_ir::Graph;
use kiln_tensor::Tensor;

use crate::plan::Key;

/// Compares number, dtypes and ranks of inputs with the graph's.
pub(super) fn check(graph: &Graph, inputs: &[Tensor]) -> Result<(), InterpretError> {
    if inputs.len() != graph.inputs().len() {
        let (expected, found) = (graph.inputs().len(), inputs.len());
        return Err(InterpretError::InputCount { expected, found });
    }
    for (&value, tensor) in graph.inputs().iter().zip(inputs) {
        let input = || graph.input_name(value);
        let ty = || graph.ty(value).display(graph.dims()).to_string();
        let Some(declared) = graph.tensor_ty(value) else {
            let value = format!("input {}", input());
            return Err(InterpretError::NotATensor { value, ty: ty() });
        };
        if tensor.dtype() != declared.dtype {
            let found = tensor.dtype();
            return Err(InterpretError::InputDType {
                input: input(),
                ty: ty(),
                found,
            });
        }
        if tensor.rank() != declared.rank() {
            let found = tensor.shape().to_vec();
            return Err(InterpretError::InputRank {
                input: input(),
                ty: ty(),
                found,
            });
        }
    }
    Ok(())
}

/// The sizes of inputs in a row, each of a known rank.
pub(super) fn sizes_of(inputs: &[Tensor]) -> Key {
    inputs.iter().flat_map(sizes).collect()
}

/// Whether these are the sizes of the inputs.
pub(super) fn have_sizes(inputs: &[Tensor], key: &Key) -> bool {
    inputs.iter().flat_map(sizes).eq(key.iter().copied())
}

fn sizes(tensor: &Tensor) -> impl Iterator<Item = i64> + '_ {
    // A tensor's sizes fit an `isize`.
    tensor.shape().iter().map(|&size| size as i64)
}
