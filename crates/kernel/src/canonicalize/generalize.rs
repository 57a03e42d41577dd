//! Replaces sizes by fresh symbols where no proof depends on their values.
//!
//! An expression becomes one symbol everywhere. A constant becomes one symbol per set of positions tied together by
//! indices, since two sizes may both be 384 by accident. The constant is kept as a hint, and its divisors as a fact.
//! All replacements are tried at once first, then one by one.

use std::collections::{BTreeMap, BTreeSet};

use kiln_symbolic_shape::{
    ContractFact, DimId, DimTable, FactOrigin, Hint, Predicate, SymbolId, SymbolicDimension,
};

use super::slots::{Slot, put, slots};
use super::{CanonicalPolicy, as_good};
use crate::classify::{AxisRole, Class};
use crate::form::stores;
use crate::form::{AxisId, BufferId, Kernel, Node, NodeId, StageId};
use crate::verified::VerifiedKernel;
use crate::verify::{used_nodes, verify};

/// Rows of fewer elements than this are read and written across rows, at a stride that should stay constant.
const SHORT: i64 = 8;

/// The maximum number of sizes that are tried one by one.
const MAX_TRIES: usize = 24;

/// A kernel with replaced sizes, and the replacements.
pub(super) struct General {
    pub(super) kernel: VerifiedKernel,
    /// The size of the original kernel that each new symbol represents.
    values: BTreeMap<SymbolId, DimId>,
}

impl General {
    /// The value of a symbol, as a size of the original kernel.
    pub(super) fn value(&self, symbol: SymbolId) -> DimId {
        let own = self.kernel.dims().dim(symbol);
        self.values.get(&symbol).copied().unwrap_or(own)
    }
}

/// Places that get the same symbol.
#[derive(Clone, Debug)]
struct Candidate {
    dim: DimId,
    slots: Vec<Slot>,
}

pub(super) fn generalize(kernel: &VerifiedKernel, policy: &CanonicalPolicy) -> General {
    let candidates = candidates(kernel, policy);
    let none = General {
        kernel: kernel.clone(),
        values: BTreeMap::new(),
    };
    if candidates.is_empty() {
        return none;
    }
    let all: Vec<&Candidate> = candidates.iter().collect();
    if let Some(general) = attempt(kernel, &all, policy) {
        return general;
    }
    let mut kept: Vec<&Candidate> = Vec::new();
    let mut best = none;
    for candidate in candidates.iter().take(MAX_TRIES) {
        kept.push(candidate);
        match attempt(kernel, &kept, policy) {
            Some(general) => best = general,
            None => {
                kept.pop();
            }
        }
    }
    best
}

/// The kernel with symbols in these places, if everything proved of the original is still proved of it.
fn attempt(
    kernel: &VerifiedKernel,
    candidates: &[&Candidate],
    policy: &CanonicalPolicy,
) -> Option<General> {
    let mut general: Kernel = kernel.kernel().clone();
    let mut values = BTreeMap::new();
    for candidate in candidates {
        let symbol = symbol_for(&mut general.dims, candidate)?;
        let dim = general.dims.dim(symbol);
        values.insert(symbol, candidate.dim);
        let constant = general.dims.as_constant(candidate.dim);
        let likely = constant.or_else(|| likely(&general, candidate.dim));
        if let Some(likely) = likely {
            general.dims.hint(Hint { symbol, likely });
        }
        let divisors = [policy.multiple, policy.multiple / 2].into_iter();
        let mut divisors = divisors.filter(|&divisor| divisor > 1);
        let divisor = constant.and_then(|value| divisors.find(|&divisor| value % divisor == 0));
        if let Some(divisor) = divisor {
            let fact = ContractFact {
                predicate: Predicate::Divides { divisor, dim },
                origin: FactOrigin::Declared,
            };
            general.dims.assume(fact).ok()?;
        }
        for &slot in &candidate.slots {
            put(&mut general, slot, dim);
        }
    }
    let general = verify(general).ok()?;
    let same_class = kernel.classification().class == general.classification().class;
    (same_class && as_good(kernel, &general)).then_some(General {
        kernel: general,
        values,
    })
}

/// A symbol in place of a size. If it replaces a number that may be negative, the symbol may be negative too: otherwise
/// more would be proved of the kernel than holds.
fn symbol_for(dims: &mut DimTable, candidate: &Candidate) -> Option<SymbolId> {
    let zero = dims.constant(0);
    let is_number = |slot: &Slot| matches!(slot, Slot::Number(_));
    if !candidate.slots.iter().all(is_number)
        || dims
            .prove(&Predicate::LessEqual(zero, candidate.dim))
            .is_proved()
    {
        return Some(dims.fresh("size"));
    }
    let name = format!("number_{}", candidate.dim.as_u32());
    dims.declare(SymbolicDimension::integer(name)).ok()
}

/// The value an expression has at the hints of its symbols.
fn likely(kernel: &Kernel, dim: DimId) -> Option<i64> {
    let mut binding = kiln_symbolic_shape::Binding::new();
    for hint in kernel.dims().hints() {
        binding.set(hint.symbol, hint.likely).ok()?;
    }
    kernel.dims().evaluate(dim, &binding).ok()
}

fn candidates(kernel: &VerifiedKernel, policy: &CanonicalPolicy) -> Vec<Candidate> {
    let dims = kernel.dims();
    let mut expressions: BTreeMap<DimId, Vec<Slot>> = BTreeMap::new();
    let mut constants: BTreeMap<Slot, DimId> = BTreeMap::new();
    let mut order = Vec::new();
    for (slot, dim) in slots(kernel) {
        let is_symbol = dims
            .as_symbol(dim)
            .is_some_and(|symbol| dims.definition(symbol).is_none());
        if dims.as_constant(dim).is_some() {
            constants.insert(slot, dim);
        } else if !is_symbol {
            if !expressions.contains_key(&dim) {
                order.push(dim);
            }
            expressions.entry(dim).or_default().push(slot);
        }
    }
    let mut found = Vec::new();
    for dim in order {
        let slots = expressions.remove(&dim).unwrap_or_default();
        found.push(Candidate { dim, slots });
    }
    let fixed = fixed_axes(kernel, policy);
    for slots in tied(kernel, &constants) {
        let dim = slots.first().and_then(|slot| constants.get(slot)).copied();
        let value = dim.and_then(|dim| dims.as_constant(dim));
        let is_fixed = slots
            .iter()
            .any(|slot| matches!(slot, Slot::Extent(axis) if fixed.contains(axis)));
        let (Some(dim), Some(2..)) = (dim, value) else {
            continue;
        };
        if !is_fixed {
            found.push(Candidate { dim, slots });
        }
    }
    found
}

/// The axes along which an access of a buffer of several axes is contiguous.
fn contiguous_axes(kernel: &VerifiedKernel) -> BTreeSet<AxisId> {
    let buffers = kernel.buffers().iter();
    let several = buffers.filter(|(_, buffer)| buffer.rank() > 1 && buffer.strides.is_none());
    let innermost = several.filter_map(|(id, buffer)| kernel.axis_at(id, buffer.rank() - 1));
    innermost.collect()
}

/// The axes that run through a factor of a window's products, if no factor is a constant: such as channels, if weights
/// are data, or are the result.
fn channels_of_data(kernel: &VerifiedKernel) -> BTreeSet<AxisId> {
    let classification = kernel.classification();
    if !kernel.axes_of_weights().is_empty() || classification.class != Class::Window {
        return BTreeSet::new();
    }
    let contractions = classification.contractions.iter();
    let factors = contractions.flat_map(|contraction| [contraction.left, contraction.right]);
    let indices = factors.filter_map(|factor| match kernel.node(factor) {
        Node::Load(load) => Some(&load.indices),
        _ => None,
    });
    let axes = indices
        .flatten()
        .filter_map(|&index| match kernel.node(index) {
            Node::Axis(axis) => Some(*axis),
            _ => None,
        });
    axes.collect()
}

/// The axes whose constant extents stay.
fn fixed_axes(kernel: &VerifiedKernel, policy: &CanonicalPolicy) -> BTreeSet<AxisId> {
    let classification = kernel.classification();
    let is_inner = |axis: AxisId| !kernel.outer().contains(&axis);
    let limit = |axis: AxisId| match (classification.class, classification.roles[axis]) {
        (_, AxisRole::Window) => i64::MAX,
        (Class::Attention, _) => policy.attention.max(policy.inner),
        _ => policy.inner,
    };
    let (weights, channels) = (kernel.axes_of_weights(), channels_of_data(kernel));
    let is_odd = |axis: AxisId, extent: i64| {
        let is_known = weights.contains(&axis) && extent <= policy.channels;
        let is_few = channels.contains(&axis) && extent < policy.multiple;
        (is_known || is_few) && extent % policy.multiple.max(1) != 0
    };
    let contiguous = contiguous_axes(kernel);
    let is_short = |axis: AxisId, extent: i64| {
        classification.class == Class::Map && extent < SHORT && contiguous.contains(&axis)
    };
    kernel
        .axes()
        .keys()
        .filter(|&axis| {
            let extent = kernel.dims().as_constant(kernel.axis(axis).extent.bound());
            extent.is_some_and(|extent| match is_inner(axis) {
                true => extent <= limit(axis),
                false => is_odd(axis, extent) || is_short(axis, extent),
            })
        })
        .collect()
}

/// The places of constants, in sets connected by plain indices.
fn tied(kernel: &Kernel, constants: &BTreeMap<Slot, DimId>) -> Vec<Vec<Slot>> {
    let mut ties: BTreeMap<Slot, BTreeSet<Slot>> = BTreeMap::new();
    let mut tie = |a: Slot, b: Slot| {
        if constants
            .get(&a)
            .is_some_and(|dim| constants.get(&b) == Some(dim))
        {
            ties.entry(a).or_default().insert(b);
            ties.entry(b).or_default().insert(a);
        }
    };
    let plain = |node: NodeId| match kernel.node(node) {
        Node::Axis(axis) => Some(Slot::Extent(*axis)),
        _ => None,
    };
    let mut buffer = |buffer: BufferId, indices: &[NodeId]| {
        for (place, &index) in indices.iter().enumerate() {
            if let Some(axis) = plain(index) {
                tie(axis, Slot::Shape(buffer, place));
            }
        }
    };
    let mut locals: Vec<(StageId, &[NodeId])> = Vec::new();
    for node in used_nodes(kernel) {
        match kernel.node(node) {
            Node::Load(load) => buffer(load.buffer, &load.indices),
            Node::Local { stage, indices }
            | Node::Previous { stage, indices }
            | Node::Last { stage, indices } => locals.push((*stage, indices)),
            _ => {}
        }
    }
    for store in stores(kernel) {
        buffer(store.buffer, &store.indices);
    }
    for (stage, indices) in locals {
        for (&index, &own) in indices.iter().zip(&kernel.stage(stage).axes) {
            if let Some(axis) = plain(index) {
                tie(axis, Slot::Extent(own));
            }
        }
    }
    let mut seen = BTreeSet::new();
    let mut sets = Vec::new();
    for &start in constants.keys() {
        let mut set = Vec::new();
        let mut pending = vec![start];
        while let Some(slot) = pending.pop() {
            if seen.insert(slot) {
                set.push(slot);
                pending.extend(ties.get(&slot).into_iter().flatten());
            }
        }
        if !set.is_empty() {
            set.sort_unstable();
            sets.push(set);
        }
    }
    sets
}
