//! Minimum and maximum: flattened, with dominated operands dropped.
//!
//! A dropped operand's run-time errors are dropped with it.

use super::intern::BuildError;
use super::{Atom, DimTable, Values};
use crate::DimError;
use crate::congruence::Congruence;
use crate::ids::DimId;
use crate::range::DimRange;

/// Up to this many operands are compared with each other, so that the cost is linear for more.
const MAX_COMPARED: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Extremum {
    Min,
    Max,
}

impl DimTable {
    /// The smaller of two sizes.
    pub fn min(&mut self, a: DimId, b: DimId) -> Result<DimId, DimError> {
        self.min_of(&[a, b])
    }

    /// The larger of two sizes.
    pub fn max(&mut self, a: DimId, b: DimId) -> Result<DimId, DimError> {
        self.max_of(&[a, b])
    }

    /// The minimum of `dims`, which are not empty.
    pub fn min_of(&mut self, dims: &[DimId]) -> Result<DimId, DimError> {
        self.build(dims, ", ", |table, dims| {
            table.extremum(dims, Extremum::Min)
        })
    }

    /// The maximum of `dims`, which are not empty.
    pub fn max_of(&mut self, dims: &[DimId]) -> Result<DimId, DimError> {
        self.build(dims, ", ", |table, dims| {
            table.extremum(dims, Extremum::Max)
        })
    }

    fn extremum(&mut self, dims: &[DimId], which: Extremum) -> Result<DimId, BuildError> {
        let mut args = Vec::new();
        for &dim in dims {
            match (which, self.lone_atom(dim)) {
                (Extremum::Min, Some(Atom::Min(inner)))
                | (Extremum::Max, Some(Atom::Max(inner))) => args.extend_from_slice(inner),
                _ => args.push(dim),
            }
        }
        args.sort_unstable();
        args.dedup();
        if args.len() <= MAX_COMPARED {
            args = self.without_beaten(&args, which);
        }
        match args.as_slice() {
            [] => Err(DimError::Limit {
                what: "operands (at least one is needed)",
                given: 0,
                limit: 1,
            }
            .into()),
            [only] => Ok(*only),
            _ if args.len() > self.limits.max_terms => Err(BuildError::TooLarge),
            _ => self.intern_atom(match which {
                Extremum::Min => Atom::Min(args.into()),
                Extremum::Max => Atom::Max(args.into()),
            }),
        }
    }

    fn without_beaten(&self, args: &[DimId], which: Extremum) -> Vec<DimId> {
        let mut kept: Vec<DimId> = Vec::with_capacity(args.len());
        for &candidate in args {
            if kept
                .iter()
                .any(|&other| self.beats(other, candidate, which))
            {
                continue;
            }
            kept.retain(|&other| !self.beats(candidate, other, which));
            kept.push(candidate);
        }
        kept
    }

    /// Whether `a` is always the extremum of `a` and `b`.
    fn beats(&self, a: DimId, b: DimId, which: Extremum) -> bool {
        let (large, small) = if which == Extremum::Max {
            (a, b)
        } else {
            (b, a)
        };
        self.difference_values(large, small)
            .is_some_and(|values| values.range.at_least(0))
    }

    /// What is known about `a - b`, including from equalities.
    pub(super) fn difference_values(&self, a: DimId, b: DimId) -> Option<Values> {
        let (a, b) = (self.canonical(a), self.canonical(b));
        // Two sizes without a common atom, the usual case, are not subtracted.
        if let (Some(left), Some(right)) =
            (self.polynomial(a).as_atom(), self.polynomial(b).as_atom())
            && left != right
        {
            let (left, right) = (self.atom(left).values, self.atom(right).values);
            let minus_one = Congruence::exactly(-1);
            let values = Values {
                range: left.range.add(&right.range.mul(&DimRange::point(-1))),
                congruence: left.congruence.add(&right.congruence.mul(&minus_one)),
            };
            return values.meet(&Values::ANY);
        }
        self.values_of(&self.polynomial(a).sub(self.polynomial(b)).ok()?)
    }

    /// The atom, when the expression is a single atom.
    pub(super) fn lone_atom(&self, dim: DimId) -> Option<&Atom> {
        self.polynomial(dim)
            .as_atom()
            .map(|atom| &self.atom(atom).atom)
    }
}
