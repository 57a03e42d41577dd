//! Compatibility and unification of two shapes.

use super::SymbolicShape;
use crate::dimension::SymbolicDimension;
use crate::error::DimError;

impl SymbolicShape {
    /// Whether some sizes make both shapes equal, judged axis by axis.
    pub fn is_compatible_with(&self, other: &SymbolicShape) -> bool {
        self.unify(other).is_ok()
    }

    /// The unified shape: each axis narrowed to the sizes that both allow. Sizes of different names may be equal.
    ///
    /// # Errors
    /// An axis for which no size is allowed by both.
    pub fn unify(&self, other: &SymbolicShape) -> Result<SymbolicShape, DimError> {
        let mismatch = |reason: String| DimError::ShapeMismatch {
            left: self.to_string(),
            right: other.to_string(),
            reason,
        };
        if self.rank() != other.rank() {
            let (left, right) = (self.rank(), other.rank());
            return Err(mismatch(format!("ranks {left} and {right} differ")));
        }
        let axes = self.dimensions().iter().zip(other.dimensions());
        let axes = axes.enumerate().map(|(axis, (left, right))| {
            left.clone().narrowed_by(right).map_err(|_| {
                let (left, right) = (described(left), described(right));
                mismatch(format!(
                    "axis {axis} is {left} on the left, {right} on the right"
                ))
            })
        });
        axes.collect()
    }
}

fn described(dimension: &SymbolicDimension) -> String {
    match dimension.value() {
        Some(value) => value.to_string(),
        None => format!("{dimension} ({})", dimension.requirement()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(dims: &[&str]) -> SymbolicShape {
        let dimension = |text: &&str| match text.parse::<i64>() {
            Ok(value) => SymbolicDimension::known(value),
            Err(_) => SymbolicDimension::named(*text),
        };
        dims.iter().map(dimension).collect()
    }

    #[test]
    fn shapes_unify_axis_by_axis() {
        let both = shape(&["B", "S", "8"]).unify(&shape(&["B", "4", "N"]));
        assert_eq!(both.unwrap().to_string(), "[B, 4, 8]");
        let error = shape(&["B", "3"]).unify(&shape(&["B", "4"])).unwrap_err();
        insta::assert_snapshot!(error, @"expected compatible shapes, found [B, 3] and [B, 4]: axis 1 is 3 on the left, 4 on the right");
        assert!(!shape(&["B"]).is_compatible_with(&shape(&["B", "1"])));
        assert!(shape(&["B"]).is_compatible_with(&shape(&["7"])));
        let even = SymbolicShape::vector(SymbolicDimension::named("E").multiple_of(2).unwrap());
        assert!(!even.is_compatible_with(&shape(&["7"])));
    }
}
