//! Checking concrete sizes against a table's contract: bounds of symbols, and contract facts.

use super::DimTable;
use crate::binding::Binding;
use crate::error::EvaluateError;
use crate::fact::Predicate;
use crate::ids::DimId;

impl DimTable {
    /// Whether every bound symbol is within its bounds and every contract fact holds. The error names symbol, expected,
    /// given.
    pub fn check(&self, binding: &Binding) -> Result<(), EvaluateError> {
        for (symbol, value) in binding.iter() {
            let info = self.symbol_info(symbol);
            if !info.allows(value) {
                return Err(EvaluateError::GuardFailed {
                    symbol: info.name().to_string(),
                    expected: info.requirement(),
                    given: value.to_string(),
                    origin: "declared".to_string(),
                });
            }
        }
        for fact in self.contract_facts() {
            if !self.holds(&fact.predicate, binding)? {
                return Err(self.violation(&fact.predicate, &fact.origin.to_string(), binding));
            }
        }
        Ok(())
    }

    /// Whether a predicate holds for these sizes.
    pub fn holds(&self, predicate: &Predicate, binding: &Binding) -> Result<bool, EvaluateError> {
        let value = |dim: DimId| self.evaluate(dim, binding);
        Ok(match predicate {
            Predicate::Equal(a, b) => value(*a)? == value(*b)?,
            Predicate::NotEqual(a, b) => value(*a)? != value(*b)?,
            Predicate::LessEqual(a, b) => value(*a)? <= value(*b)?,
            Predicate::Less(a, b) => value(*a)? < value(*b)?,
            Predicate::Divides { divisor, dim } => match value(*dim)?.checked_rem(*divisor) {
                Some(rest) => rest == 0,
                None => *divisor == -1,
            },
            Predicate::ProductEqual(a, b) => {
                self.product_value(a, binding)? == self.product_value(b, binding)?
            }
        })
    }

    /// The error for a predicate that does not hold for these sizes.
    pub(crate) fn violation(
        &self,
        predicate: &Predicate,
        origin: &str,
        binding: &Binding,
    ) -> EvaluateError {
        let dims = predicate.dims();
        let given: Vec<String> = dims
            .iter()
            .filter(|&&dim| self.as_constant(dim).is_none())
            .filter_map(|&dim| {
                Some(format!(
                    "{} = {}",
                    self.display(dim),
                    self.evaluate(dim, binding).ok()?
                ))
            })
            .collect();
        let symbols = dims
            .iter()
            .flat_map(|&dim| self.symbols_in(dim))
            .map(|symbol| self.symbol_name(symbol).to_string());
        let mut symbols: Vec<String> = symbols.collect();
        symbols.dedup();
        EvaluateError::GuardFailed {
            symbol: symbols.join(", "),
            expected: self.display_predicate(predicate).to_string(),
            given: given.join(", "),
            origin: origin.to_string(),
        }
    }

    fn product_value(&self, dims: &[DimId], binding: &Binding) -> Result<i128, EvaluateError> {
        let values = self.evaluate_all(dims, binding)?;
        if values.contains(&0) {
            return Ok(0);
        }
        values
            .iter()
            .try_fold(1_i128, |acc, &value| acc.checked_mul(i128::from(value)))
            .ok_or_else(|| {
                let texts: Vec<String> = dims
                    .iter()
                    .map(|&dim| self.display(dim).to_string())
                    .collect();
                EvaluateError::Overflow {
                    expression: format!("product({})", texts.join(", ")),
                }
            })
    }
}
