//! The closure of the plan facts that a plan may use: the graph's table of sizes with these facts assumed.
//!
//! The table closes them under congruence: where `A == B`, `bcast(A, B, C)` is `bcast(A, C)`. A fact that follows from
//! earlier ones is not assumed again, so the facts that a plan depends on are not redundant.
//!
//! A fact can be checked once its symbols have values. The symbols of inputs always do; a query about other symbols
//! uses only facts about inputs and about the symbols in the query, which have values wherever its result is used.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use kiln_ir::Graph;
use kiln_symbolic_shape::{
    ContractFact, DimError, DimId, DimImport, DimTable, FactOrigin, FactSelection, PlanFact,
    Predicate, Proof, SymbolId,
};

use crate::budget::Budget;

/// The maximum number of tables, one per set of symbols in addition to those of inputs.
const TABLE_LIMIT: usize = 64;

/// The facts of a graph that a plan may use, and their consequences.
#[derive(Debug)]
pub(crate) struct FactClosure<'a> {
    table: &'a DimTable,
    facts: Vec<Fact<'a>>,
    /// The symbols bound by inputs.
    of_inputs: BTreeSet<SymbolId>,
    /// Tables by the symbols in addition to those of inputs; `None` if no fact concerns only those.
    closures: RefCell<BTreeMap<BTreeSet<SymbolId>, Option<SharedClosure>>>,
}

type SharedClosure = Rc<RefCell<Closure>>;

#[derive(Debug)]
struct Fact<'a> {
    number: usize,
    fact: &'a PlanFact,
    /// Its symbols in addition to those of inputs.
    inner: BTreeSet<SymbolId>,
}

impl<'a> FactClosure<'a> {
    /// The facts of a graph that a selection allows.
    pub(crate) fn of(graph: &'a Graph, selection: &FactSelection, budget: &Budget) -> Self {
        let table = graph.dims();
        let inputs = graph.inputs().iter();
        let dims = inputs.flat_map(|&input| graph.tensor_ty(input).map_or(&[][..], |ty| &ty.dims));
        let of_inputs = dims.filter_map(|&dim| table.as_symbol(dim)).collect();
        let mut this = Self {
            table,
            facts: Vec::new(),
            of_inputs,
            closures: RefCell::new(BTreeMap::new()),
        };
        for (number, fact) in table.plan_facts().iter().enumerate() {
            budget.spend(1);
            if budget.is_spent() {
                break;
            }
            if selection.allows(fact, table) {
                let inner = this.inner_symbols(&[fact.left, fact.right]);
                this.facts.push(Fact {
                    number,
                    fact,
                    inner,
                });
            }
        }
        this
    }

    /// The numbers of facts under which an otherwise unproved predicate holds.
    pub(crate) fn prove(&self, predicate: &Predicate, budget: &Budget) -> Option<Vec<usize>> {
        let dims = predicate.dims();
        let inner = self.inner_symbols(&dims);
        let closure = self.closure(inner, budget)?;
        let mut closure = closure.borrow_mut();
        let before = closure.table.prover_steps();
        let proved = closure.prove(self.table, predicate);
        budget.spend(1 + closure.table.prover_steps().saturating_sub(before));
        proved
    }

    fn inner_symbols(&self, dims: &[DimId]) -> BTreeSet<SymbolId> {
        let symbols = self.table.free_symbols(dims);
        symbols.difference(&self.of_inputs).copied().collect()
    }

    fn closure(&self, inner: BTreeSet<SymbolId>, budget: &Budget) -> Option<SharedClosure> {
        if let Some(known) = self.closures.borrow().get(&inner) {
            return known.clone();
        }
        if self.closures.borrow().len() == TABLE_LIMIT || budget.is_spent() {
            return None;
        }
        let facts = self.facts.iter();
        let facts: Vec<&Fact<'_>> = facts.filter(|fact| fact.inner.is_subset(&inner)).collect();
        let closure = (!facts.is_empty())
            .then(|| Rc::new(RefCell::new(Closure::of(self.table, &facts, budget))));
        self.closures.borrow_mut().insert(inner, closure.clone());
        closure
    }
}

/// A table in which facts hold. Queried sizes are copied into it and simplified there.
#[derive(Debug)]
struct Closure {
    table: DimTable,
    import: DimImport,
    /// The simplest form of copied sizes, by their id in the graph's table.
    simplest: HashMap<DimId, DimId>,
    taken: Vec<Taken>,
}

/// An assumed fact, with the symbols that it names in the graph.
#[derive(Debug)]
struct Taken {
    number: usize,
    symbols: BTreeSet<SymbolId>,
    /// The symbols that it replaced by an expression of others.
    replaced: BTreeSet<SymbolId>,
}

impl Closure {
    fn of(table: &DimTable, facts: &[&Fact<'_>], budget: &Budget) -> Self {
        let mut this = Self {
            table: DimTable::with_limits(table.limits().clone()),
            import: DimImport::new(),
            simplest: HashMap::new(),
            taken: Vec::new(),
        };
        // A size that cannot be copied adds no knowledge, which is harmless.
        if let Err(error) = this.table.import_facts(table, &mut this.import) {
            tracing::debug!(%error, "planning without some facts of the contract");
        }
        for fact in facts {
            if budget.is_spent() {
                break;
            }
            let before = this.table.prover_steps();
            // A fact that contradicts others cannot be used together with them.
            if let Err(error) = this.take(table, fact) {
                tracing::debug!(%error, "planning without a fact");
            }
            budget.spend(1 + this.table.prover_steps().saturating_sub(before));
        }
        this
    }

    /// Assumes a fact, unless it follows from what is known.
    fn take(&mut self, from: &DimTable, fact: &Fact<'_>) -> Result<(), DimError> {
        let PlanFact { left, right, .. } = *fact.fact;
        let (simple_left, simple_right) = (self.simplest(from, left)?, self.simplest(from, right)?);
        let known = self.table.contract_facts().len();
        self.table.assume(ContractFact {
            predicate: Predicate::Equal(simple_left, simple_right),
            origin: FactOrigin::Required(fact.fact.origin.clone()),
        })?;
        if self.table.contract_facts().len() == known {
            return Ok(());
        }
        // Simpler forms may exist from now on.
        self.simplest.clear();
        let symbols = from.free_symbols(&[left, right]);
        let named = self.table.free_symbols(&[simple_left, simple_right]);
        let mut replaced = symbols.clone();
        replaced.retain(|&symbol| {
            let copy = self.import.get(symbol);
            let is_named = |&dim: &DimId| {
                self.table
                    .as_symbol(dim)
                    .is_some_and(|s| named.contains(&s))
            };
            copy.filter(is_named)
                .is_some_and(|dim| self.table.simplify(dim) != Ok(dim))
        });
        self.taken.push(Taken {
            number: fact.number,
            symbols,
            replaced,
        });
        Ok(())
    }

    /// The facts under which a predicate holds.
    fn prove(&mut self, from: &DimTable, predicate: &Predicate) -> Option<Vec<usize>> {
        let copied = predicate.try_map_dims(&mut |dim| self.simplest(from, dim));
        if self.table.prove(&copied.ok()?) != Proof::Proved {
            return None;
        }
        Some(self.facts_about(from, from.free_symbols(&predicate.dims())))
    }

    fn simplest(&mut self, from: &DimTable, dim: DimId) -> Result<DimId, DimError> {
        if let Some(&known) = self.simplest.get(&dim) {
            return Ok(known);
        }
        let copied = self.table.import(from, dim, &mut self.import)?;
        let simplest = self.table.simplify(copied)?;
        self.simplest.insert(dim, simplest);
        Ok(simplest)
    }

    /// The facts that determine everything known of some symbols: those by which one of them was replaced, those that
    /// replace nothing and name one of them, and transitively those about the symbols that these name.
    fn facts_about(&self, from: &DimTable, symbols: BTreeSet<SymbolId>) -> Vec<usize> {
        let contract = from.contract_facts().iter();
        let contract = contract.map(|fact| from.free_symbols(&fact.predicate.dims()));
        let mut contract: Vec<BTreeSet<SymbolId>> = contract.collect();
        let mut open: Vec<&Taken> = self.taken.iter().collect();
        let mut found = Vec::new();
        let mut known = symbols;
        loop {
            let before = known.len() + found.len();
            let mut new = BTreeSet::new();
            open.retain(|fact| {
                let about = match fact.replaced.is_empty() {
                    true => &fact.symbols,
                    false => &fact.replaced,
                };
                let is_left = about.is_disjoint(&known);
                if !is_left {
                    new.extend(fact.symbols.iter().copied());
                    found.push(fact.number);
                }
                is_left
            });
            contract.retain(|symbols| {
                let is_left = symbols.is_disjoint(&known);
                if !is_left {
                    new.extend(symbols.iter().copied());
                }
                is_left
            });
            known.extend(new);
            if known.len() + found.len() == before {
                break;
            }
        }
        // If no fact concerns them, the predicate could be proved without facts, and only the fuel did not suffice for
        // that.
        if found.is_empty() {
            found.extend(self.taken.iter().map(|fact| fact.number));
        }
        found.sort_unstable();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_shape_inference::read_graph;

    fn graph(source: &str) -> Graph {
        read_graph(source, &kiln_ir::BlobMap::new()).unwrap()
    }

    /// The facts, by name, under which two sizes are equal.
    fn equal(
        graph: &Graph,
        selection: &FactSelection,
        left: DimId,
        right: DimId,
    ) -> Option<String> {
        let budget = Budget::new(1 << 20);
        let facts = FactClosure::of(graph, selection, &budget);
        let numbers = facts.prove(&Predicate::Equal(left, right), &budget)?;
        let table = graph.dims();
        let names = numbers
            .iter()
            .map(|&number| table.plan_facts()[number].name(table));
        Some(names.collect::<Vec<_>>().join(", "))
    }

    fn size(graph: &Graph, input: usize, axis: usize) -> DimId {
        graph.tensor_ty(graph.inputs()[input]).unwrap().dims[axis]
    }

    #[test]
    fn facts_are_closed_under_congruence() {
        let graph = graph(
            "graph @main(%x: f32[A], %y: f32[B], %p: f32[2 * A + 1], %q: f32[2 * B + 1], %u: f32[bcast(A, B, C)], %v: f32[bcast(A, C)], %w: f32[D], %c: f32[C]) -> () {
               %1 = add %x, %y
               %2 = add %x, %w
               return
             }",
        );
        let all = FactSelection::All;
        let of = |a, b| equal(&graph, &all, size(&graph, a, 0), size(&graph, b, 0));
        assert_eq!(of(2, 3).as_deref(), Some("A == B"));
        assert_eq!(of(4, 5).as_deref(), Some("A == B"));
        assert_eq!(of(1, 6).as_deref(), Some("A == B, A == D"));
        assert_eq!(of(0, 5), None);
    }

    #[test]
    fn dropped_facts_are_not_implied_by_the_kept_ones() {
        let graph = graph(
            "graph @main(%x: f32[A], %y: f32[B], %z: f32[C]) -> () {
               %1 = add %x, %y
               %2 = add %y, %z
               %3 = add %x, %z
               return
             }",
        );
        let without = |names: &[&str]| {
            FactSelection::Without(names.iter().map(|&name| name.to_owned()).collect())
        };
        let of = |selection: &FactSelection| {
            equal(&graph, selection, size(&graph, 0, 0), size(&graph, 1, 0))
        };
        assert_eq!(of(&FactSelection::All).as_deref(), Some("A == B"));
        // If `A == B` is false, one of the other facts is also false, and is dropped with it.
        let others = without(&["A == B"]);
        assert_eq!(of(&others).as_deref(), Some("B == C, A == C"));
        assert_eq!(of(&without(&["A == B", "A == C"])), None);
        assert_eq!(of(&FactSelection::None), None);
    }

    #[test]
    fn facts_about_data_are_used_only_where_data_are_named() {
        let graph = graph(
            "graph @main(%x: f32[A], %y: f32[B], %n: i64[1]) -> () {
               bind %n -> (N)
               %z = iota {dtype = f32, dims = [N], axis = 0}
               %1 = add %x, %z
               %2 = add %y, %z
               return
             }",
        );
        // The size that connects A and B is known later than both.
        let all = FactSelection::All;
        assert!(!graph.dims().plan_facts().is_empty());
        assert_eq!(
            equal(&graph, &all, size(&graph, 0, 0), size(&graph, 1, 0)),
            None
        );
    }
}
