//! Recording facts: contract facts are checked for contradiction and learned from, plan facts are only kept.

use super::DimTable;
use crate::DimError;
use crate::fact::{ContractFact, PlanFact, Predicate};
use crate::ids::DimId;
use crate::prove::Proof;

impl DimTable {
    /// Assumes `fact` from now on. A known fact is not recorded again; a contradiction is an error and changes nothing.
    pub fn assume(&mut self, fact: ContractFact) -> Result<(), DimError> {
        if let Predicate::Divides { divisor, .. } = fact.predicate
            && divisor < 1
        {
            return Err(DimError::DivisorNotPositive {
                divisor: divisor.to_string(),
            });
        }
        match self.prove(&fact.predicate) {
            Proof::Proved => return Ok(()),
            Proof::Disproved => return Err(self.contradiction(&fact.predicate)),
            Proof::Unknown => {}
        }
        if self.known_facts.contains(&fact.predicate) {
            return Ok(());
        }
        self.check_fact_limit("contract facts", self.facts.len())?;
        self.rebuilt = 0;
        self.assuming = true;
        let learned = self.learn(&fact.predicate);
        self.assuming = false;
        learned?;
        self.known_facts.insert(fact.predicate.clone());
        let predicate = fact.predicate.clone();
        self.facts.push(fact);
        self.resample(&predicate);
        Ok(())
    }

    /// The contract facts, in the order they were assumed.
    pub fn contract_facts(&self) -> &[ContractFact] {
        &self.facts
    }

    /// Records that two sizes are expected to be equal. Recorded once, in either order; beyond the limit on facts it is
    /// dropped, which only loses an opportunity for fusion.
    pub fn expect(&mut self, fact: PlanFact) {
        let key = (fact.left.min(fact.right), fact.left.max(fact.right));
        if self.plan_facts.len() < self.limits.max_facts && self.known_plan_facts.insert(key) {
            self.plan_facts.push(fact);
        }
    }

    /// The plan facts, in the order they were recorded.
    pub fn plan_facts(&self) -> &[PlanFact] {
        &self.plan_facts
    }

    pub(super) fn contradiction(&self, predicate: &Predicate) -> DimError {
        let known = |dim: &DimId| {
            let (range, (modulus, residue)) = (self.range(*dim), self.congruence(*dim));
            let steps = if modulus > 1 {
                format!(" and {residue} modulo {modulus}")
            } else {
                String::new()
            };
            format!("{} is in {range}{steps}", self.display(*dim))
        };
        let dims = predicate.dims();
        let known: Vec<String> = dims
            .iter()
            .filter(|&&dim| self.as_constant(dim).is_none())
            .take(4)
            .map(known)
            .collect();
        let known = if known.is_empty() {
            "both sides are constant".to_string()
        } else {
            known.join(", ")
        };
        DimError::Contradiction {
            fact: self.display_predicate(predicate).to_string(),
            known,
        }
    }

    fn check_fact_limit(&self, what: &'static str, count: usize) -> Result<(), DimError> {
        let limit = self.limits.max_facts;
        if count >= limit {
            return Err(DimError::Limit {
                what,
                given: count as u64 + 1,
                limit: limit as u64,
            });
        }
        Ok(())
    }
}
