//! Random valid graphs, with every core op, and inputs for them.
//!
//! A graph is grown op by op through `GraphBuilder`, so it is typed and verified by construction: each file adds a family
//! of ops, picking operands that satisfy the ops' constraints and creating them where there are none. An op that inference
//! rejects is omitted. Sizes share a few symbols; [`input_shapes`] picks values for them, mainly 0, 1 and odd ones.
//!
//! A generated graph may still fail at run time, as any graph may: two symbols that must be equal and are not, a window
//! larger than its operand. Custom ops, which are not registered, are omitted.

mod contraction;
mod control;
mod elements;
mod elementwise;
mod families;
mod indexing;
mod inputs;
mod movement;
mod reduction;
mod scope;
mod sizes;

pub use elements::{Flavor, random_tensor};
pub use inputs::{broken_shapes, input_shapes, input_tensors, shapes_under};

use arbitrary::Unstructured;
use kiln_ir::{Graph, ValueId};
use kiln_shape_inference::{GraphBuilder, InferError};
use kiln_symbolic_shape::{DimId, SymbolicDimension};
use kiln_tensor::DType;
use scope::{SYMBOLS, Scope, Step};

/// The ingredients of a random graph.
#[derive(Clone, Copy, Debug)]
pub struct GraphOptions {
    /// The number of ops that are tried, excluding those inside regions.
    pub max_ops: usize,
    /// Only continuous functions of moderate slope on f32, so that a rounding error stays small.
    pub smooth: bool,
}

impl Default for GraphOptions {
    fn default() -> Self {
        Self {
            max_ops: 24,
            smooth: false,
        }
    }
}

/// Why a step was abandoned.
#[derive(Debug, thiserror::Error)]
enum Stop {
    /// The source of choices failed.
    #[error("no choice: {0}")]
    Choice(#[from] arbitrary::Error),
    /// The op does not fit.
    #[error("no fit: {0}")]
    Infer(#[from] InferError),
    /// No suitable operand exists.
    #[error("no operand")]
    NoOperand,
}

/// A random graph, with at least one input and one output.
///
/// # Errors
/// When the source of choices fails; running out of choices is not a failure.
pub fn random_graph(
    choices: &mut Unstructured<'_>,
    options: &GraphOptions,
) -> arbitrary::Result<Graph> {
    let mut builder = GraphBuilder::new("generated");
    match grow(choices, &mut builder, options) {
        Ok(outputs) => match builder.finish(&outputs) {
            Ok(graph) => Ok(graph),
            Err(error) => {
                unreachable!("the builder accepts each op and rejects the whole: {error}")
            }
        },
        Err(Stop::Choice(error)) => Err(error),
        Err(stop) => unreachable!("inputs and constants fit anywhere: {stop}"),
    }
}

/// Grows a graph; returns its outputs.
fn grow(
    choices: &mut Unstructured<'_>,
    builder: &mut GraphBuilder,
    options: &GraphOptions,
) -> Result<Vec<(String, ValueId)>, Stop> {
    let mut scope = Scope::body(choices, builder, options);
    declare_symbols(&mut scope)?;
    let n_inputs = scope.between(1, 3)?;
    for _ in 0..n_inputs {
        let dtype = scope.dtype()?;
        let dims = scope.random_shape(4)?;
        scope.add_input(dtype, &dims);
    }
    let n_ops = scope.between(1, options.max_ops.max(1))?;
    scope.take_steps(n_ops)?;
    let n_outputs = scope.between(1, 4)?;
    let mut outputs = vec![scope.last()?];
    for _ in 1..n_outputs {
        outputs.push(scope.any()?);
    }
    let name = |(index, value)| (format!("y{index}"), value);
    Ok(outputs.into_iter().enumerate().map(name).collect())
}

/// One to three symbols, each bound by a separate input.
fn declare_symbols(scope: &mut Scope<'_, '_>) -> Step {
    let n_symbols = scope.between(1, 3)?;
    for name in SYMBOLS.into_iter().take(n_symbols) {
        let kind = scope.between(0, 7)?;
        let declared = match kind {
            0 => SymbolicDimension::named(name).multiple_of(2),
            1 => SymbolicDimension::range(name, 1..=17),
            2 => SymbolicDimension::bounded(name, 9),
            _ => Ok(SymbolicDimension::named(name)),
        };
        let Ok(declared) = declared else {
            unreachable!("the bounds are in order")
        };
        let dim: DimId = match scope.builder.dims_mut().declare(declared) {
            Ok(symbol) => scope.builder.dims().dim(symbol),
            Err(error) => unreachable!("three names that differ: {error}"),
        };
        let dtype = if scope.options.smooth {
            DType::F32
        } else {
            scope.dtype()?
        };
        scope.add_input(dtype, &[dim]);
        scope.sizes.push(dim);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::seeded_bytes;
    use std::collections::BTreeSet;

    /// Every core op that is not an element-wise function.
    const OPS: [&str; 37] = [
        "arg_pool",
        "arg_reduce",
        "bind",
        "broadcast",
        "cast",
        "concat",
        "constant",
        "conv",
        "conv_transpose",
        "cumulate",
        "dims",
        "gather",
        "gather_elements",
        "gather_nd",
        "if",
        "iota",
        "loop",
        "matmul",
        "non_zero",
        "pad",
        "pool",
        "random_bits",
        "reduce",
        "reshape",
        "resize",
        "scatter_elements",
        "scatter_nd",
        "update_slice",
        "select",
        "slice",
        "top_k",
        "transpose",
        "add",
        "mul",
        "max",
        "neg",
        "lt",
    ];

    #[test]
    fn every_core_op_is_generated() {
        let mut seen = BTreeSet::new();
        for seed in 0..150 {
            let bytes = seeded_bytes(seed, 4096);
            let graph = random_graph(&mut Unstructured::new(&bytes), &GraphOptions::default());
            seen.extend(graph.unwrap().ops().map(|(_, data)| data.op.mnemonic()));
        }
        let missing: Vec<_> = OPS.iter().filter(|op| !seen.contains(*op)).collect();
        assert!(missing.is_empty(), "{missing:?} not among {seen:?}");
    }

    #[test]
    fn exhausted_choices_still_give_a_graph() {
        for length in [0, 1, 7, 40] {
            let bytes = vec![0xff; length];
            let graph = random_graph(&mut Unstructured::new(&bytes), &GraphOptions::default());
            assert!(!graph.unwrap().outputs().is_empty());
        }
    }
}
