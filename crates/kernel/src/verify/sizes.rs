//! Sizes of a kernel, for proofs about the range of stores.
//!
//! There are two tables: one has the kernel's declared facts, the other also assumes that each axis of a store has a
//! point. Proofs about single points may use the second; proofs about whole buffers must also hold if there is no
//! point.

use kiln_symbolic_shape::{
    ContractFact, DimError, DimId, DimImport, DimTable, FactOrigin, Fuel, Predicate,
};

use super::budget::Budget;
use super::factors::factors;
use crate::form::{AxisId, Kernel};

/// How many steps one proof may take.
const PROOF_FUEL: u64 = 4096;

pub(super) struct SizeProver {
    pub(super) table: DimTable,
    inside: DimTable,
    import: DimImport,
    /// Whether some axis has no point, for all sizes.
    is_empty: bool,
}

impl SizeProver {
    pub(super) fn new(kernel: &Kernel) -> Self {
        Self {
            table: kernel.dims().clone(),
            inside: kernel.dims().clone(),
            import: identity(kernel),
            is_empty: false,
        }
    }

    /// Switches to the points of other axes.
    pub(super) fn enter(&mut self, kernel: &Kernel, axes: &[AxisId], budget: &mut Budget) {
        budget.spend(kernel.dims().len() as u64);
        self.inside = kernel.dims().clone();
        self.import = identity(kernel);
        self.is_empty = false;
        for &axis in axes {
            let extent = kernel.axis(axis).extent.bound();
            let mut positive = factors(&mut self.inside, extent);
            positive.push(extent);
            for size in positive {
                let zero = self.inside.constant(0);
                let fact = ContractFact {
                    predicate: Predicate::Less(zero, size),
                    origin: FactOrigin::Declared,
                };
                budget.spend(64);
                if let Err(DimError::Contradiction { .. } | DimError::EmptyRange { .. }) =
                    self.inside.assume(fact)
                {
                    self.is_empty = true;
                }
            }
        }
    }

    /// Whether a predicate holds for all sizes.
    pub(super) fn proves(&self, predicate: &Predicate, budget: &mut Budget) -> bool {
        prove(&self.table, predicate, budget)
    }

    /// Whether two sizes are always equal.
    pub(super) fn equal(&self, a: DimId, b: DimId, budget: &mut Budget) -> bool {
        a == b || self.proves(&Predicate::Equal(a, b), budget)
    }

    /// Whether `a <= b` wherever the axes have points.
    pub(super) fn at_most(&mut self, a: DimId, b: DimId, budget: &mut Budget) -> bool {
        if self.is_empty {
            return true;
        }
        let mut copy = |dim| self.inside.import(&self.table, dim, &mut self.import).ok();
        match (copy(a), copy(b)) {
            (Some(a), Some(b)) => prove(&self.inside, &Predicate::LessEqual(a, b), budget),
            _ => false,
        }
    }

    /// Whether `a < b` wherever the axes have points.
    pub(super) fn less(&mut self, a: DimId, b: DimId, budget: &mut Budget) -> bool {
        match self.last(b) {
            Some(last) => self.at_most(a, last, budget),
            None => false,
        }
    }

    /// One less than a size.
    pub(super) fn last(&mut self, size: DimId) -> Option<DimId> {
        let one = self.table.constant(1);
        self.table.sub(size, one).ok()
    }
}

/// The kernel's symbols are the same in both tables.
fn identity(kernel: &Kernel) -> DimImport {
    let mut import = DimImport::new();
    for symbol in kernel.dims().symbols() {
        import.map(symbol, kernel.dims().dim(symbol));
    }
    import
}

fn prove(table: &DimTable, predicate: &Predicate, budget: &mut Budget) -> bool {
    let Some(steps) = budget.fuel(PROOF_FUEL) else {
        return false;
    };
    let mut fuel = Fuel::new(steps);
    let proof = table.prove_with_fuel(predicate, &mut fuel);
    budget.spend(fuel.spent());
    proof.is_proved()
}
