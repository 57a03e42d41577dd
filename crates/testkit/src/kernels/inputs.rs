//! Tensors for a kernel's buffers.

use crate::generate::{Flavor, random_tensor};
use crate::random::SplitMix64;
use kiln_kernel::{Kernel, Role};
use kiln_tensor::{DType, Tensor, TensorError};

use super::sizes::buffer_shapes;

/// The distribution of a kernel's operands.
#[derive(Clone, Copy, Debug)]
pub struct Elements {
    /// The distribution of floats, and of integers narrower than `i64`.
    pub flavor: Flavor,
    /// The range of `i64`s, end exclusive: they serve as indices.
    pub indices: (i64, i64),
}

impl Default for Elements {
    fn default() -> Self {
        Self {
            flavor: Flavor::Smooth,
            indices: (0, 1),
        }
    }
}

/// A tensor for every buffer of a kernel at these sizes, in order; `None` if the facts do not hold.
///
/// # Errors
/// When a tensor does not fit into memory.
pub fn kernel_tensors(
    random: &mut SplitMix64,
    kernel: &Kernel,
    symbols: &[i64],
    elements: Elements,
) -> Result<Option<Vec<Tensor>>, TensorError> {
    let Some(shapes) = buffer_shapes(kernel, symbols) else {
        return Ok(None);
    };
    let mut tensors = Vec::with_capacity(shapes.len());
    for (buffer, shape) in kernel.buffers().values().zip(shapes) {
        let mut tensor = match (buffer.role, buffer.dtype) {
            (Role::Out, dtype) => Tensor::zeros(dtype, &shape)?,
            (_, DType::I64) => {
                let (low, high) = elements.indices;
                let count = shape.iter().product();
                let mut next = || random.between(low, high - 1);
                Tensor::from_vec(&shape, (0..count).map(|_| next()).collect())?
            }
            (_, dtype) => random_tensor(random, dtype, &shape, elements.flavor)?,
        };
        // Along a repeated axis, all elements are the same.
        for (axis, repeats) in repeated(kernel, buffer, symbols).into_iter().enumerate() {
            if repeats && tensor.shape()[axis] > 1 {
                let shape = tensor.shape().to_vec();
                tensor = tensor
                    .narrow(axis, 0, 1)?
                    .broadcast_to(&shape)?
                    .contiguous()?;
            }
        }
        tensors.push(tensor);
    }
    Ok(Some(tensors))
}

fn repeated(kernel: &Kernel, buffer: &kiln_kernel::Buffer, symbols: &[i64]) -> Vec<bool> {
    let binding = super::sizes::binding(kernel, symbols);
    let strides = buffer.strides.as_deref().unwrap_or_default();
    let is_zero = |&dim| kernel.dims().evaluate(dim, &binding) == Ok(0);
    strides.iter().map(is_zero).collect()
}
