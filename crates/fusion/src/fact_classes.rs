//! Plan facts as a graph: classes of sizes that are proved equal, joined by the facts between them.
//!
//! Made once for a plan, so that asking for a chain of facts between two sizes is a search in it and no proof.

use std::collections::{BTreeMap, VecDeque};

use kiln_symbolic_shape::{DimId, DimTable};

use crate::budget::Budget;

/// How many sizes that no sample tells apart from one are tried to be proved equal to it, the latest first. More of them are
/// as good as different: broadcasts of many sizes, say, each of one size more than the one before.
const MOST_PROOFS: usize = 8;

/// A class's number.
type ClassId = usize;

/// What the facts of a table are about.
#[derive(Debug, Default)]
pub(crate) struct FactClasses {
    /// Sizes that stand in facts with their classes, by fingerprint: only those of one fingerprint can be equal, and those
    /// without one to any.
    sizes: BTreeMap<Option<u64>, Vec<(DimId, ClassId)>>,
    /// Per class, the facts about it with the class on their other side, in the order of the facts.
    facts: Vec<Vec<(usize, ClassId)>>,
    /// Classes that were asked for.
    known: BTreeMap<DimId, Option<ClassId>>,
}

impl FactClasses {
    /// The classes of a table's facts, as many as the budget pays for.
    pub(crate) fn of(table: &DimTable, budget: &Budget) -> Self {
        let mut classes = Self::default();
        for (number, fact) in table.plan_facts().iter().enumerate() {
            if budget.is_spent() {
                break;
            }
            let left = classes.add(table, fact.left, budget);
            let right = classes.add(table, fact.right, budget);
            for (from, to) in [(left, right), (right, left)] {
                if let Some(facts) = classes.facts.get_mut(from) {
                    facts.push((number, to));
                }
            }
        }
        classes
    }

    fn add(&mut self, table: &DimTable, dim: DimId, budget: &Budget) -> ClassId {
        if let Some(class) = self.class_of(table, dim, budget) {
            return class;
        }
        let class = self.facts.len();
        self.facts.push(Vec::new());
        let alike = self.sizes.entry(table.fingerprint(dim)).or_default();
        alike.push((dim, class));
        self.known.insert(dim, Some(class));
        class
    }

    /// The class of a size: that of the first which is proved equal to it.
    fn class_of(&mut self, table: &DimTable, dim: DimId, budget: &Budget) -> Option<ClassId> {
        if let Some(&known) = self.known.get(&dim) {
            return known;
        }
        budget.spend(1);
        let class = match table.fingerprint(dim) {
            Some(fingerprint) => {
                let alike = self.sizes.range(Some(fingerprint)..=Some(fingerprint));
                let odd = self.sizes.range(None..=None);
                find_equal(table, dim, alike.chain(odd), budget)
            }
            None => find_equal(table, dim, self.sizes.iter(), budget),
        };
        self.known.insert(dim, class);
        class
    }

    /// The numbers of the facts about a size, in their order.
    pub(crate) fn facts_about(
        &mut self,
        table: &DimTable,
        dim: DimId,
        budget: &Budget,
    ) -> Vec<usize> {
        let class = self.class_of(table, dim, budget);
        let facts = class.and_then(|class| self.facts.get(class));
        let numbers = facts.into_iter().flatten().map(|&(number, _)| number);
        numbers.collect()
    }

    /// The numbers of a shortest chain of facts from one size to another.
    pub(crate) fn chain(
        &mut self,
        table: &DimTable,
        from: DimId,
        to: DimId,
        budget: &Budget,
    ) -> Option<Vec<usize>> {
        let from = self.class_of(table, from, budget)?;
        let to = self.class_of(table, to, budget)?;
        // Per class, the fact that led there and the class it came from.
        let mut reached: BTreeMap<ClassId, Option<(usize, ClassId)>> =
            BTreeMap::from([(from, None)]);
        let mut pending = VecDeque::from([from]);
        while let Some(at) = pending.pop_front() {
            if at == to {
                let step = |&(_, from): &(usize, ClassId)| reached.get(&from).copied().flatten();
                let last = reached.get(&at).copied().flatten();
                let mut chain: Vec<usize> = std::iter::successors(last, step)
                    .map(|(number, _)| number)
                    .collect();
                chain.sort_unstable();
                return Some(chain);
            }
            let facts = self.facts.get(at).map_or(&[][..], Vec::as_slice);
            budget.spend(1 + facts.len() as u64);
            for &(number, next) in facts {
                reached.entry(next).or_insert_with(|| {
                    pending.push_back(next);
                    Some((number, at))
                });
            }
        }
        None
    }
}

/// The class of the first of some sizes that is proved equal to `dim`.
fn find_equal<'s>(
    table: &DimTable,
    dim: DimId,
    sizes: impl Iterator<Item = (&'s Option<u64>, &'s Vec<(DimId, ClassId)>)>,
    budget: &Budget,
) -> Option<ClassId> {
    let alike = sizes
        .flat_map(|(_, sizes)| sizes.iter().rev())
        .filter(|&&(other, _)| {
            budget.spend(1);
            !budget.is_spent() && !table.is_told_apart(dim, other)
        });
    let before = table.prover_steps();
    let class = alike
        .take(MOST_PROOFS)
        .find(|&&(other, _)| table.equal(dim, other).is_proved())
        .map(|&(_, class)| class);
    budget.spend(table.prover_steps().saturating_sub(before));
    class
}
