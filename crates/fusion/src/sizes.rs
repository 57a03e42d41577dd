//! What is known of two sizes, plan facts included, and what sizes are likely.
//!
//! The one place where fusion asks whether two sizes are equal. A plan fact says so only for the
//! plan that rests on it; whoever used one gets its number and has to store it.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use kiln_ir::{Graph, TensorType};
use kiln_symbolic_shape::{Binding, DimFactor, DimId, DimTable, PlanFact, Proof};

use crate::budget::Budget;
use crate::fact_classes::FactClasses;
use crate::limits::FusionLimits;
use crate::options::FusionOptions;

/// Whether two sizes are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Equality {
    /// For all sizes.
    Proved,
    /// Under the plan facts of these numbers.
    Under(Vec<usize>),
    /// Not for all sizes, as far as can be proved.
    Unknown,
    /// For no sizes.
    Disproved,
}

/// Answers about the sizes of one graph, remembered.
#[derive(Debug)]
pub(crate) struct Sizes<'a> {
    table: &'a DimTable,
    limits: FusionLimits,
    budget: Budget,
    use_plan_facts: bool,
    likely: Binding,
    likely_size: i64,
    equalities: RefCell<BTreeMap<(DimId, DimId), Equality>>,
    fact_classes: RefCell<Option<FactClasses>>,
    values: RefCell<BTreeMap<DimId, i64>>,
    /// The table where every size is at least 1.
    occupied: OnceCell<DimTable>,
}

impl<'a> Sizes<'a> {
    /// Answers for a graph; a symbol without a hint is taken to be `likely_size`.
    pub(crate) fn new(graph: &'a Graph, use_plan_facts: bool, likely_size: i64) -> Self {
        Self::with_limits(graph, use_plan_facts, likely_size, FusionLimits::default())
    }

    /// Answers for a plan that is made with these options.
    pub(crate) fn of_options(graph: &'a Graph, options: &FusionOptions) -> Self {
        let limits = options.limits.clone();
        Self::with_limits(graph, options.use_plan_facts, options.likely_size, limits)
    }

    fn with_limits(
        graph: &'a Graph,
        use_plan_facts: bool,
        likely_size: i64,
        limits: FusionLimits,
    ) -> Self {
        let table = graph.dims();
        Self {
            table,
            budget: Budget::new(limits.plan_work),
            limits,
            use_plan_facts,
            likely: likely_binding(table, likely_size),
            likely_size,
            equalities: RefCell::new(BTreeMap::new()),
            fact_classes: RefCell::new(None),
            values: RefCell::new(BTreeMap::new()),
            occupied: OnceCell::new(),
        }
    }

    /// What bounds the plan.
    pub(crate) fn limits(&self) -> &FusionLimits {
        &self.limits
    }

    /// The work that the plan has left.
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
    pub(crate) fn equal(&self, a: DimId, b: DimId) -> Equality {
        if a == b {
            return Equality::Proved;
        }
        let key = (a.min(b), a.max(b));
        if let Some(known) = self.equalities.borrow().get(&key) {
            return known.clone();
        }
        if self.budget.is_spent() {
            return Equality::Unknown;
        }
        let before = self.table.prover_steps();
        let answer = match self.table.equal(a, b) {
            Proof::Proved => Equality::Proved,
            Proof::Disproved => Equality::Disproved,
            Proof::Unknown if self.use_plan_facts => match self.under_facts(a, b) {
                Equality::Unknown => self.of_broadcast(a, b),
                answer => answer,
            },
            Proof::Unknown => Equality::Unknown,
        };
        // Proofs within proofs are counted twice, which only makes the budget shorter.
        let steps = self.table.prover_steps().saturating_sub(before);
        self.budget.spend(1 + steps);
        self.equalities.borrow_mut().insert(key, answer.clone());
        answer
    }

    /// Whether two sizes may be equal where tensors have elements. A fact that holds for empty ones alone is no
    /// reason for a plan.
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

    /// A shortest chain of plan facts from one size to the other.
    fn under_facts(&self, a: DimId, b: DimId) -> Equality {
        let chain = self.with_fact_classes(|classes| classes.chain(self.table, a, b, &self.budget));
        match chain {
            Some(facts) => Equality::Under(facts),
            None => Equality::Unknown,
        }
    }

    /// A broadcast size is any of its arguments where they are all equal.
    fn of_broadcast(&self, a: DimId, b: DimId) -> Equality {
        for (dim, other) in [(a, b), (b, a)] {
            let found = self.broadcast_arguments(dim).and_then(|arguments| {
                self.budget.spend(1 + arguments.len() as u64);
                self.all_equal(&arguments, other)
            });
            if let Some(mut facts) = found {
                facts.sort_unstable();
                facts.dedup();
                return Equality::Under(facts);
            }
        }
        Equality::Unknown
    }

    /// The facts under which all of some broadcast sizes are equal to another one.
    ///
    /// Some of them may be so together: where a fact says that `bcast(A, B)` is `C`, `bcast(A, B, C)` is `C`, whatever A and
    /// B are of themselves.
    fn all_equal(&self, arguments: &[DimId], other: DimId) -> Option<Vec<usize>> {
        let mut left: BTreeSet<DimId> = arguments
            .iter()
            .copied()
            .filter(|&dim| dim != other)
            .collect();
        let mut facts = Vec::new();
        self.cover(&mut left, other);
        let each = left.iter().try_fold(Vec::new(), |mut facts, &argument| {
            match self.equal(argument, other) {
                Equality::Proved => Some(facts),
                Equality::Under(more) => {
                    facts.extend(more);
                    Some(facts)
                }
                Equality::Unknown | Equality::Disproved => None,
            }
        });
        if let Some(more) = each {
            facts.extend(more);
            return Some(facts);
        }
        let of_other =
            self.with_fact_classes(|classes| classes.facts_about(self.table, other, &self.budget));
        for number in of_other {
            let before = left.len();
            if let Some(fact) = self.fact(number) {
                self.cover(&mut left, fact.left);
                self.cover(&mut left, fact.right);
            }
            if left.len() < before {
                facts.push(number);
            }
            if left.is_empty() {
                return Some(facts);
            }
        }
        None
    }

    /// Takes the arguments of a broadcast out of a set, if it holds them all.
    fn cover(&self, left: &mut BTreeSet<DimId>, broadcast: DimId) {
        let Some(arguments) = self.broadcast_arguments(broadcast) else {
            return;
        };
        self.budget.spend(1);
        if arguments.iter().all(|argument| left.contains(argument)) {
            left.retain(|dim| !arguments.contains(dim));
        }
    }

    fn with_fact_classes<T>(&self, ask: impl FnOnce(&mut FactClasses) -> T) -> T {
        let mut classes = self.fact_classes.borrow_mut();
        ask(classes.get_or_insert_with(|| FactClasses::of(self.table, &self.budget)))
    }

    fn broadcast_arguments(&self, dim: DimId) -> Option<Vec<DimId>> {
        let expression = self.table.expression(dim);
        match expression.terms.as_slice() {
            [term] if expression.constant == 0 && term.coefficient == 1 => {
                match term.factors.as_slice() {
                    [factor @ DimFactor::Bcast(_)] => Some(factor.operands()),
                    _ => None,
                }
            }
            _ => None,
        }
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

/// Hints where there are any; otherwise `likely_size`, within what the symbol's range and divisor allow.
fn likely_binding(table: &DimTable, likely_size: i64) -> Binding {
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
        let sizes = Sizes::new(&graph, true, 64);
        assert_eq!(sizes.equal(dim("A"), dim("A")), Equality::Proved);
        assert_eq!(sizes.equal(dim("A"), dim("B")), Equality::Under(vec![0]));
        assert_eq!(sizes.equal(dim("C"), dim("A")), Equality::Under(vec![0, 1]));
        let without = Sizes::new(&graph, false, 64);
        assert_eq!(without.equal(dim("A"), dim("B")), Equality::Unknown);
    }

    #[test]
    fn sizes_that_are_equal_at_0_alone_are_no_candidates() {
        let graph = graph(
            "graph @main(%h: f32[H], %x: f32[(H + 31) / 32], %y: f32[2 * ((H + 31) / 32)], %z: f32[(H + 15) / 16]) -> () {
               return
             }",
        );
        let sizes = Sizes::new(&graph, true, 64);
        let dim = |input: usize| graph.tensor_ty(graph.inputs()[input]).unwrap().dims[0];
        assert_eq!(sizes.equal(dim(1), dim(2)), Equality::Unknown);
        assert!(!sizes.may_be_equal(dim(1), dim(2)));
        assert!(sizes.may_be_equal(dim(2), dim(3)));
    }

    #[test]
    fn likely_sizes_respect_hints_and_ranges() {
        let graph = graph("graph @main(%x: f32[A, B]) -> () where A <= 8, B >= 100 {\n  return\n}");
        let sizes = Sizes::new(&graph, true, 64);
        let ty = graph.tensor_ty(graph.inputs()[0]).unwrap();
        assert_eq!(sizes.likely_elements(ty), 800);
        assert_eq!(sizes.likely_bytes(ty), 3200);
    }
}
