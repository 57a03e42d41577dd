//! A shape at the API boundary: a list of dimensions that belongs to no table.
//!
//! Immutable, cheap to clone, hashable, and safe to share between threads.

mod convert;
mod relate;

use std::fmt;
use std::sync::Arc;

use crate::dimension::SymbolicDimension;
use crate::error::DimError;

/// The dimensions of a tensor, some known, some symbols.
///
/// ```
/// # fn main() -> Result<(), kiln_symbolic_shape::DimError> {
/// use kiln_symbolic_shape::{SymbolicDimension, SymbolicShape};
/// let shape = SymbolicShape::new([
///     SymbolicDimension::named("batch"),
///     SymbolicDimension::bounded("seq", 512)?,
///     SymbolicDimension::known(512),
/// ]);
/// assert_eq!(shape.to_string(), "[batch, seq, 512]");
/// assert!(shape.is_partially_known() && shape.to_concrete().is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SymbolicShape {
    dimensions: Arc<[SymbolicDimension]>,
}

impl SymbolicShape {
    /// A shape of these dimensions.
    pub fn new(dimensions: impl IntoIterator<Item = SymbolicDimension>) -> Self {
        SymbolicShape {
            dimensions: dimensions.into_iter().collect(),
        }
    }

    /// The shape of a single number, `[]`.
    pub fn scalar() -> Self {
        Self::new([])
    }

    /// `[length]`.
    pub fn vector(length: impl Into<SymbolicDimension>) -> Self {
        Self::new([length.into()])
    }

    /// `[rows, columns]`.
    pub fn matrix(
        rows: impl Into<SymbolicDimension>,
        columns: impl Into<SymbolicDimension>,
    ) -> Self {
        Self::new([rows.into(), columns.into()])
    }

    /// A shape of known sizes.
    pub fn from_concrete(sizes: &[i64]) -> Self {
        Self::new(sizes.iter().map(|&size| SymbolicDimension::known(size)))
    }

    /// The dimensions in order.
    pub fn dimensions(&self) -> &[SymbolicDimension] {
        &self.dimensions
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.dimensions.len()
    }

    /// Whether every dimension is known.
    pub fn is_fully_known(&self) -> bool {
        self.dimensions.iter().all(SymbolicDimension::is_known)
    }

    /// Whether some dimensions are known and some are not.
    pub fn is_partially_known(&self) -> bool {
        !self.is_fully_known() && self.dimensions.iter().any(SymbolicDimension::is_known)
    }

    /// The sizes; an error when one is not known.
    pub fn to_concrete(&self) -> Result<Vec<i64>, DimError> {
        let size = |dimension: &SymbolicDimension| {
            dimension.value().ok_or_else(|| DimError::NotConcrete {
                shape: self.to_string(),
                name: dimension.to_string(),
            })
        };
        self.dimensions.iter().map(size).collect()
    }

    /// This shape with a different dimension at `axis`.
    pub fn with_dimension(
        &self,
        axis: usize,
        dimension: SymbolicDimension,
    ) -> Result<Self, DimError> {
        let mut dimensions = self.dimensions.to_vec();
        let rank = dimensions.len();
        *dimensions
            .get_mut(axis)
            .ok_or(DimError::AxisOutOfRange { axis, rank })? = dimension;
        Ok(Self::new(dimensions))
    }
}

impl fmt::Display for SymbolicShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.dimensions.iter().map(ToString::to_string).collect();
        write!(f, "[{}]", texts.join(", "))
    }
}

impl FromIterator<SymbolicDimension> for SymbolicShape {
    fn from_iter<I: IntoIterator<Item = SymbolicDimension>>(dimensions: I) -> Self {
        Self::new(dimensions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> SymbolicDimension {
        SymbolicDimension::named(name)
    }

    #[test]
    fn describes_itself() {
        let shape =
            SymbolicShape::new([named("batch"), named("seq"), SymbolicDimension::known(512)]);
        assert_eq!(
            (shape.to_string(), shape.rank()),
            ("[batch, seq, 512]".to_string(), 3)
        );
        assert!(!shape.is_fully_known() && shape.is_partially_known());
        assert_eq!(SymbolicShape::scalar().to_string(), "[]");
        assert!(
            SymbolicShape::scalar().is_fully_known()
                && !SymbolicShape::vector(named("N")).is_partially_known()
        );
        assert_eq!(SymbolicShape::matrix(2, named("N")).to_string(), "[2, N]");
        assert_eq!(
            SymbolicShape::from_concrete(&[2, 3]).to_concrete(),
            Ok(vec![2, 3])
        );
        let error = shape.to_concrete().unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected a fully known shape, found [batch, seq, 512]; give batch a value"
        );
        assert_eq!(
            shape.with_dimension(0, 4.into()).unwrap().to_string(),
            "[4, seq, 512]"
        );
        assert_eq!(
            shape.with_dimension(3, 4.into()).unwrap_err().code(),
            "E0311"
        );
    }

    #[test]
    fn is_shared_between_threads() {
        fn assert_shared<T: Send + Sync + std::hash::Hash + Eq + Clone>() {}
        assert_shared::<SymbolicShape>();
        assert_shared::<SymbolicDimension>();
    }
}
