//! Shared helpers of ops' tests: constant sizes, and concise tensors.

use crate::context::EvaluateContext;
use crate::evaluate::evaluate_op;
use crate::fault::OpFault;
use kiln_ir::{Dims, Op};
use kiln_symbolic_shape::{Binding, DimTable};
use kiln_tensor::{Element, Tensor};

/// A table for the sizes among attributes.
pub(crate) struct TestSizes {
    table: DimTable,
    binding: Binding,
}

impl TestSizes {
    pub(crate) fn new() -> Self {
        Self {
            table: DimTable::new(),
            binding: Binding::new(),
        }
    }

    pub(crate) fn dims(&mut self, values: &[i64]) -> Dims {
        values
            .iter()
            .map(|&value| self.table.constant(value))
            .collect()
    }

    pub(crate) fn ctx(&self) -> EvaluateContext<'_> {
        EvaluateContext::new(&self.table, &self.binding)
    }

    /// The first result of an op.
    pub(crate) fn run(&self, op: &Op, operands: &[Tensor]) -> Result<Tensor, OpFault> {
        Ok(evaluate_op(&self.ctx(), op, operands)?.swap_remove(0))
    }

    /// The shape and elements of an op's first result.
    pub(crate) fn values<T: Element>(&self, op: &Op, operands: &[Tensor]) -> (Vec<usize>, Vec<T>) {
        let result = self.run(op, operands).unwrap();
        (result.shape().to_vec(), result.to_vec::<T>().unwrap())
    }
}

/// A tensor of these elements.
pub(crate) fn tensor<T: Element>(shape: &[usize], elements: &[T]) -> Tensor {
    Tensor::from_slice(shape, elements).unwrap()
}

/// A tensor of 0, 1, 2, ….
pub(crate) fn counting(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    Tensor::from_vec(shape, (0..n).map(|i| i as f32).collect()).unwrap()
}
