//! The structure of sizes: the factors of products, and the operands of broadcasts.

use kiln_symbolic_shape::{DimFactor, DimId, DimTable};

/// The factors of a product of sizes: none of them is zero if an axis of that extent has a point.
pub(super) fn factors(table: &mut DimTable, size: DimId) -> Vec<DimId> {
    let expression = table.expression(size);
    let (0, [term]) = (expression.constant, expression.terms.as_slice()) else {
        return Vec::new();
    };
    if term.coefficient < 1 || (term.coefficient == 1 && term.factors.len() == 1) {
        return Vec::new();
    }
    let dims: Vec<Option<DimId>> = term
        .factors
        .iter()
        .map(|factor| match factor {
            DimFactor::Symbol(symbol) => Some(table.dim(*symbol)),
            DimFactor::FloorDiv(a, b) => table.floor_div(*a, *b).ok(),
            _ => None,
        })
        .collect();
    // Two negative factors could make a positive product.
    let is_size = |dim: &Option<DimId>| dim.is_some_and(|dim| table.range(dim).at_least(0));
    match dims.iter().all(is_size) {
        true => dims.into_iter().flatten().collect(),
        false => Vec::new(),
    }
}

/// The sizes from which a size is broadcast, if it is.
pub(super) fn broadcast_sizes(table: &DimTable, size: DimId) -> Vec<DimId> {
    let expression = table.expression(size);
    match (expression.constant, expression.terms.as_slice()) {
        (0, [term]) if term.coefficient == 1 => match term.factors.as_slice() {
            [DimFactor::Bcast(sizes)] => sizes.clone(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}
