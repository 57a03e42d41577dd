//! Inputs for a graph: sizes for its symbols, then tensors of those sizes.

use super::elements::{Flavor, random_tensor};
use crate::random::SplitMix64;
use arbitrary::Unstructured;
use kiln_ir::Graph;
use kiln_symbolic_shape::{Binding, SymbolId};
use kiln_tensor::Tensor;
use std::collections::BTreeSet;

/// Sizes to try: mainly 0, 1 and 2, then vector widths and their neighbours, and primes.
const SIZES: [i64; 22] = [
    1, 2, 3, 0, 1, 2, 4, 5, 0, 1, 6, 7, 8, 9, 10, 12, 13, 15, 16, 17, 31, 33,
];

/// The number of values tried for one symbol, and of attempts for all of them.
const ATTEMPTS: usize = 16;

/// Shapes for a graph's inputs for random values of its symbols; `None` if the tried values violate a fact, or if an
/// input is not a tensor.
///
/// # Errors
/// When the source of choices fails.
pub fn input_shapes(
    choices: &mut Unstructured<'_>,
    graph: &Graph,
) -> arbitrary::Result<Option<Vec<Vec<usize>>>> {
    let dims = graph.dims();
    let symbols: BTreeSet<SymbolId> = graph
        .inputs()
        .iter()
        .flat_map(|&input| graph.ty(input).innermost().dims.iter())
        .filter_map(|&dim| dims.as_symbol(dim))
        .collect();
    for _ in 0..ATTEMPTS {
        let mut binding = Binding::new();
        for &symbol in &symbols {
            let info = dims.symbol_info(symbol);
            let mut value = info.min();
            for _ in 0..ATTEMPTS {
                let candidate = *choices.choose(&SIZES)?;
                if info.allows(candidate) {
                    value = candidate;
                    break;
                }
            }
            if binding.set(symbol, value).is_err() {
                unreachable!("each symbol is set once");
            }
        }
        if dims.check(&binding).is_ok()
            && let Some(shapes) = shapes_under(graph, &binding)
        {
            return Ok(Some(shapes));
        }
    }
    Ok(None)
}

/// The shapes of a graph's inputs for these values of its symbols; `None` if an input is not a tensor, or a size has no
/// value.
pub fn shapes_under(graph: &Graph, binding: &Binding) -> Option<Vec<Vec<usize>>> {
    let shape = |&input| {
        let ty = graph.tensor_ty(input)?;
        let size = |&dim| usize::try_from(graph.dims().evaluate(dim, binding).ok()?).ok();
        ty.dims.iter().map(size).collect()
    };
    graph.inputs().iter().map(shape).collect()
}

/// The same shapes with one to three changes that may violate the graph's requirements on sizes: a size off by one, 0, 1,
/// 2, a prime, or another's. Usually all axes with the same expression change together, so that requirements of ops are
/// violated and not only the equality of equal names.
///
/// # Errors
/// When the source of choices fails.
pub fn broken_shapes(
    choices: &mut Unstructured<'_>,
    graph: &Graph,
    shapes: &[Vec<usize>],
) -> arbitrary::Result<Vec<Vec<usize>>> {
    let mut broken = shapes.to_vec();
    let axes: Vec<(usize, usize)> = (shapes.iter().enumerate())
        .flat_map(|(input, shape)| (0..shape.len()).map(move |axis| (input, axis)))
        .collect();
    if axes.is_empty() {
        return Ok(broken);
    }
    let dim =
        |(input, axis): (usize, usize)| graph.ty(graph.inputs()[input]).innermost().dims[axis];
    for _ in 0..choices.int_in_range(1..=3)? {
        let &at = choices.choose(&axes)?;
        let &other = choices.choose(&axes)?;
        let size = broken[at.0][at.1];
        let new = match choices.int_in_range(0..=6)? {
            0 => size + 1,
            1 => size.saturating_sub(1),
            2 => size * 2,
            3 => broken[other.0][other.1],
            _ => *choices.choose(&[0, 1, 2, 3, 5, 7, 11, 13])?,
        };
        let together = choices.int_in_range(0..=7)? > 0;
        for &axis in &axes {
            if axis == at || together && dim(axis) == dim(at) {
                broken[axis.0][axis.1] = new;
            }
        }
    }
    Ok(broken)
}

/// Random tensors of these shapes for a graph's inputs; some inputs of equal types may share one tensor.
///
/// # Errors
/// When the source of choices fails, or the tensors do not fit into memory.
pub fn input_tensors(
    choices: &mut Unstructured<'_>,
    graph: &Graph,
    shapes: &[Vec<usize>],
    flavor: Flavor,
) -> arbitrary::Result<Vec<Tensor>> {
    let mut random = SplitMix64::new(choices.arbitrary()?);
    let mut tensors: Vec<Tensor> = Vec::with_capacity(shapes.len());
    for (&input, shape) in graph.inputs().iter().zip(shapes) {
        let dtype = graph.ty(input).innermost().dtype;
        let alike = |tensor: &&Tensor| tensor.dtype() == dtype && tensor.shape() == shape;
        let aliased = tensors
            .iter()
            .find(alike)
            .filter(|_| random.below(4) == 0)
            .cloned();
        let tensor = match aliased {
            Some(tensor) => tensor,
            None => random_tensor(&mut random, dtype, shape, flavor)
                .map_err(|_| arbitrary::Error::IncorrectFormat)?,
        };
        tensors.push(tensor);
    }
    Ok(tensors)
}
