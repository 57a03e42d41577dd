//! Narrowing the range of an atom, and what follows for the operands of a division, a remainder or an extremum.
//!
//! Contradictions are detected before anything changes.

use super::intern::BuildError;
use super::{Atom, DimTable, Values};
use crate::fact::Predicate;
use crate::ids::{AtomId, DimId};
use crate::polynomial::Polynomial;
use crate::range::DimRange;

/// The maximum depth of derived consequences; without a limit, a fact may cycle through equalities.
const MAX_CONSEQUENCES: usize = 8;

impl DimTable {
    /// Narrows what is known about an atom, updates everything that contains it, and continues with its operands.
    pub(super) fn narrow_atom(
        &mut self,
        id: AtomId,
        values: Values,
        predicate: &Predicate,
    ) -> Result<(), BuildError> {
        let info = &self.atoms[id];
        let (Some(assumed), Some(narrowed)) =
            (info.assumed.meet(&values), info.values.meet(&values))
        else {
            return Err(self.contradiction(predicate).into());
        };
        if let Atom::Symbol(symbol) = info.atom {
            self.narrow_symbol(symbol, &narrowed)?;
        }
        let info = &mut self.atoms[id];
        info.assumed = assumed;
        info.values = narrowed;
        let (symbols, atom) = (info.measure.symbols, info.atom.clone());
        self.refresh(symbols);
        if self.learning >= MAX_CONSEQUENCES {
            return Ok(());
        }
        self.learning += 1;
        // A contradiction at a deeper level means that no sizes are allowed; the facts report it when a call is
        // checked. What was learned up to that point follows from them, so it is kept.
        self.learn_operands(&atom, &values, predicate).unwrap_or(());
        self.learning -= 1;
        Ok(())
    }

    /// Propagates new bounds of a division, a remainder or an extremum to its operands.
    fn learn_operands(
        &mut self,
        atom: &Atom,
        values: &Values,
        predicate: &Predicate,
    ) -> Result<(), BuildError> {
        let DimRange { min, max } = values.range;
        match atom {
            Atom::FloorDiv(a, b) => {
                let Some(divisor) = self.as_constant(*b) else {
                    return Ok(());
                };
                let least = min.and_then(|min| min.checked_mul(divisor));
                let most = max.and_then(|max| max.checked_mul(divisor)?.checked_add(divisor - 1));
                self.learn_range(
                    *a,
                    DimRange {
                        min: least,
                        max: most,
                    },
                    predicate,
                )
            }
            Atom::Mod(a, b) => match (self.as_constant(*b), values.range.as_point()) {
                (Some(divisor), Some(residue)) => {
                    let offset = Polynomial::constant(residue);
                    let exact = self.polynomial(self.canonical(*a)).sub(&offset)?;
                    let exact = self.finish(exact)?;
                    self.learn_multiple(exact, divisor, predicate)
                }
                _ => Ok(()),
            },
            Atom::Min(args) if min.is_some() => args
                .iter()
                .try_for_each(|&dim| self.learn_range(dim, DimRange { min, max: None }, predicate)),
            Atom::Max(args) if max.is_some() => args
                .iter()
                .try_for_each(|&dim| self.learn_range(dim, DimRange { min: None, max }, predicate)),
            _ => Ok(()),
        }
    }

    fn learn_range(
        &mut self,
        dim: DimId,
        range: DimRange,
        predicate: &Predicate,
    ) -> Result<(), BuildError> {
        let known = self.range(dim);
        if let Some(min) = range.min.filter(|&min| !known.at_least(min)) {
            let above = self
                .polynomial(self.canonical(dim))
                .sub(&Polynomial::constant(min))?;
            self.learn_non_negative(above, predicate)?;
        }
        if let Some(max) = range.max.filter(|&max| !known.at_most(max)) {
            let below = Polynomial::constant(max).sub(self.polynomial(self.canonical(dim)))?;
            self.learn_non_negative(below, predicate)?;
        }
        Ok(())
    }
}
