//! Conversion of a kernel's sizes to quantities.
//!
//! Derived symbols are replaced by their definitions; each is computed once, before its first use, so the program is no
//! longer than the expressions it is built from. Nothing recurses: expressions come after their operands.

use std::collections::{BTreeMap, BTreeSet};

use kiln_symbolic_shape::{DimFactor, DimId, DimTable, SymbolId};

use super::{Quantity, Step};

impl Quantity {
    /// A size of a kernel. Symbols are the table's, by position; a derived one is replaced by its definition.
    pub fn of(dims: &DimTable, dim: DimId) -> Self {
        let parts = parts_of(dims, dim);
        let shared = used_again(dims, &parts);
        let mut steps = Vec::new();
        let mut done: BTreeMap<DimId, Quantity> = BTreeMap::new();
        let mut n_kept = 0;
        for &part in &parts {
            let quantity = written(dims, part, &done);
            let is_short = quantity.0.len() == 1;
            if part == dim || is_short || !shared.contains(&part) {
                done.insert(part, quantity);
            } else {
                steps.extend(quantity.0);
                steps.push(Step::Keep);
                done.insert(part, Quantity(vec![Step::Kept(n_kept)]));
                n_kept += 1;
            }
        }
        let root = done.remove(&dim).unwrap_or_else(|| Self::constant(0));
        steps.extend(root.0);
        Self(steps)
    }
}

/// `dim` and every expression inside it, including definitions of derived symbols, operands first.
fn parts_of(dims: &DimTable, dim: DimId) -> BTreeSet<DimId> {
    let mut found = BTreeSet::new();
    let mut pending = vec![dim];
    while let Some(part) = pending.pop() {
        if found.insert(part) {
            pending.extend(operands(dims, part));
        }
    }
    found
}

/// The expressions that an expression uses, once per use.
fn operands(dims: &DimTable, dim: DimId) -> Vec<DimId> {
    let terms = dims.expression(dim).terms;
    let mut found = Vec::new();
    for factor in terms.iter().flat_map(|term| &term.factors) {
        match factor {
            DimFactor::Symbol(symbol) => found.extend(dims.definition(*symbol)),
            compound => found.extend(compound.operands()),
        }
    }
    found
}

/// The parts that are used more than once.
fn used_again(dims: &DimTable, parts: &BTreeSet<DimId>) -> BTreeSet<DimId> {
    let mut once = BTreeSet::new();
    let mut again = BTreeSet::new();
    for &part in parts {
        for operand in operands(dims, part) {
            if !once.insert(operand) {
                again.insert(operand);
            }
        }
    }
    again
}

/// An expression whose operands are already written. Shared values are numbered across the whole program, so parts are
/// appended step by step; joining them would renumber the values.
fn written(dims: &DimTable, dim: DimId, done: &BTreeMap<DimId, Quantity>) -> Quantity {
    let expression = dims.expression(dim);
    let mut sum: Option<Quantity> = None;
    for term in &expression.terms {
        let mut product: Option<Quantity> = None;
        for factor in &term.factors {
            let factor = of_factor(dims, factor, done);
            product = Some(match product {
                Some(product) => append(product, factor, Step::Mul),
                None => factor,
            });
        }
        let product = product.unwrap_or_else(|| Quantity::constant(1));
        let magnitude = term.coefficient.checked_abs();
        let (scaled, operation) = match (term.coefficient, magnitude, &sum) {
            (1, _, _) => (product, Step::Add),
            (-1, _, Some(_)) => (product, Step::Sub),
            (..=-1, Some(magnitude), Some(_)) => (
                append(Quantity::constant(magnitude), product, Step::Mul),
                Step::Sub,
            ),
            (coefficient, _, _) => (
                append(Quantity::constant(coefficient), product, Step::Mul),
                Step::Add,
            ),
        };
        sum = Some(match sum {
            Some(sum) => append(sum, scaled, operation),
            None => scaled,
        });
    }
    match (sum, expression.constant) {
        (None, constant) => Quantity::constant(constant),
        (Some(sum), 0) => sum,
        (Some(sum), constant) => match constant.checked_neg() {
            Some(magnitude) if constant < 0 => {
                append(sum, Quantity::constant(magnitude), Step::Sub)
            }
            _ => append(sum, Quantity::constant(constant), Step::Add),
        },
    }
}

fn of_factor(dims: &DimTable, factor: &DimFactor, done: &BTreeMap<DimId, Quantity>) -> Quantity {
    let of = |dim: &DimId| {
        done.get(dim)
            .cloned()
            .unwrap_or_else(|| unreachable!("operands are written before what uses them"))
    };
    let fold = |args: &[DimId], operation: Step| {
        let parts = args.iter().map(of);
        parts
            .reduce(|all, part| append(all, part, operation))
            .unwrap_or_else(|| Quantity::constant(0))
    };
    match factor {
        DimFactor::Symbol(symbol) => match dims.definition(*symbol) {
            Some(definition) => of(&definition),
            None => Quantity::symbol(position(*symbol)),
        },
        DimFactor::FloorDiv(a, b) => append(of(a), of(b), Step::FloorDiv),
        DimFactor::Mod(a, b) => append(of(a), of(b), Step::Mod),
        DimFactor::Min(args) => fold(args, Step::Min),
        DimFactor::Max(args) => fold(args, Step::Max),
        DimFactor::Bcast(args) => fold(args, Step::Bcast),
    }
}

fn position(symbol: SymbolId) -> u32 {
    symbol.as_u32()
}

fn append(mut left: Quantity, right: Quantity, operation: Step) -> Quantity {
    left.0.extend(right.0);
    left.0.push(operation);
    left
}
