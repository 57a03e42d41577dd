//! A reference evaluator of kernels: slow, and a direct transcription of the form's definition.
//!
//! Outer points run in sequence, the last axis fastest; at each, the items in order. Every node that a value, an index
//! or an extent depends on is computed, even if a condition then discards the result; only a load with a false
//! condition is not performed. Where a reduction or a map moves along its last axis, nodes that do not depend on it keep
//! their values. Buffers are logical tensors: strides have no effect here.
//!
//! Plain stores are counted, to check that each element of an `out` buffer is written exactly once.

mod axes;
mod error;
mod items;
mod memory;
mod node;
mod reduce;

#[cfg(test)]
mod tests;

pub use error::EvaluateError;

use std::collections::HashMap;
use std::rc::Rc;

use cranelift_entity::SecondaryMap;
use kiln_scalar::{Expr, Mode, ScalarValue};
use kiln_symbolic_shape::{Binding, DimId};
use kiln_tensor::Tensor;

use crate::form::{AxisId, BufferId, Kernel, NodeId, Role, StageId};
use items::Local;
use memory::Contents;

/// Computes a kernel's meaning, on logical tensors.
///
/// `symbols` are the values of the kernel's symbols in the order of its table. `buffers` are in the kernel's order and have
/// its shapes; `out` and `inout` ones are replaced by the results. In [`Mode::Promoted`] floats are `f64`, whether passed
/// so or in their dtype, and float results are `f64`.
///
/// # Errors
/// Arguments that do not fit the kernel; a fault (an index out of bounds, an integer divided by zero); an element of an
/// `out` buffer that is not written exactly once. The buffers are then unchanged. A kernel that the verifier would reject
/// is an error too.
///
/// ```
/// use kiln_scalar::Mode;
/// use kiln_tensor::Tensor;
///
/// let text = "kernel @sum(%x: in f32[B, N], %y: out f32[B]) {
///   outer i < B
///   s = reduce add[j < N] %x[i, j]
///   store %y[i] = s
/// }";
/// let kernel = kiln_kernel::text::read(text)?;
/// let x = Tensor::from_slice(&[2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let mut buffers = [x, Tensor::from_slice(&[2], &[0.0f32; 2])?];
/// kiln_kernel::evaluate(&kernel, &[2, 3], &mut buffers, Mode::Declared)?;
/// assert_eq!(buffers[1].to_vec::<f32>()?, [6.0, 15.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn evaluate(
    kernel: &Kernel,
    symbols: &[i64],
    buffers: &mut [Tensor],
    mode: Mode,
) -> Result<(), EvaluateError> {
    let mut evaluator = Evaluator::new(kernel, symbols, buffers, mode)?;
    evaluator.for_each_point(kernel.outer(), &mut |evaluator, _| {
        evaluator.items(kernel.items())
    })?;
    evaluator.finish(buffers)
}

/// The state of an evaluation.
struct Evaluator<'a> {
    kernel: &'a Kernel,
    mode: Mode,
    binding: Binding,
    sizes: HashMap<DimId, i64>,
    contents: SecondaryMap<BufferId, Contents>,
    /// The current index of each axis; `None` outside its scope.
    positions: SecondaryMap<AxisId, Option<i64>>,
    locals: SecondaryMap<StageId, Option<Local>>,
    previous: SecondaryMap<StageId, Option<Local>>,
    last: SecondaryMap<StageId, Option<Local>>,
    /// The latest value of each node, for the expression being computed.
    values: SecondaryMap<NodeId, Option<ScalarValue>>,
    /// The nodes of an expression, operands first.
    orders: SecondaryMap<NodeId, Option<Rc<[NodeId]>>>,
    /// Those of them that depend on the position of an axis.
    varying: HashMap<(NodeId, AxisId), Rc<[NodeId]>>,
    /// The expressions of named functions.
    functions: HashMap<NodeId, Rc<Expr>>,
}

impl<'a> Evaluator<'a> {
    fn new(
        kernel: &'a Kernel,
        symbols: &[i64],
        buffers: &[Tensor],
        mode: Mode,
    ) -> Result<Self, EvaluateError> {
        let dims = kernel.dims();
        let expected = dims.symbols().count();
        if symbols.len() != expected {
            return Err(EvaluateError::SymbolCount {
                expected,
                found: symbols.len(),
            });
        }
        let named = dims.symbols().zip(symbols.iter().copied());
        let binding: Binding = named
            .filter(|&(symbol, _)| dims.definition(symbol).is_none())
            .collect();
        dims.check(&binding)?;
        if buffers.len() != kernel.buffers().len() {
            let (expected, found) = (kernel.buffers().len(), buffers.len());
            return Err(EvaluateError::BufferCount { expected, found });
        }
        let mut evaluator = Self {
            kernel,
            mode,
            binding,
            sizes: HashMap::new(),
            contents: SecondaryMap::new(),
            positions: SecondaryMap::new(),
            locals: SecondaryMap::new(),
            previous: SecondaryMap::new(),
            last: SecondaryMap::new(),
            values: SecondaryMap::new(),
            orders: SecondaryMap::new(),
            varying: HashMap::new(),
            functions: HashMap::new(),
        };
        for ((id, buffer), tensor) in kernel.buffers().iter().zip(buffers) {
            let mut shape = Vec::with_capacity(buffer.rank());
            for &dim in &buffer.shape {
                shape.push(evaluator.size(dim)?);
            }
            evaluator.contents[id] = Contents::of(buffer, &shape, tensor, mode)?;
        }
        Ok(evaluator)
    }

    /// The value of a size.
    fn size(&mut self, dim: DimId) -> Result<i64, EvaluateError> {
        if let Some(&size) = self.sizes.get(&dim) {
            return Ok(size);
        }
        let size = self.kernel.dims().evaluate(dim, &self.binding)?;
        self.sizes.insert(dim, size);
        Ok(size)
    }

    /// Checks the written buffers and returns them.
    fn finish(self, buffers: &mut [Tensor]) -> Result<(), EvaluateError> {
        let mut written = Vec::new();
        for (id, buffer) in self.kernel.buffers() {
            let contents = &self.contents[id];
            if buffer.role == Role::Out {
                contents.check_coverage(&buffer.name)?;
            }
            written.push(if buffer.role.is_written() {
                Some(contents.tensor(&buffer.name)?)
            } else {
                None
            });
        }
        for (buffer, tensor) in buffers.iter_mut().zip(written) {
            if let Some(tensor) = tensor {
                *buffer = tensor;
            }
        }
        Ok(())
    }
}
