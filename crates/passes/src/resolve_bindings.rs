//! `resolve_bindings`: replaces a `bind` of known sizes.
//!
//! Where the operand of `bind` is a constant or the `dims` of sizes, its symbols are replaced by those sizes. A symbol
//! whose bounds the size is not proved to satisfy is kept, with the `bind` that checks it; and all are kept if some op
//! could only fault with the sizes substituted.

use crate::context::{Changed, PassContext};
use crate::error::PassError;
use crate::rebuild::rebuild_with;
use crate::replace_symbols::{Replacements, replace_symbols};
use crate::sizes::elements;
use kiln_ir::{Graph, Op, OpId, Visit};
use kiln_symbolic_shape::{DimId, DimTable, SymbolId};
use std::collections::{BTreeMap, BTreeSet};

const PASS: &str = "resolve_bindings";

/// Substitutes sizes for symbols that are bound to them.
///
/// # Errors
/// None today: if sizes cannot be substituted, the graph is unchanged.
pub fn resolve_bindings(
    mut graph: Graph,
    ctx: &mut PassContext,
) -> Result<Changed<Graph>, PassError> {
    let (resolved, replacements) = resolvable(&mut graph);
    if resolved.is_empty() {
        return Ok(Changed::unchanged(graph));
    }
    let without = rebuild_with(&graph, &mut |_, _, op| match resolved.contains(&op) {
        true => Visit::Done,
        false => Visit::Copy,
    });
    let replaced = replace_symbols(&without, &replacements);
    let Some(replaced) = replaced.ok().filter(|replaced| ctx.types_hold(replaced)) else {
        return Ok(Changed::unchanged(graph));
    };
    if !ctx.count_rewrites(PASS, "bind", resolved.len()) {
        return Ok(Changed::unchanged(graph));
    }
    Ok(Changed {
        graph: replaced,
        rewrites: resolved.len(),
    })
}

/// The ops whose symbols are known, and those symbols.
fn resolvable(graph: &mut Graph) -> (BTreeSet<OpId>, Replacements) {
    let mut known: BTreeMap<SymbolId, DimId> = BTreeMap::new();
    let mut ops = BTreeSet::new();
    let mut replacements = Replacements::new();
    let binds: Vec<OpId> = graph
        .ops()
        .filter(|(_, data)| matches!(data.op, Op::Bind))
        .map(|(id, _)| id)
        .collect();
    for id in binds {
        let data = graph.op(id).clone();
        let Some(sizes) = data
            .operands
            .first()
            .and_then(|&operand| elements(graph, operand))
        else {
            continue;
        };
        let dims = graph.dims_mut();
        let sizes: Result<Vec<DimId>, _> = sizes
            .iter()
            .map(|&dim| dims.substitute(dim, &known))
            .collect();
        let Ok(sizes) = sizes else { continue };
        if sizes.len() != data.symbols.len()
            || !data
                .symbols
                .iter()
                .zip(&sizes)
                .all(|(&symbol, &size)| keeps_bounds(dims, symbol, size))
        {
            continue;
        }
        let pairs = data.symbols.iter().copied().zip(sizes);
        known.extend(pairs.clone());
        replacements.extend(pairs);
        ops.insert(id);
    }
    (ops, replacements)
}

/// Whether every value of `size` is proved to be allowed for the symbol.
fn keeps_bounds(dims: &DimTable, symbol: SymbolId, size: DimId) -> bool {
    let info = dims.symbol_info(symbol);
    let (bounds, range) = (info.bounds(), dims.range(size));
    let low = bounds.min.is_none_or(|min| range.at_least(min));
    let high = bounds.max.is_none_or(|max| range.at_most(max));
    let (modulus, residue) = dims.congruence(size);
    let multiple = info.multiple();
    let divides = multiple <= 1 || (modulus % multiple == 0 && residue % multiple == 0);
    low && high && divides
}

#[cfg(test)]
mod tests;
