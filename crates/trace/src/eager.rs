//! The values of a tape: each op is evaluated as soon as it is recorded.
//!
//! Invariant: the first `done` ops of the body have been visited; each of their values has a tensor, unless its op, or
//! an op that it depends on, faulted.

use kiln_interpreter::{
    CustomOps, EvaluateContext, InterpretOptions, OpFault, bind_symbols, evaluate_op,
    interpret_loop,
};
use kiln_ir::{Graph, Op, OpId, ValueId};
use kiln_symbolic_shape::Binding;
use kiln_tensor::Tensor;
use std::collections::HashMap;

/// The tensors of a recording whose inputs have values.
#[derive(Default)]
pub(crate) struct EagerValues {
    tensors: HashMap<ValueId, Tensor>,
    /// The sizes of the inputs so far.
    shapes: Vec<Vec<usize>>,
    binding: Binding,
    done: usize,
}

/// An op that could not be evaluated.
pub(crate) struct EagerFault {
    /// Its mnemonic.
    pub(crate) op: &'static str,
    /// The reason.
    pub(crate) message: String,
    /// The code of the reason.
    pub(crate) code: &'static str,
}

impl EagerValues {
    /// Gives the last input of the graph its tensor, and its symbols their sizes.
    pub(crate) fn add_input(
        &mut self,
        graph: &Graph,
        input: ValueId,
        tensor: &Tensor,
    ) -> Result<(), EagerFault> {
        self.shapes.push(tensor.shape().to_vec());
        self.binding = bind_symbols(graph, &self.shapes).map_err(|error| EagerFault {
            op: "input",
            message: error.to_string(),
            code: error.code(),
        })?;
        self.tensors.insert(input, tensor.clone());
        Ok(())
    }

    /// The tensor of a value.
    pub(crate) fn get(&self, value: ValueId) -> Option<&Tensor> {
        self.tensors.get(&value)
    }

    /// Evaluates the ops that were recorded since the last call, custom ops included.
    pub(crate) fn advance(
        &mut self,
        graph: &Graph,
        custom_ops: &CustomOps,
    ) -> Result<(), EagerFault> {
        let ops = &graph.region(graph.body()).ops;
        while let Some(&id) = ops.get(self.done) {
            let data = graph.op(id);
            let operands: Option<Vec<Tensor>> = data
                .operands
                .iter()
                .map(|operand| self.tensors.get(operand).cloned())
                .collect();
            self.done += 1;
            // After a fault, values that depend on the failed op have no tensor either.
            let Some(operands) = operands else { continue };
            let results = self.evaluate((graph, custom_ops), id, &operands)?;
            self.tensors
                .extend(data.results.iter().copied().zip(results));
        }
        Ok(())
    }

    fn evaluate(
        &self,
        (graph, custom_ops): (&Graph, &CustomOps),
        id: OpId,
        operands: &[Tensor],
    ) -> Result<Vec<Tensor>, EagerFault> {
        let op = &graph.op(id).op;
        if matches!(op, Op::Loop { .. }) {
            let options = InterpretOptions {
                custom_ops: Some(custom_ops),
                ..InterpretOptions::default()
            };
            return interpret_loop(graph, id, operands, &self.binding, &options).map_err(|error| {
                EagerFault {
                    op: op.mnemonic(),
                    message: error.to_string(),
                    code: error.code(),
                }
            });
        }
        let context =
            EvaluateContext::new(graph.dims(), &self.binding).with_custom_ops(Some(custom_ops));
        evaluate_op(&context, op, operands).map_err(|fault: OpFault| EagerFault {
            op: op.mnemonic(),
            message: fault.to_string(),
            code: fault.code(),
        })
    }
}
