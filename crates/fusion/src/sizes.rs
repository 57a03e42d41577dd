//! Relations between sizes, including plan facts, and likely sizes.
//!
//! Fusion compares sizes only here. A plan fact holds only for the plan that depends on it: a query that used one
//! returns its number, and the caller must store it.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;

use kiln_ir::{Graph, TensorType};
use kiln_symbolic_shape::{Binding, DimId, DimTable, PlanFact, Predicate, Proof};

use crate::budget::Budget;
use crate::cost::Rates;
use crate::fact_closure::FactClosure;
use crate::limits::FusionLimits;
use crate::options::FusionOptions;

/// Whether a predicate on sizes holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// For all sizes.
    Proved,
    /// Under the plan facts of these numbers.
    Under(Vec<usize>),
    /// Not for all sizes, as far as can be proved.
    Unknown,
    /// For no sizes.
    Disproved,
}

/// Cached queries about the sizes of one graph.
#[derive(Debug)]
pub(crate) struct SizeQueries<'a> {
    table: &'a DimTable,
    limits: FusionLimits,
    rates: Rates,
    widens_in_windows: bool,
    budget: Budget,
    facts: FactClosure<'a>,
    likely: Binding,
    likely_size: i64,
    equalities: RefCell<BTreeMap<(DimId, DimId), Answer>>,
    values: RefCell<BTreeMap<DimId, i64>>,
    /// A copy of the table in which every size is at least 1.
    occupied: OnceCell<DimTable>,
}

impl<'a> SizeQueries<'a> {
    /// Queries for a plan that is made with these options.
    pub(crate) fn of_options(graph: &'a Graph, options: &FusionOptions) -> Self {
        let table = graph.dims();
        let budget = Budget::new(options.limits.plan_work);
        Self {
            table,
            facts: FactClosure::of(graph, &options.facts, &budget),
            budget,
            limits: options.limits.clone(),
            rates: options.rates,
            widens_in_windows: options.widens_in_windows,
            likely: likely_sizes(table, options.likely_size),
            likely_size: options.likely_size,
            equalities: RefCell::new(BTreeMap::new()),
            values: RefCell::new(BTreeMap::new()),
            occupied: OnceCell::new(),
        }
    }

    /// The plan's limits.
    pub(crate) fn limits(&self) -> &FusionLimits {
        &self.limits
    }

    /// The assumed rates of the device.
    pub(crate) fn rates(&self) -> &Rates {
        &self.rates
    }

    /// Whether the device's windows read narrow numbers.
    pub(crate) fn widens_in_windows(&self) -> bool {
        self.widens_in_windows
    }

    /// The remaining work budget of the plan.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The table.
    pub(crate) fn table(&self) -> &'a DimTable {
        self.table
    }

    /// Whether the size is 1, for all sizes.
    pub(crate) fn is_one(&self, dim: DimId) -> bool {
        self.table.range(dim).as_point() == Some(1)
    }

    /// The plan fact of a number.
    pub(crate) fn fact(&self, number: usize) -> Option<&'a PlanFact> {
        self.table.plan_facts().get(number)
    }

    /// Whether two sizes are equal.
    pub(crate) fn equal(&self, a: DimId, b: DimId) -> Answer {
        if a == b {
            return Answer::Proved;
        }
        let key = (a.min(b), a.max(b));
        if let Some(known) = self.equalities.borrow().get(&key) {
            return known.clone();
        }
        if self.budget.is_spent() {
            return Answer::Unknown;
        }
        let answer = self.answer(&Predicate::Equal(a, b));
        self.equalities.borrow_mut().insert(key, answer.clone());
        answer
    }

    /// Whether a predicate holds.
    pub(crate) fn answer(&self, predicate: &Predicate) -> Answer {
        if self.budget.is_spent() {
            return Answer::Unknown;
        }
        let before = self.table.prover_steps();
        let proof = self.table.prove(predicate);
        let steps = self.table.prover_steps().saturating_sub(before);
        self.budget.spend(1 + steps);
        match proof {
            Proof::Proved => Answer::Proved,
            Proof::Disproved => Answer::Disproved,
            Proof::Unknown => match self.facts.prove(predicate, &self.budget) {
                Some(facts) => Answer::Under(facts),
                None => Answer::Unknown,
            },
        }
    }

    /// Whether two sizes may be equal for tensors that have elements. A plan should not depend on a fact that holds
    /// only for empty ones.
    pub(crate) fn may_be_equal(&self, a: DimId, b: DimId) -> bool {
        if self.budget.is_spent() {
            return true;
        }
        let table = self.occupied.get_or_init(|| {
            self.budget.spend(self.table.len() as u64);
            self.table.where_sizes_are_positive()
        });
        self.budget.spend(1);
        if table.is_equal_somewhere(a, b) {
            return true;
        }
        let before = table.prover_steps();
        let answer = table.equal(a, b);
        let steps = table.prover_steps().saturating_sub(before);
        self.budget.spend(steps);
        answer != Proof::Disproved
    }

    /// The likely value of a size, at least 0.
    pub(crate) fn likely(&self, dim: DimId) -> i64 {
        if let Some(&value) = self.values.borrow().get(&dim) {
            return value;
        }
        let value = self.table.evaluate(dim, &self.likely);
        let value = value.unwrap_or(self.likely_size).max(0);
        self.values.borrow_mut().insert(dim, value);
        value
    }

    /// The likely number of elements.
    pub(crate) fn likely_elements(&self, ty: &TensorType) -> u64 {
        self.likely_product(&ty.dims)
    }

    /// The likely product of sizes.
    pub(crate) fn likely_product(&self, dims: &[DimId]) -> u64 {
        dims.iter().fold(1_u64, |product, &dim| {
            product.saturating_mul(u64::try_from(self.likely(dim)).unwrap_or(0))
        })
    }

    /// The likely number of bytes.
    pub(crate) fn likely_bytes(&self, ty: &TensorType) -> u64 {
        let bits = u64::from(ty.dtype.bits());
        self.likely_elements(ty).saturating_mul(bits).div_ceil(8)
    }
}

/// The sizes for which costs are compared: hints if there are any, otherwise `likely_size` or the nearest value in the
/// symbol's range.
pub fn likely_sizes(table: &DimTable, likely_size: i64) -> Binding {
    let hints: BTreeMap<_, _> = table
        .hints()
        .iter()
        .map(|hint| (hint.symbol, hint.likely))
        .collect();
    let free = table
        .symbols()
        .filter(|&symbol| table.definition(symbol).is_none());
    free.map(|symbol| {
        let range = table.range(table.dim(symbol));
        let low = range.min.unwrap_or(0);
        let high = range.max.unwrap_or(i64::MAX);
        let size = hints.get(&symbol).copied().unwrap_or(likely_size);
        (symbol, size.max(low).min(high))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_shape_inference::read_graph;
    use kiln_symbolic_shape::FactSelection;

    fn graph(source: &str) -> Graph {
        read_graph(source, &kiln_ir::BlobMap::new()).unwrap()
    }

    #[test]
    fn plan_facts_chain_and_are_named() {
        let graph = graph(
            "graph @main(%x: f32[A], %y: f32[B], %z: f32[C]) -> () {
               %1 = add %x, %y
               %2 = add %y, %z
               return
             }",
        );
        let dim = |name: &str| graph.dims().dim(graph.dims().symbol_named(name).unwrap());
        let sizes = SizeQueries::of_options(&graph, &FusionOptions::new());
        assert_eq!(sizes.equal(dim("A"), dim("A")), Answer::Proved);
        assert_eq!(sizes.equal(dim("A"), dim("B")), Answer::Under(vec![0]));
        assert_eq!(sizes.equal(dim("C"), dim("A")), Answer::Under(vec![0, 1]));
        let without = FusionOptions::new().with_facts(FactSelection::None);
        let without = SizeQueries::of_options(&graph, &without);
        assert_eq!(without.equal(dim("A"), dim("B")), Answer::Unknown);
    }

    #[test]
    fn sizes_equal_only_at_zero_are_not_fused() {
        let graph = graph(
            "graph @main(%h: f32[H], %x: f32[(H + 31) / 32], %y: f32[2 * ((H + 31) / 32)], %z: f32[(H + 15) / 16]) -> () {
               return
             }",
        );
        let sizes = SizeQueries::of_options(&graph, &FusionOptions::new());
        let dim = |input: usize| graph.tensor_ty(graph.inputs()[input]).unwrap().dims[0];
        assert_eq!(sizes.equal(dim(1), dim(2)), Answer::Unknown);
        assert!(!sizes.may_be_equal(dim(1), dim(2)));
        assert!(sizes.may_be_equal(dim(2), dim(3)));
    }

    #[test]
    fn likely_sizes_respect_hints_and_ranges() {
        let graph = graph("graph @main(%x: f32[A, B]) -> () where A <= 8, B >= 100 {\n  return\n}");
        let sizes = SizeQueries::of_options(&graph, &FusionOptions::new());
        let ty = graph.tensor_ty(graph.inputs()[0]).unwrap();
        assert_eq!(sizes.likely_elements(ty), 800);
        assert_eq!(sizes.likely_bytes(ty), 3200);
    }
}
