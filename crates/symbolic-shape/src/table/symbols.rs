//! Symbols: declared, fresh, and derived ones, and narrowing their values.
//!
//! Bounds and multiples given here are recorded as contract facts, so that the list of facts contains everything that a
//! graph's text must repeat. The exception is a negative lower bound: it widens, so it belongs to the declaration alone.

use std::sync::Arc;

use super::intern::BuildError;
use super::{Atom, DimTable, Measure, SymbolInfo, Values};
use crate::DimError;
use crate::dimension::SymbolicDimension;
use crate::fact::{ContractFact, FactOrigin, Hint, Predicate};
use crate::ids::{DimId, SymbolId};
use crate::polynomial::Polynomial;
use crate::text::is_identifier;

impl DimTable {
    /// The constant `value`.
    pub fn constant(&mut self, value: i64) -> DimId {
        self.intern_small(Polynomial::constant(value))
    }

    /// Adds a symbol described by `dimension`. Its name must be an identifier and new.
    pub fn declare(&mut self, dimension: SymbolicDimension) -> Result<SymbolId, DimError> {
        let name = dimension.shared_name().clone();
        if !is_identifier(&name) {
            return Err(DimError::InvalidName {
                name: name.escape_debug().to_string(),
            });
        }
        if self.names.contains_key(&name) {
            return Err(DimError::DuplicateSymbol {
                name: name.to_string(),
            });
        }
        let base = SymbolicDimension::named(name);
        let base = base.with_constraints(dimension.min().min(0), None)?;
        let symbol = self.add_symbol(base, None);
        self.constrain(symbol, dimension)?;
        Ok(symbol)
    }

    /// The symbol called `name` as an expression; declared as a size (0 or more) if it does not exist.
    pub fn symbol(&mut self, name: &str) -> Result<DimId, DimError> {
        let symbol = match self.symbol_named(name) {
            Some(symbol) => symbol,
            None => self.declare(SymbolicDimension::named(name))?,
        };
        Ok(self.dim(symbol))
    }

    /// The symbol called `name`, if there is one.
    pub fn symbol_named(&self, name: &str) -> Option<SymbolId> {
        self.names.get(name).copied()
    }

    /// A new size symbol with the name `stem`, or `stem_1`, `stem_2` and so on when that is taken.
    ///
    /// Characters that a name cannot have become `_`.
    pub fn fresh(&mut self, stem: &str) -> SymbolId {
        let name = self.free_name(stem);
        self.add_symbol(SymbolicDimension::named(name), None)
    }

    /// A new symbol that represents `value`: it is evaluated through its definition but opaque to simplification.
    pub fn define(&mut self, stem: &str, value: DimId) -> SymbolId {
        let name = self.free_name(stem);
        let symbol = self.add_symbol(SymbolicDimension::integer(name), Some(value));
        self.wrapped.entry(value).or_insert(symbol);
        symbol
    }

    /// The expression that a derived symbol represents.
    pub fn definition(&self, symbol: SymbolId) -> Option<DimId> {
        self.symbols[symbol].definition
    }

    /// The symbol as an expression.
    pub fn dim(&self, symbol: SymbolId) -> DimId {
        self.symbols[symbol].dim
    }

    /// The description of a symbol, as narrowed so far.
    pub fn symbol_info(&self, symbol: SymbolId) -> &SymbolicDimension {
        &self.symbols[symbol].dimension
    }

    /// The name of a symbol.
    pub fn symbol_name(&self, symbol: SymbolId) -> &str {
        self.symbols[symbol].dimension.name()
    }

    /// Every symbol, in the order of declaration.
    pub fn symbols(&self) -> impl Iterator<Item = SymbolId> + use<> {
        (0..self.symbols.len()).map(cranelift_entity::EntityRef::new)
    }

    /// Names every symbol by its number. The names have to be identifiers, and distinct.
    pub fn rename_symbols(&mut self, name: impl Fn(usize) -> String) {
        self.names.clear();
        self.stems.clear();
        for symbol in self.symbols() {
            let name: Arc<str> = name(cranelift_entity::EntityRef::index(symbol)).into();
            let info = &mut self.symbols[symbol];
            info.dimension = info.dimension.clone().renamed(name.clone());
            self.names.insert(name, symbol);
        }
    }

    /// The minimum of the declaration, before any fact; 0 for a size.
    pub fn declared_min(&self, symbol: SymbolId) -> i64 {
        self.symbols[symbol].declared_min
    }

    /// Narrows a symbol to what `dimension` allows too; its name is ignored.
    pub fn constrain(
        &mut self,
        symbol: SymbolId,
        dimension: SymbolicDimension,
    ) -> Result<(), DimError> {
        let old = &self.symbols[symbol].dimension;
        let narrowed = old.clone().narrowed_by(&dimension)?;
        let (old_min, old_max, old_multiple) = (old.min(), old.max(), old.multiple());
        let dim = self.dim(symbol);
        let mut predicates = Vec::new();
        if let Some(value) = narrowed.value() {
            predicates.push(Predicate::Equal(dim, self.constant(value)));
        } else {
            if narrowed.min() > old_min {
                predicates.push(Predicate::LessEqual(self.constant(narrowed.min()), dim));
            }
            if let Some(max) = narrowed
                .max()
                .filter(|&max| old_max.is_none_or(|old| max < old))
            {
                predicates.push(Predicate::LessEqual(dim, self.constant(max)));
            }
            if narrowed.multiple() > old_multiple {
                predicates.push(Predicate::Divides {
                    divisor: narrowed.multiple(),
                    dim,
                });
            }
        }
        for predicate in predicates {
            self.assume(ContractFact {
                predicate,
                origin: FactOrigin::Declared,
            })?;
        }
        if let Some(likely) = dimension.likely_value() {
            self.hint(Hint { symbol, likely });
        }
        Ok(())
    }

    /// Records a likely value; the last one for a symbol wins.
    pub fn hint(&mut self, hint: Hint) {
        let info = &mut self.symbols[hint.symbol];
        info.dimension = info.dimension.clone().likely(hint.likely);
        self.hints.retain(|other| other.symbol != hint.symbol);
        self.hints.push(hint);
    }

    /// The likely values, in the order they were given.
    pub fn hints(&self) -> &[Hint] {
        &self.hints
    }

    /// The symbol that represents `dim` in expressions that would grow too large: always the same one, or an existing
    /// symbol with that definition if there is one.
    pub(super) fn wrap(&mut self, dim: DimId) -> DimId {
        let symbol = match self.wrapped.get(&dim) {
            Some(&symbol) => symbol,
            None => self.define("t", dim),
        };
        self.dim(symbol)
    }

    pub(super) fn narrow_symbol(
        &mut self,
        symbol: SymbolId,
        values: &Values,
    ) -> Result<(), BuildError> {
        let mut dimension = self.symbols[symbol].dimension.clone();
        let bounds = dimension.bounds().intersect(&values.range);
        dimension = dimension.with_constraints(bounds.min.unwrap_or(i64::MIN), bounds.max)?;
        if values.congruence.modulus > 1 && values.congruence.residue == 0 {
            dimension = dimension.multiple_of(values.congruence.modulus)?;
        }
        self.symbols[symbol].dimension = dimension;
        Ok(())
    }

    fn add_symbol(&mut self, dimension: SymbolicDimension, definition: Option<DimId>) -> SymbolId {
        let symbol = self.symbols.next_key();
        self.names.insert(dimension.shared_name().clone(), symbol);
        let bit = 1_u64 << (symbol.as_u32() % 64);
        let inside = definition.map_or(0, |dim| self.dims[dim].measure.symbols);
        self.symbols.push(SymbolInfo {
            declared_min: dimension.min(),
            dimension,
            definition,
            dim: DimId::from_u32(0),
        });
        let values = self
            .values_of_atom(&Atom::Symbol(symbol))
            .unwrap_or(Values::ANY);
        let measure = Measure {
            depth: 0,
            size: 1,
            symbols: bit | inside,
        };
        let dim = self.push_atom(Atom::Symbol(symbol), measure, values);
        self.symbols[symbol].dim = dim;
        symbol
    }

    pub(super) fn free_name(&mut self, stem: &str) -> Arc<str> {
        let mut clean: String = stem
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '_' || c == '.' {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        if !is_identifier(&clean) {
            clean.insert(0, '_');
        }
        if !self.names.contains_key(clean.as_str()) {
            return clean.into();
        }
        let count = self.stems.entry(clean.clone()).or_insert(0);
        loop {
            *count += 1;
            let name = format!("{clean}_{count}");
            if !self.names.contains_key(name.as_str()) {
                return name.into();
            }
        }
    }
}
