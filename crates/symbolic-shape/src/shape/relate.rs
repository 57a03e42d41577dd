//! Relations of two shapes: compatible, broadcast, unified.
//!
//! Symbols are identified by name. What two shapes need to agree is returned as constraints, never assumed silently.

use super::SymbolicShape;
use crate::constraint::{Constraint, ConstraintSet, Extent};
use crate::dimension::SymbolicDimension;
use crate::error::DimError;

/// The result of [`SymbolicShape::unify`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unification {
    /// The shape that both are.
    pub shape: SymbolicShape,
    /// What the sizes must satisfy for that.
    pub constraints: ConstraintSet,
}

impl SymbolicShape {
    /// Whether there are sizes for which both shapes are the same, as far as each axis alone tells.
    pub fn is_compatible_with(&self, other: &SymbolicShape) -> bool {
        self.unify(other).is_ok()
    }

    /// The shape that both are, with the constraints this needs. An error when they never are the same.
    pub fn unify(&self, other: &SymbolicShape) -> Result<Unification, DimError> {
        if self.rank() != other.rank() {
            return Err(self.mismatch(
                other,
                format!("ranks {} and {} differ", self.rank(), other.rank()),
            ));
        }
        let mut constraints = ConstraintSet::new();
        let mut dimensions = Vec::with_capacity(self.rank());
        for (axis, (left, right)) in self.dimensions().iter().zip(other.dimensions()).enumerate() {
            let both = left.clone().narrowed_by(right).map_err(|_| {
                self.mismatch(
                    other,
                    format!(
                        "axis {axis} is {} on the left, {} on the right",
                        described(left),
                        described(right)
                    ),
                )
            })?;
            if Extent::of(left) != Extent::of(right) {
                constraints.insert(Constraint::Equal(Extent::of(left), Extent::of(right)));
            }
            constraints.extend(ConstraintSet::of_dimension(&both));
            dimensions.push(both);
        }
        Ok(Unification {
            shape: SymbolicShape::new(dimensions),
            constraints,
        })
    }

    /// The shape that both broadcast to, aligned at the last axis. An error when they never do.
    ///
    /// Where neither side decides, the dimension is named `bcast(a, b)`; inside a graph the table's broadcast is exact.
    pub fn broadcast(&self, other: &SymbolicShape) -> Result<SymbolicShape, DimError> {
        let rank = self.rank().max(other.rank());
        let one = SymbolicDimension::known(1);
        let padded = |shape: &SymbolicShape| {
            let missing = std::iter::repeat_n(one.clone(), rank - shape.rank());
            missing
                .chain(shape.dimensions().iter().cloned())
                .collect::<Vec<_>>()
        };
        let pairs = padded(self).into_iter().zip(padded(other)).enumerate();
        pairs
            .map(|(axis, (left, right))| {
                broadcast_dimensions(&left, &right).ok_or_else(|| {
                    let reason = format!(
                        "axis {axis} is {} on the left, {} on the right, and neither is 1",
                        described(&left),
                        described(&right)
                    );
                    self.mismatch(other, reason)
                })
            })
            .collect()
    }

    fn mismatch(&self, other: &SymbolicShape, reason: String) -> DimError {
        DimError::ShapeMismatch {
            left: self.to_string(),
            right: other.to_string(),
            reason,
        }
    }
}

fn broadcast_dimensions(
    left: &SymbolicDimension,
    right: &SymbolicDimension,
) -> Option<SymbolicDimension> {
    let same = Extent::of(left) == Extent::of(right);
    if same || right.value() == Some(1) {
        return Some(left.clone());
    }
    if left.value() == Some(1) {
        return Some(right.clone());
    }
    match (left.allows(1), right.allows(1)) {
        (false, false) => left.clone().narrowed_by(right).ok(),
        // One side may be 1, so the other one decides.
        (false, true) => Some(left.clone()),
        (true, false) => Some(right.clone()),
        (true, true) => {
            let name = format!("bcast({left}, {right})");
            let bounds = left.bounds().hull(&right.bounds());
            SymbolicDimension::named(name)
                .with_constraints(bounds.min.unwrap_or(i64::MIN), bounds.max)
                .ok()
        }
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
    fn unification_says_what_it_needs() {
        let both = shape(&["B", "S", "8"])
            .unify(&shape(&["B", "4", "N"]))
            .unwrap();
        assert_eq!(both.shape.to_string(), "[B, 4, 8]");
        assert_eq!(both.constraints.to_string(), "S == 4, 8 == N");
        let error = shape(&["B", "3"]).unify(&shape(&["B", "4"])).unwrap_err();
        insta::assert_snapshot!(error, @"expected compatible shapes, found [B, 3] and [B, 4]: axis 1 is 3 on the left, 4 on the right");
        assert!(!shape(&["B"]).is_compatible_with(&shape(&["B", "1"])));
        assert!(shape(&["B"]).is_compatible_with(&shape(&["7"])));
        let even = SymbolicShape::vector(SymbolicDimension::named("E").multiple_of(2).unwrap());
        assert!(!even.is_compatible_with(&shape(&["7"])));
    }

    #[test]
    fn broadcasting_aligns_at_the_end() {
        let result =
            |a: &[&str], b: &[&str]| shape(a).broadcast(&shape(b)).map(|shape| shape.to_string());
        assert_eq!(result(&["B", "1", "4"], &["S", "1"]).unwrap(), "[B, S, 4]");
        assert_eq!(result(&["B"], &["B"]).unwrap(), "[B]");
        assert_eq!(result(&["B"], &["5"]).unwrap(), "[5]");
        assert_eq!(result(&["B"], &["S"]).unwrap(), "[bcast(B, S)]");
        assert_eq!(result(&[], &["S", "2"]).unwrap(), "[S, 2]");
        insta::assert_snapshot!(result(&["B", "3"], &["4"]).unwrap_err(), @"expected compatible shapes, found [B, 3] and [4]: axis 1 is 3 on the left, 4 on the right, and neither is 1");
    }
}
