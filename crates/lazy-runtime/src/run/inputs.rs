//! Input checks of a run: against the graph's types, and against the inputs of the previous run.

use kiln_interpreter::InterpretError;
use kiln_ir::Graph;
use kiln_tensor::{DType, Tensor};
use smallvec::SmallVec;

use crate::plan::Key;

/// The types and shapes of inputs that fit the graph: most calls have the same ones as the previous call.
pub(crate) struct Known {
    /// Their dtypes and ranks.
    kinds: SmallVec<[(DType, usize); 4]>,
    /// Their sizes as a row.
    sizes: Key,
}

impl Known {
    /// The symbols of the inputs, with their sizes as from [`sizes_of`].
    pub(super) fn new(inputs: &[Tensor], sizes: Key) -> Self {
        let kinds = inputs.iter().map(|tensor| (tensor.dtype(), tensor.rank()));
        Self {
            kinds: kinds.collect(),
            sizes,
        }
    }

    /// Whether other inputs have the same dtypes and sizes.
    pub(super) fn is_of(&self, inputs: &[Tensor]) -> bool {
        if inputs.len() != self.kinds.len() {
            return false;
        }
        let mut sizes = self.sizes.as_slice();
        inputs.iter().zip(&self.kinds).all(|(tensor, &kind)| {
            let shape = tensor.shape();
            let Some((known, others)) = sizes.split_at_checked(shape.len()) else {
                return false;
            };
            sizes = others;
            let mut both = shape.iter().zip(known);
            (tensor.dtype(), shape.len()) == kind
                && both.all(|(&size, &known)| as_key(size) == known)
        })
    }
}

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

/// The sizes of inputs as a row, each of a known rank.
pub(super) fn sizes_of(inputs: &[Tensor]) -> Key {
    let sizes = inputs.iter().flat_map(|tensor| tensor.shape());
    sizes.map(|&size| as_key(size)).collect()
}

fn as_key(size: usize) -> i64 {
    // A tensor's sizes fit an `isize`.
    size as i64
}
