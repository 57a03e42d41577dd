//! Concrete values for symbols: the actual sizes of a call.
//!
//! A binding checks only that it does not contradict itself; bounds and facts are checked by
//! [`DimTable::check`](crate::DimTable::check).

use std::collections::BTreeMap;

use crate::{DimError, SymbolId};

/// Values of symbols of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Binding {
    values: BTreeMap<SymbolId, i64>,
}

impl Binding {
    /// An empty binding.
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds `symbol` to `value`; an error when it already has another value.
    pub fn set(&mut self, symbol: SymbolId, value: i64) -> Result<(), DimError> {
        let expected = *self.values.entry(symbol).or_insert(value);
        if expected != value {
            return Err(DimError::BindingConflict {
                symbol: symbol.to_string(),
                expected,
                given: value,
            });
        }
        Ok(())
    }

    /// The value of `symbol`, if it has one.
    pub fn get(&self, symbol: SymbolId) -> Option<i64> {
        self.values.get(&symbol).copied()
    }

    /// Every symbol with its value, in the order of ids.
    pub fn iter(&self) -> impl Iterator<Item = (SymbolId, i64)> + '_ {
        self.values.iter().map(|(&symbol, &value)| (symbol, value))
    }
}

impl FromIterator<(SymbolId, i64)> for Binding {
    /// The last value of a symbol wins.
    fn from_iter<I: IntoIterator<Item = (SymbolId, i64)>>(values: I) -> Self {
        Binding {
            values: values.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_has_one_value() {
        let mut binding = Binding::new();
        let symbol = SymbolId::from_u32(3);
        assert!(binding.set(symbol, 4).is_ok() && binding.set(symbol, 4).is_ok());
        let error = binding.set(symbol, 5).unwrap_err();
        assert_eq!(error.to_string(), "expected 4 for symbol s3, found 5");
        assert_eq!(binding.get(symbol), Some(4));
        assert_eq!(binding.iter().collect::<Vec<_>>(), [(symbol, 4)]);
    }
}
