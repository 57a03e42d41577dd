//! Broadcasting of sizes: `bcast(a, b)` is `a` when `b` is 1, `b` when `a` is 1, `a` when they are equal, else an error.
//!
//! The operation is associative and commutative, errors included: its operands are flattened and sorted. An operand is
//! dropped only when that loses no error; [`DimTable::broadcast_dim`] is for operators that check their operands at run
//! time.

use super::intern::BuildError;
use super::{Atom, DimTable, Values};
use crate::DimError;
use crate::fact::{PlanFact, Predicate};
use crate::ids::{AtomId, DimId};
use crate::prove::Proof;

/// An operand, with the data that distinguishes most pairs of operands.
struct BroadcastOperand {
    dim: DimId,
    /// The atom, if the operand is a single atom that may have several values.
    atom: Option<AtomId>,
    may_be_one: bool,
}

impl BroadcastOperand {
    /// Whether two operands are neither always equal nor never broadcast: two atoms of several values each are not always
    /// equal, and of two sizes that differ one may be 1. Decides most pairs, without arithmetic.
    fn is_independent_of(&self, other: &Self) -> bool {
        let are_atoms = self.atom.zip(other.atom).is_some_and(|(a, b)| a != b);
        are_atoms && (self.may_be_one || other.may_be_one)
    }
}

impl DimTable {
    /// The size to which `a` and `b` broadcast. An error when they never do.
    pub fn bcast(&mut self, a: DimId, b: DimId) -> Result<DimId, DimError> {
        self.bcast_of(&[a, b])
    }

    /// The size to which all of `dims` broadcast; 1 if there are none.
    pub fn bcast_of(&mut self, dims: &[DimId]) -> Result<DimId, DimError> {
        self.build(dims, ", ", |table, dims| table.broadcast(dims))
    }

    /// The size of an axis where an operator broadcasts `a` with `b` and checks them at run time.
    ///
    /// When the prover does not know whether they are equal, records the plan fact that they are. When one side cannot be 1
    /// it is the result, otherwise `bcast(a, b)`. An error when they never broadcast.
    pub fn broadcast_dim(&mut self, a: DimId, b: DimId, origin: &str) -> Result<DimId, DimError> {
        let joined = self.bcast(a, b)?;
        if joined == a || joined == b {
            return Ok(joined);
        }
        let proof = self.prove(&Predicate::Equal(a, b));
        if proof == Proof::Proved {
            return Ok(if self.as_constant(b).is_some() { b } else { a });
        }
        match (self.cannot_be_one(a), self.cannot_be_one(b)) {
            (true, true) if proof == Proof::Disproved => return Err(self.broadcast_error(a, b)),
            (false, false) if proof == Proof::Unknown => self.expect(PlanFact {
                left: a,
                right: b,
                origin: origin.to_string(),
            }),
            (one, other) => {
                if proof == Proof::Unknown {
                    self.expect(PlanFact {
                        left: a,
                        right: b,
                        origin: origin.to_string(),
                    });
                }
                if other && (!one || self.as_constant(b).is_some()) {
                    return Ok(b);
                }
                if one {
                    return Ok(a);
                }
            }
        }
        Ok(joined)
    }

    fn broadcast(&mut self, dims: &[DimId]) -> Result<DimId, BuildError> {
        let mut args = Vec::new();
        for &dim in dims {
            match self.lone_atom(dim) {
                Some(Atom::Bcast(inner)) => args.extend_from_slice(inner),
                _ => args.push(dim),
            }
        }
        args.retain(|&dim| self.range(dim).as_point() != Some(1));
        // Constants first: they are kept when a symbol is known to have the same value.
        args.sort_unstable_by_key(|&dim| (self.as_constant(dim).is_none(), dim));
        args.dedup();
        if args.len() > self.limits.max_terms {
            return Err(BuildError::TooLarge);
        }
        let args = args.iter().map(|&dim| self.broadcast_operand(dim));
        let mut kept: Vec<BroadcastOperand> = Vec::with_capacity(args.len());
        'next: for operand in args {
            for other in &kept {
                if operand.is_independent_of(other) {
                    continue;
                }
                let (dim, other) = (operand.dim, other.dim);
                let Some(apart) = self.difference_values(dim, other) else {
                    continue;
                };
                if apart.range.as_point() == Some(0) {
                    continue 'next;
                }
                let differ = !apart.range.contains(0) || !apart.congruence.contains(0);
                if differ && self.cannot_be_one(dim) && self.cannot_be_one(other) {
                    return Err(self.broadcast_error(other, dim).into());
                }
            }
            kept.push(operand);
        }
        let mut kept: Vec<DimId> = kept.iter().map(|operand| operand.dim).collect();
        kept.sort_unstable();
        match kept.as_slice() {
            [] => Ok(self.constant(1)),
            [only] => Ok(*only),
            _ => self.intern_atom(Atom::Bcast(kept.into())),
        }
    }

    fn broadcast_operand(&self, dim: DimId) -> BroadcastOperand {
        let atom = self.polynomial(self.canonical(dim)).as_atom();
        let is_open = |&atom: &AtomId| self.atom(atom).values.range.as_point().is_none();
        BroadcastOperand {
            dim,
            atom: atom.filter(is_open),
            may_be_one: !self.cannot_be_one(dim),
        }
    }

    /// Whether the size is known to differ from 1, so that it is the result of a broadcast.
    pub fn cannot_be_one(&self, dim: DimId) -> bool {
        let values = self.values(dim);
        !values.range.contains(1) || !values.congruence.contains(1)
    }

    /// An operand that cannot be 1 is the value; otherwise it is the value of one of the operands.
    pub(super) fn values_of_bcast(&self, args: &[DimId]) -> Option<Values> {
        let mut rigid = args
            .iter()
            .filter(|&&dim| self.cannot_be_one(dim))
            .map(|&dim| self.values(dim))
            .peekable();
        if rigid.peek().is_some() {
            return rigid.try_fold(Values::ANY, |acc, values| acc.meet(&values));
        }
        Some(self.values_of_choice(args, crate::DimRange::hull))
    }

    fn broadcast_error(&self, a: DimId, b: DimId) -> DimError {
        DimError::Broadcast {
            left: self.display(a).to_string(),
            right: self.display(b).to_string(),
        }
    }
}
