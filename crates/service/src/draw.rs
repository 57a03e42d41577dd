//! Random sizes and elements for measurement and validation: determined by a seed, so that a failure can be reproduced.

use crate::error::ServiceError;
use kiln::internals::ir::Graph;
use kiln::internals::symbolic_shape::{Binding, SymbolId, SymbolicDimension};
use kiln::{DType, Tensor};
use std::collections::BTreeSet;

/// Sizes to try: 0, 1 and 2, vector widths and their neighbours, primes.
const SIZES: [i64; 18] = [1, 2, 3, 0, 1, 4, 5, 7, 8, 9, 11, 13, 15, 16, 17, 31, 32, 33];
/// The assumed size of a symbol without a likely value.
const LIKELY: i64 = 32;
/// The maximum number of bindings tried to find one that meets all facts.
const ATTEMPTS: usize = 64;

/// A generator of numbers: `SplitMix64`.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % (bound.max(1) as u64)) as usize
    }

    /// From -1 to 1.
    pub(crate) fn signed(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// The symbols that inputs bind.
fn input_symbols(graph: &Graph) -> BTreeSet<SymbolId> {
    let dims = graph.dims();
    let inputs = graph.inputs().iter();
    let sizes = inputs.flat_map(|&input| graph.ty(input).innermost().dims.iter());
    sizes.filter_map(|&dim| dims.as_symbol(dim)).collect()
}

/// The nearest value to `wanted` that a symbol allows.
fn allowed(info: &SymbolicDimension, wanted: i64) -> i64 {
    let multiple = info.multiple().max(1);
    let wanted = wanted.max(info.min()).min(info.max().unwrap_or(i64::MAX));
    let down = wanted.div_euclid(multiple) * multiple;
    match info.allows(down) {
        true => down,
        false => down.saturating_add(multiple),
    }
}

/// Each input symbol at its likely value.
pub(crate) fn likely_binding(graph: &Graph) -> Binding {
    let mut binding = Binding::new();
    for symbol in input_symbols(graph) {
        let info = graph.dims().symbol_info(symbol);
        let value = match info.likely_value() {
            Some(likely) => likely,
            None => allowed(info, LIKELY),
        };
        // Each symbol is set once.
        let _ = binding.set(symbol, value);
    }
    binding
}

/// The shapes of a graph's inputs at likely sizes.
///
/// # Errors
/// E1422 where the likely sizes do not meet the facts, and no drawn ones do.
pub(crate) fn likely_shapes(graph: &Graph) -> Result<Vec<Vec<usize>>, ServiceError> {
    let binding = likely_binding(graph);
    match shapes_under(graph, &binding) {
        Some(shapes) if graph.dims().check(&binding).is_ok() => Ok(shapes),
        _ => drawn_shapes(graph, &mut Random::new(1), i64::MAX),
    }
}

/// The shapes of a graph's inputs for drawn values of its symbols, none above `most` if the bounds allow that.
///
/// # Errors
/// E1422 where no drawn values meet the facts.
pub(crate) fn drawn_shapes(
    graph: &Graph,
    random: &mut Random,
    most: i64,
) -> Result<Vec<Vec<usize>>, ServiceError> {
    let symbols = input_symbols(graph);
    for _ in 0..ATTEMPTS {
        let mut binding = Binding::new();
        for &symbol in &symbols {
            let wanted = SIZES[random.below(SIZES.len())].min(most);
            let value = allowed(graph.dims().symbol_info(symbol), wanted);
            let _ = binding.set(symbol, value);
        }
        if graph.dims().check(&binding).is_ok()
            && let Some(shapes) = shapes_under(graph, &binding)
        {
            return Ok(shapes);
        }
    }
    Err(ServiceError::NoSizes {
        name: graph.name().to_owned(),
        attempts: ATTEMPTS,
    })
}

fn shapes_under(graph: &Graph, binding: &Binding) -> Option<Vec<Vec<usize>>> {
    let shape = |&input| {
        let ty = graph.tensor_ty(input)?;
        let size = |&dim| usize::try_from(graph.dims().evaluate(dim, binding).ok()?).ok();
        ty.dims.iter().map(size).collect()
    };
    graph.inputs().iter().map(shape).collect()
}

/// Tensors of these shapes for a graph's inputs: floats from -1 to 1, those of inputs named as variances from 0.5 to 1.5;
/// integers from 0 to 3.
///
/// # Errors
/// When memory cannot be allocated.
pub(crate) fn drawn_inputs(
    graph: &Graph,
    shapes: &[Vec<usize>],
    random: &mut Random,
) -> Result<Vec<Tensor>, ServiceError> {
    let inputs = graph.inputs().iter().zip(shapes);
    let tensors = inputs.map(|(&input, shape)| {
        let dtype = graph.ty(input).innermost().dtype;
        let name = graph.input_name(input);
        let is_variance = name.ends_with("variance") || name.ends_with("var");
        drawn_tensor(dtype, shape, is_variance, random)
    });
    tensors.collect()
}

/// A tensor of drawn elements.
pub(crate) fn drawn_tensor(
    dtype: DType,
    shape: &[usize],
    is_positive: bool,
    random: &mut Random,
) -> Result<Tensor, ServiceError> {
    let count: usize = shape.iter().product();
    let mut element = || match dtype {
        DType::Bool => (random.next() & 1) as f64,
        _ if !dtype.is_float() => random.below(4) as f64,
        _ if is_positive => 1.0 + 0.5 * random.signed(),
        _ => random.signed(),
    };
    let numbers: Vec<f64> = (0..count).map(|_| element()).collect();
    let made = Tensor::from_f64_slice(dtype, shape, &numbers);
    made.map_err(|error| ServiceError::stage("drawing inputs")(error.into()))
}
