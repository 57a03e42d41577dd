//! Limits of a dimension table: how large an expression may grow and how long a proof may take.
//!
//! Reaching a size limit is not an error: the operands are wrapped in derived symbols and the expression starts over.

use serde::{Deserialize, Serialize};

/// Limits on the size of a [`DimTable`](crate::DimTable) and on the work spent on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DimLimits {
    /// Terms of one sum, arguments of one `min`, `max` or `bcast` (at least 4).
    pub max_terms: usize,
    /// Factors of one product (at least 2).
    pub max_degree: usize,
    /// Nodes of one expression as a tree (at least 16).
    pub max_size: usize,
    /// Nesting of divisions, `min`, `max` and `bcast` in one expression (at least 2, at most 40: the reader's nesting
    /// limit).
    pub max_depth: usize,
    /// Expressions in one table; beyond it every operation fails with [`DimError::Limit`](crate::DimError::Limit).
    pub max_nodes: usize,
    /// Contract facts in one table, and likewise plan facts.
    pub max_facts: usize,
    /// Steps that one call of [`DimTable::prove`](crate::DimTable::prove) may take.
    pub prover_fuel: u64,
    /// Total steps that all proofs of one table may take. Afterwards a proof gets 64 steps, so that evident facts are
    /// still proved and everything else is `Unknown`.
    pub prover_total: u64,
    /// Expressions that may be rebuilt in canonical form when one fact is learned or one expression is made. Afterwards an
    /// expression is its own canonical form, which is sound and proves less.
    pub max_rebuilds: u64,
}

/// The fuel of a proof once its table's total is spent.
pub(crate) const SPENT_FUEL: u64 = 64;

impl Default for DimLimits {
    fn default() -> Self {
        DimLimits {
            max_terms: 64,
            max_degree: 16,
            max_size: 256,
            max_depth: 24,
            max_nodes: 1 << 22,
            max_facts: 1 << 16,
            prover_fuel: 4096,
            prover_total: 1 << 23,
            max_rebuilds: 1 << 11,
        }
    }
}

impl DimLimits {
    /// These limits, each clamped to a value with which the table still works.
    pub(crate) fn clamped(self) -> Self {
        DimLimits {
            max_terms: self.max_terms.max(4),
            max_degree: self.max_degree.max(2),
            max_size: self.max_size.max(16),
            max_depth: self.max_depth.clamp(2, 40),
            max_nodes: self.max_nodes.min(u32::MAX as usize - 1024),
            ..self
        }
    }
}
