//! The size requirements of each segment before it runs: the contract of the graph's ops.
//!
//! A block requires what its region required before the graph was optimised, and what its ops require now. Each
//! requirement goes to the first segment that knows all its symbols, and keeps its order there.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use kiln_ir::Graph;
use kiln_shape_inference::requirements_of;
use kiln_symbolic_shape::{DimTable, SizeRequirement, SymbolId};

use crate::program::{Block, Segment};
use crate::step::Action;

/// Lists the requirements of each segment of a block.
pub(super) fn assign_contract(graph: &mut Graph, block: &mut Block) {
    let known_from = known_from(&block.segments);
    let mut asked = graph.region(block.region).requirements.clone();
    let ops = graph.region(block.region).ops.clone();
    asked.extend(requirements_of(graph, &ops));
    let mut seen = HashSet::new();
    for requirement in asked {
        let SizeRequirement {
            kind, left, right, ..
        } = &requirement;
        if !seen.insert((*kind, left.clone(), right.clone())) {
            continue;
        }
        let symbols = symbols_of(graph.dims(), &requirement);
        let segments = symbols.iter().filter_map(|symbol| known_from.get(symbol));
        let first = segments.max().copied().unwrap_or(0);
        // Every block has a segment, and no segment knows the symbols bound by a last step.
        if let Some(segment) = block.segments.get_mut(first) {
            segment.contract.push(requirement);
        }
    }
}

/// The first segment that knows each symbol bound by a step of the block.
fn known_from(segments: &[Segment]) -> BTreeMap<SymbolId, usize> {
    let mut known = BTreeMap::new();
    for (index, segment) in segments.iter().enumerate() {
        for step in &segment.steps {
            if let Action::Bind { symbols, .. }
            | Action::If { symbols, .. }
            | Action::Loop { symbols, .. }
            | Action::Interpret { symbols, .. } = &step.action
            {
                known.extend(symbols.iter().map(|&symbol| (symbol, index + 1)));
            }
        }
    }
    known
}

/// The symbols whose values a requirement depends on, looking through definitions.
fn symbols_of(table: &DimTable, requirement: &SizeRequirement) -> BTreeSet<SymbolId> {
    let mut found = BTreeSet::new();
    let mut pending = requirement.left.clone();
    pending.extend_from_slice(&requirement.right);
    while let Some(dim) = pending.pop() {
        for symbol in table.symbols_in(dim) {
            if found.insert(symbol) {
                pending.extend(table.definition(symbol));
            }
        }
    }
    found
}
