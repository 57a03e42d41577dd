//! The prover: does a predicate hold for all sizes that the contract facts allow?
//!
//! Works on canonical polynomials and interns nothing, so it needs only `&DimTable`. Each elementary step takes fuel; when
//! it runs out the result is `Unknown`, which is always sound. Plan facts and hints are never used.

mod bounds;
mod divide;
mod equal;
mod order;

use crate::fact::Predicate;
use crate::ids::DimId;
use crate::limits::SPENT_FUEL;
use crate::polynomial::Polynomial;
use crate::table::DimTable;

/// The prover's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Proof {
    /// It holds for all allowed sizes for which both sides have values.
    Proved,
    /// It holds for none of them.
    Disproved,
    /// Neither was proved.
    Unknown,
}

impl Proof {
    /// Whether the result is `Proved`.
    pub fn is_proved(self) -> bool {
        self == Proof::Proved
    }

    /// The result for the opposite predicate.
    pub fn negated(self) -> Proof {
        match self {
            Proof::Proved => Proof::Disproved,
            Proof::Disproved => Proof::Proved,
            Proof::Unknown => Proof::Unknown,
        }
    }
}

/// How many steps a proof may take, and how many it took.
#[derive(Clone, Debug)]
pub struct Fuel {
    limit: u64,
    spent: u64,
}

impl Fuel {
    /// Fuel for `steps` steps.
    pub fn new(steps: u64) -> Self {
        Fuel {
            limit: steps,
            spent: 0,
        }
    }

    /// The steps taken so far.
    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// Takes a number of steps; `None` when the fuel does not suffice.
    fn spend(&mut self, steps: u64) -> Option<()> {
        self.spent = self.spent.saturating_add(steps).min(self.limit);
        (self.spent < self.limit).then_some(())
    }

    /// Takes as many steps as `polynomial` has terms; `None` when the fuel does not suffice.
    fn take(&mut self, polynomial: &Polynomial) -> Option<()> {
        self.spend(1 + polynomial.terms.len() as u64)
    }
}

impl DimTable {
    /// Whether `predicate` holds for all allowed sizes, within the fuel that the table's limits allow.
    pub fn prove(&self, predicate: &Predicate) -> Proof {
        let limits = self.limits();
        let left = limits.prover_total.saturating_sub(self.prover_steps());
        let steps = limits.prover_fuel.min(left.max(SPENT_FUEL));
        self.prove_with_fuel(predicate, &mut Fuel::new(steps))
    }

    /// Like [`DimTable::prove`] with the caller's fuel, which records how much was spent.
    pub fn prove_with_fuel(&self, predicate: &Predicate, fuel: &mut Fuel) -> Proof {
        let before = fuel.spent();
        // Overflow and size limits end a proof as running out of fuel does.
        let proof = self.attempt(predicate, fuel).unwrap_or(Proof::Unknown);
        self.count_proof(fuel.spent() - before);
        proof
    }

    /// Whether `a` and `b` are equal for all allowed sizes.
    pub fn equal(&self, a: DimId, b: DimId) -> Proof {
        if a == b {
            Proof::Proved
        } else {
            self.prove(&Predicate::Equal(a, b))
        }
    }

    fn attempt(&self, predicate: &Predicate, fuel: &mut Fuel) -> Option<Proof> {
        match predicate {
            Predicate::Equal(a, b) => {
                // Equal at some sizes and not at others: the search could only fail.
                if self.is_equal_somewhere(*a, *b) && self.is_told_apart(*a, *b) {
                    return Some(Proof::Unknown);
                }
                equal::is_zero(self, self.canonical_difference(*a, *b).ok()?, fuel)
            }
            Predicate::NotEqual(a, b) => {
                Some(equal::is_zero(self, self.canonical_difference(*a, *b).ok()?, fuel)?.negated())
            }
            Predicate::LessEqual(a, b) => {
                order::is_non_negative(self, self.canonical_difference(*b, *a).ok()?, fuel)
            }
            Predicate::Less(a, b) => Some(
                order::is_non_negative(self, self.canonical_difference(*a, *b).ok()?, fuel)?
                    .negated(),
            ),
            Predicate::Divides { divisor, dim } => divide::is_multiple(
                self,
                self.polynomial(self.canonical(*dim)).clone(),
                *divisor,
                fuel,
            ),
            Predicate::ProductEqual(a, b) => equal::products_equal(self, a, b, fuel),
        }
    }
}
