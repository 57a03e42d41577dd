//! Conversion of table expressions to shapes at the API boundary.

use super::SymbolicShape;
use crate::dimension::SymbolicDimension;
use crate::ids::DimId;
use crate::table::DimTable;

impl DimTable {
    /// The description of expressions; one that is not a symbol is named by its text.
    pub fn describe(&self, dims: &[DimId]) -> SymbolicShape {
        dims.iter().map(|&dim| self.describe_dim(dim)).collect()
    }

    fn describe_dim(&self, dim: DimId) -> SymbolicDimension {
        match (self.as_constant(dim), self.as_symbol(dim)) {
            (Some(value), _) => SymbolicDimension::known(value),
            (None, Some(symbol)) => self.symbol_info(symbol).clone(),
            (None, None) => {
                let text = self.display(dim).to_string();
                let range = self.range(dim);
                let dimension = SymbolicDimension::integer(text.as_str());
                dimension
                    .with_constraints(range.min.unwrap_or(i64::MIN), range.max)
                    .unwrap_or_else(|_| SymbolicDimension::integer(text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_descriptions_include_known_facts() {
        let mut table = DimTable::new();
        let batch = SymbolicDimension::range("B", 1..=8).unwrap();
        let symbol = table.declare(batch.clone()).unwrap();
        let dims = [
            table.dim(symbol),
            table.symbol("S").unwrap(),
            table.constant(384),
        ];
        let shape = table.describe(&dims);
        assert_eq!(shape.to_string(), "[B, S, 384]");
        assert_eq!(shape.dimensions()[0], batch);
        // An expression that is not a symbol is named by its text, and has its range.
        let doubled = table.add(dims[0], dims[0]).unwrap();
        let doubled = table.describe(&[doubled]);
        assert_eq!(doubled.to_string(), "[2*B]");
        assert_eq!(
            doubled.dimensions()[0].bounds(),
            crate::DimRange::new(2, 16)
        );
    }
}
