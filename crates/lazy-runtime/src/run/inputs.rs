//! The edge of a run: inputs compared with the graph's types, their sizes as a key.

use kiln_interpreter::InterpretError;
use kiln_ir::Graph;
use kiln_tensor::Tensor;

use crate::plan::Key;

/// Compares number, dtypes and ranks of inputs with the graph's; answers with their sizes in a row.
pub(super) fn check(graph: &Graph, inputs: &[Tensor]) -> Result<Key, InterpretError> {
    if inputs.len() != graph.inputs().len() {
        let (expected, found) = (graph.inputs().len(), inputs.len());
        return Err(InterpretError::InputCount { expected, found });
    }
    let mut key = Key::new();
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
        // A tensor's sizes fit an `isize`.
        key.extend(tensor.shape().iter().map(|&size| size as i64));
    }
    Ok(key)
}
