//! Random inputs for a call without the caller's data: at given sizes, and the same for the same seed.
//!
//! Values are chosen so that a call succeeds: integers used as indices are in bounds, all other integers are 1, floats
//! are between -1 and 1.

use super::explained::listed;
use crate::error::{Error, Failure};
use crate::guard::guarded;
use crate::model::Model;
use kiln_ir::{Graph, Op, OpId, ValueId};
use kiln_symbolic_shape::{Binding, SymbolId, SymbolicDimension};
use kiln_tensor::{DType, Tensor};
use std::collections::{BTreeMap, BTreeSet};

/// Candidates for the sizes that are neither given nor likely: powers of two up to this exponent.
const LARGEST_POWER: u32 = 10;

/// Inputs of a call, and the sizes that they were drawn for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DrawnInputs {
    /// A tensor for each input, by name.
    pub tensors: Vec<(String, Tensor)>,
    /// The size of each of the model's symbols, including those that were not given.
    pub sizes: BTreeMap<String, i64>,
}

/// Draws inputs at these sizes of the model's symbols, the same for the same seed. A symbol that is not in `sizes` has its
/// likely size; without one, the smallest power of two with which the model's requirements are met.
///
/// # Errors
/// E0972 for a symbol that the model does not have, E0978 for a size that it does not allow, E0976 and E0995 as
/// [`graph`](super::graph).
///
/// ```
/// use kiln::{Model, Source, diagnose};
///
/// let model = Model::load(Source::text(
///     "graph @look_up(%table: f32[10, D], %ids: i64[N]) -> f32[N, D] {
///        %y = gather %table, %ids {axis = 0}
///        return %y
///      }",
/// ))?;
/// let drawn = diagnose::draw_inputs(&model, &[("N".to_owned(), 4)].into(), 7)?;
/// assert_eq!(drawn.sizes["D"], 1);
/// let ids = drawn.tensors[1].1.to_vec::<i64>()?;
/// assert!(ids.iter().all(|id| (0..10).contains(id)));
/// model.run(&drawn.tensors)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn draw_inputs(
    model: &Model,
    sizes: &BTreeMap<String, i64>,
    seed: u64,
) -> Result<DrawnInputs, Error> {
    guarded("drawing inputs", || {
        let instance = model.only_instance()?;
        let graph = instance.optimized();
        let binding = choose(graph, sizes)?;
        let mut tensors = Vec::new();
        for (input, &value) in model.inputs().iter().zip(graph.inputs()) {
            let mut bits = Bits::new(seed, input.name());
            let tensor = draw(graph, value, &binding, &mut bits)?;
            tensors.push((input.name().to_owned(), tensor));
        }
        let sizes = free_symbols(graph).into_iter().filter_map(|symbol| {
            let name = graph.dims().symbol_info(symbol).name().to_owned();
            Some((name, binding.get(symbol)?))
        });
        Ok(DrawnInputs {
            tensors,
            sizes: sizes.collect(),
        })
    })
}

/// The symbols that get a value from a call's sizes: all except those that data or other symbols define.
fn free_symbols(graph: &Graph) -> Vec<SymbolId> {
    let dims = graph.dims();
    let by_data: BTreeSet<SymbolId> = graph
        .ops()
        .flat_map(|(_, data)| data.symbols.iter().copied())
        .collect();
    let symbols = dims.symbols();
    symbols
        .filter(|&symbol| dims.definition(symbol).is_none() && !by_data.contains(&symbol))
        .collect()
}

/// A value for every free symbol.
fn choose(graph: &Graph, given: &BTreeMap<String, i64>) -> Result<Binding, Error> {
    let dims = graph.dims();
    let free = free_symbols(graph);
    let names: BTreeSet<&str> = free
        .iter()
        .map(|&symbol| dims.symbol_info(symbol).name())
        .collect();
    if let Some(name) = given.keys().find(|name| !names.contains(name.as_str())) {
        let known = names.iter().map(|name| name.escape_debug().to_string());
        return Err(Failure::UnknownDim {
            name: name.escape_debug().to_string(),
            expected: match names.is_empty() {
                true => "the model has no named dimension".to_owned(),
                false => format!("expected one of: {}", listed(known.collect(), name)),
            },
        }
        .into());
    }
    let mut second = None;
    for power in 0..=LARGEST_POWER {
        let binding = bound(graph, &free, given, 1 << power)?;
        let mut facts = dims.contract_facts().iter();
        if facts.all(|fact| !matches!(dims.holds(&fact.predicate, &binding), Ok(false))) {
            let mut plans = dims.plan_facts().iter();
            let value = |dim| dims.evaluate(dim, &binding).ok();
            // Small sizes are often equal or unequal by chance, and then not typical of the plan that most calls use.
            if plans.all(|fact| value(fact.left) == value(fact.right)) {
                return Ok(binding);
            }
            second.get_or_insert(binding);
        }
    }
    // If requirements are not met, the call reports which.
    second.map_or_else(|| bound(graph, &free, given, 1), Ok)
}

/// The binding with this size for each symbol that has neither a given nor a likely one.
fn bound(
    graph: &Graph,
    free: &[SymbolId],
    given: &BTreeMap<String, i64>,
    otherwise: i64,
) -> Result<Binding, Error> {
    let mut binding = Binding::new();
    for &symbol in free {
        let info = graph.dims().symbol_info(symbol);
        let size = match given.get(info.name()) {
            Some(&size) if info.allows(size) => size,
            Some(&size) => {
                return Err(Failure::Size {
                    name: info.name().escape_debug().to_string(),
                    size,
                    expected: in_words(info),
                }
                .into());
            }
            None => info
                .likely_value()
                .unwrap_or_else(|| nearest(info, otherwise)),
        };
        binding.set(symbol, size)?;
    }
    Ok(binding)
}

/// The smallest allowed size that is not below `size`, or else the largest allowed one.
fn nearest(info: &SymbolicDimension, size: i64) -> i64 {
    let multiple = info.multiple().max(1);
    let least = info.min().max(size);
    let mut up = (least..least.saturating_add(multiple)).filter(|&size| info.allows(size));
    let most = info.max().map(|most| most - most.rem_euclid(multiple));
    up.next().or(most).unwrap_or(least)
}

fn in_words(info: &SymbolicDimension) -> String {
    let mut text = match info.max() {
        Some(most) => format!("{}..{most}", info.min().max(0)),
        None => format!("{} or more", info.min().max(0)),
    };
    if info.multiple() > 1 {
        text.push_str(&format!(", a multiple of {}", info.multiple()));
    }
    text
}

/// A tensor for an input.
fn draw(graph: &Graph, value: ValueId, at: &Binding, bits: &mut Bits) -> Result<Tensor, Error> {
    let Some(ty) = graph.tensor_ty(value) else {
        return Err(Failure::NotATensor {
            name: graph.input_name(value).escape_debug().to_string(),
            found: graph.ty(value).display(graph.dims()).to_string(),
        }
        .into());
    };
    let sizes = graph.dims().evaluate_all(&ty.dims, at)?;
    let shape = sizes
        .into_iter()
        .map(|size| usize::try_from(size).unwrap_or(0));
    let shape: Vec<usize> = shape.collect();
    let n_elements = kiln_tensor::element_count(ty.dtype, &shape)?;
    // Allocated first, with a check, because sizes are arbitrary.
    let zeros = Tensor::zeros(ty.dtype, &shape)?;
    let elements: Vec<f64> = match ty.dtype {
        DType::F64 | DType::F32 | DType::F16 | DType::BF16 => (0..n_elements)
            .map(|_| bits.fraction() * 2.0 - 1.0)
            .collect(),
        DType::Bool => vec![1.0; n_elements],
        _ => match indexed(graph, value, at) {
            Some(size) => {
                let size = size.max(1) as f64;
                let index = |bits: &mut Bits| (bits.fraction() * size).floor();
                (0..n_elements).map(|_| index(bits)).collect()
            }
            None => vec![1.0; n_elements],
        },
    };
    drop(zeros);
    Ok(Tensor::from_f64_slice(ty.dtype, &shape, &elements)?)
}

/// The size of the smallest axis that elements of an input index, directly or through ops on integers; `None` if they
/// index no axis.
fn indexed(graph: &Graph, input: ValueId, at: &Binding) -> Option<i64> {
    let mut readers: BTreeMap<ValueId, Vec<(OpId, usize)>> = BTreeMap::new();
    for (op, data) in graph.ops() {
        for (position, &operand) in data.operands.iter().enumerate() {
            readers.entry(operand).or_default().push((op, position));
        }
    }
    let mut smallest = None;
    let mut seen = BTreeSet::from([input]);
    let mut pending = vec![input];
    while let Some(value) = pending.pop() {
        for &(op, position) in readers.get(&value).into_iter().flatten() {
            let data = graph.op(op);
            if let Some(axis) = indexed_axis(&data.op, position) {
                let operand = data.operands.first().and_then(|&x| graph.tensor_ty(x));
                let dim = operand.and_then(|ty| ty.dims.get(axis).copied());
                let size = dim.and_then(|dim| graph.dims().evaluate(dim, at).ok());
                smallest = smallest.into_iter().chain(size).min();
                continue;
            }
            let is_whole = |value: &ValueId| {
                let ty = graph.tensor_ty(*value);
                ty.is_some_and(|ty| ty.dtype.is_integer())
            };
            let results = data.results.iter().copied();
            pending.extend(results.filter(|value| is_whole(value) && seen.insert(*value)));
        }
    }
    smallest
}

/// The axis of the first operand that an operand of an op indexes.
fn indexed_axis(op: &Op, position: usize) -> Option<usize> {
    match op {
        Op::Gather { axis } | Op::GatherElements { axis } if position == 1 => Some(*axis),
        Op::GatherNd { batch_axes } if position == 1 => Some(*batch_axes),
        Op::ScatterElements { axis, .. } if position == 1 => Some(*axis),
        Op::ScatterNd { .. } if position == 1 => Some(0),
        _ => None,
    }
}

/// Pseudo-random bits: SplitMix64 (Steele, Lea and Flood, 2014), one sequence for each input.
struct Bits(u64);

impl Bits {
    fn new(seed: u64, name: &str) -> Self {
        // FNV-1a of the name, so that inputs differ regardless of their order.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(seed ^ hash)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number in `[0, 1)`, of 53 bits.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Source};

    fn load(text: &str) -> Model {
        let options = Options::new().device(crate::Device::interpreter());
        options.load(Source::text(text)).unwrap()
    }

    const PRODUCT: &str = "graph @f(%x: f32[B, K], %w: f32[K, 3]) -> f32[B, 3] {
      %y = matmul %x, %w
      return %y
    }";

    #[test]
    fn a_seed_draws_the_same_and_another_draws_others() {
        let model = load(PRODUCT);
        let draw = |seed| draw_inputs(&model, &[("B".to_owned(), 5)].into(), seed).unwrap();
        let (a, b, c) = (draw(1), draw(1), draw(2));
        assert_eq!(a.sizes, [("B".to_owned(), 5), ("K".to_owned(), 1)].into());
        assert!(a.tensors[0].1.bit_equal(&b.tensors[0].1));
        assert!(!a.tensors[0].1.bit_equal(&c.tensors[0].1));
        assert_eq!(a.tensors[0].1.shape(), [5, 1]);
    }

    #[test]
    fn an_unknown_symbol_is_answered_with_those_there_are() {
        let error = draw_inputs(&load(PRODUCT), &[("batch".to_owned(), 5)].into(), 0).unwrap_err();
        assert_eq!(error.code(), "E0972");
        assert_eq!(
            error.to_string(),
            "unknown dimension `batch`, expected one of: B, K"
        );
    }

    #[test]
    fn a_size_that_a_constraint_excludes_is_refused() {
        let options = Options::new().device(crate::Device::interpreter());
        let options = options.dim("B", crate::Dim::range(2..=8).multiple_of(2));
        let model = options.load(Source::text(PRODUCT)).unwrap();
        let error = draw_inputs(&model, &[("B".to_owned(), 5)].into(), 0).unwrap_err();
        assert_eq!(
            (error.code(), error.to_string()),
            (
                "E0978",
                "dimension B: expected 2..8, a multiple of 2, found 5".to_owned()
            )
        );
        let drawn = draw_inputs(&model, &BTreeMap::new(), 0).unwrap();
        assert_eq!(drawn.sizes["B"], 2);
    }
}
