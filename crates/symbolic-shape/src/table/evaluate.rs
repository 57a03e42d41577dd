//! Evaluating expressions on concrete sizes, with checks.
//!
//! Works with an explicit stack and remembers each value, so the cost is linear in the number of distinct expressions
//! involved. Sums and products run in 128 bits; only a value that does not fit into 64 bits is an overflow.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::{Atom, DimTable};
use crate::binding::Binding;
use crate::error::EvaluateError;
use crate::ids::{AtomId, DimId};

/// Values found so far. Launch plans evaluate hundreds of sizes at once, so ids are hashed cheaply, as plain numbers.
type Values = HashMap<DimId, i64, BuildHasherDefault<IdHasher>>;

/// Spreads small consecutive numbers over all bits.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, id: u32) {
        self.0 = (self.0 ^ u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl DimTable {
    /// The value of `dim`. A derived symbol without a binding has the value of its definition.
    pub fn evaluate(&self, dim: DimId, binding: &Binding) -> Result<i64, EvaluateError> {
        if let Some(value) = self.as_constant(dim) {
            return Ok(value);
        }
        if let Some(value) = self.as_symbol(dim).and_then(|symbol| binding.get(symbol)) {
            return Ok(value);
        }
        self.evaluate_into(dim, binding, &mut Values::default(), &mut Vec::new())
    }

    /// The values of all of `dims`; shared subexpressions are evaluated once.
    pub fn evaluate_all(
        &self,
        dims: &[DimId],
        binding: &Binding,
    ) -> Result<Vec<i64>, EvaluateError> {
        let mut values =
            Values::with_capacity_and_hasher(dims.len(), BuildHasherDefault::default());
        let mut pending = Vec::new();
        dims.iter()
            .map(|&dim| self.evaluate_into(dim, binding, &mut values, &mut pending))
            .collect()
    }

    fn evaluate_into(
        &self,
        root: DimId,
        binding: &Binding,
        values: &mut Values,
        pending: &mut Vec<DimId>,
    ) -> Result<i64, EvaluateError> {
        pending.clear();
        pending.push(root);
        while let Some(&dim) = pending.last() {
            if values.contains_key(&dim) {
                pending.pop();
                continue;
            }
            let before = pending.len();
            let mut need = |dim: DimId| {
                if !values.contains_key(&dim) {
                    pending.push(dim);
                }
            };
            let terms = self.polynomial(dim).terms.iter();
            for &atom in terms.flat_map(|term| &term.factors) {
                match &self.atoms[atom].atom {
                    Atom::Symbol(symbol) if binding.get(*symbol).is_some() => {}
                    Atom::Symbol(symbol) => {
                        self.definition(*symbol).into_iter().for_each(&mut need)
                    }
                    Atom::FloorDiv(a, b) | Atom::Mod(a, b) => {
                        [*a, *b].into_iter().for_each(&mut need)
                    }
                    Atom::Min(args) | Atom::Max(args) | Atom::Bcast(args) => {
                        args.iter().copied().for_each(&mut need);
                    }
                }
            }
            if pending.len() == before {
                let value = self.evaluate_polynomial(dim, binding, values)?;
                values.insert(dim, value);
                pending.pop();
            }
        }
        Ok(values
            .get(&root)
            .copied()
            .unwrap_or_else(|| unreachable!("the walk ends when the root has a value")))
    }

    fn evaluate_polynomial(
        &self,
        dim: DimId,
        binding: &Binding,
        values: &Values,
    ) -> Result<i64, EvaluateError> {
        let overflow = || EvaluateError::Overflow {
            expression: self.display(dim).to_string(),
        };
        let polynomial = self.polynomial(dim);
        let mut total = i128::from(polynomial.constant);
        for term in &polynomial.terms {
            let mut product = i128::from(term.coefficient);
            for &atom in &term.factors {
                let value = self.evaluate_atom(atom, binding, values)?;
                product = product
                    .checked_mul(i128::from(value))
                    .ok_or_else(overflow)?;
            }
            total = total.checked_add(product).ok_or_else(overflow)?;
        }
        i64::try_from(total).map_err(|_| overflow())
    }

    /// The value of an atom whose operands have values.
    fn evaluate_atom(
        &self,
        atom: AtomId,
        binding: &Binding,
        values: &Values,
    ) -> Result<i64, EvaluateError> {
        let value = |dim: DimId| {
            values
                .get(&dim)
                .copied()
                .unwrap_or_else(|| unreachable!("operands are evaluated first"))
        };
        match &self.atoms[atom].atom {
            Atom::Symbol(symbol) => match (binding.get(*symbol), self.definition(*symbol)) {
                (Some(bound), _) => Ok(bound),
                (None, Some(definition)) => Ok(value(definition)),
                (None, None) => Err(EvaluateError::Unbound {
                    symbol: self.symbol_name(*symbol).to_string(),
                }),
            },
            Atom::FloorDiv(a, b) => Ok(value(*a).div_euclid(self.checked_divisor(*b, value(*b))?)),
            Atom::Mod(a, b) => Ok(value(*a).rem_euclid(self.checked_divisor(*b, value(*b))?)),
            Atom::Min(args) => Ok(args.iter().map(|&dim| value(dim)).min().unwrap_or(0)),
            Atom::Max(args) => Ok(args.iter().map(|&dim| value(dim)).max().unwrap_or(0)),
            Atom::Bcast(args) => {
                let mut result: Option<DimId> = None;
                for &dim in args.iter().filter(|&&dim| value(dim) != 1) {
                    match result {
                        Some(first) if value(first) != value(dim) => {
                            return Err(EvaluateError::Broadcast {
                                left: self.display(first).to_string(),
                                left_value: value(first),
                                right: self.display(dim).to_string(),
                                right_value: value(dim),
                            });
                        }
                        _ => result = Some(dim),
                    }
                }
                Ok(result.map_or(1, value))
            }
        }
    }

    fn checked_divisor(&self, dim: DimId, value: i64) -> Result<i64, EvaluateError> {
        if value < 1 {
            return Err(EvaluateError::DivisorNotPositive {
                divisor: self.display(dim).to_string(),
                value,
            });
        }
        Ok(value)
    }
}
