//! Between shapes at the API's edge and expressions of a table.

use super::SymbolicShape;
use crate::dimension::SymbolicDimension;
use crate::error::DimError;
use crate::ids::DimId;
use crate::table::DimTable;

impl DimTable {
    /// The expressions of a shape. A name the table has is that symbol, narrowed by the dimension; others are declared.
    pub fn shape(&mut self, shape: &SymbolicShape) -> Result<Vec<DimId>, DimError> {
        let mut dims = Vec::with_capacity(shape.rank());
        for dimension in shape.dimensions() {
            let dim = match (dimension.value(), self.symbol_named(dimension.name())) {
                (Some(value), None) => self.constant(value),
                (_, Some(symbol)) => {
                    self.constrain(symbol, dimension.clone())?;
                    self.dim(symbol)
                }
                (None, None) => {
                    let symbol = self.declare(dimension.clone())?;
                    self.dim(symbol)
                }
            };
            dims.push(dim);
        }
        Ok(dims)
    }

    /// The description of expressions; one that is no symbol is named by its text.
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
    fn shapes_go_in_and_come_out() {
        let mut table = DimTable::new();
        let batch = SymbolicDimension::range("B", 1..=8).unwrap();
        let shape = SymbolicShape::new([batch.clone(), SymbolicDimension::named("S"), 384.into()]);
        let dims = table.shape(&shape).unwrap();
        assert_eq!(table.display_shape(&dims).to_string(), "[B, S, 384]");
        assert_eq!(table.describe(&dims).dimensions()[0], batch);
        let tokens = table.product(&dims[..2]).unwrap();
        assert_eq!(table.describe(&[tokens]).to_string(), "[B*S]");
        // The same name is the same symbol, narrowed.
        let narrower = SymbolicShape::vector(SymbolicDimension::range("B", 4..).unwrap());
        assert_eq!(table.shape(&narrower).unwrap(), dims[..1]);
        assert_eq!(table.range(dims[0]), crate::DimRange::new(4, 8));
        assert_eq!(
            table
                .shape(&SymbolicShape::vector(SymbolicDimension::named("a b")))
                .unwrap_err()
                .code(),
            "E0305"
        );
        let impossible = SymbolicShape::vector(SymbolicDimension::range("B", 9..).unwrap());
        assert_eq!(table.shape(&impossible).unwrap_err().code(), "E0307");
    }
}
