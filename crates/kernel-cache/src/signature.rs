//! What a kernel was compiled for, by shapes: [`ShapeSignature`]; and which signatures serve which shapes.

use std::fmt;

use kiln_symbolic_shape::SymbolicDimension;

use crate::key::{CacheKey, EntryKind, KeyDigest};

/// An operation and the shapes of its inputs. Its hash is computed once, and is the same in every process.
#[derive(Clone, PartialEq, Eq)]
pub struct ShapeSignature {
    operation: String,
    inputs: Vec<Vec<DimPattern>>,
    hash: KeyDigest,
}

/// Which sizes a dimension may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DimPattern {
    /// This one.
    Exact(i64),
    /// Multiples of this.
    Multiple(i64),
    /// All.
    Any,
}

impl ShapeSignature {
    /// The signature of an operation with inputs of these shapes.
    pub fn new(operation: impl Into<String>, inputs: Vec<Vec<DimPattern>>) -> Self {
        let operation = operation.into();
        let hash = CacheKey::of_fields(
            EntryKind::KERNEL,
            [
                ("operation", operation.clone()),
                ("shapes", shapes(&inputs)),
            ],
        )
        .digest();
        Self {
            operation,
            inputs,
            hash,
        }
    }

    /// The same with sizes that are all known.
    pub fn concrete(operation: impl Into<String>, inputs: &[&[i64]]) -> Self {
        let patterns = |sizes: &&[i64]| sizes.iter().copied().map(DimPattern::Exact).collect();
        Self::new(operation, inputs.iter().map(patterns).collect())
    }

    /// The operation.
    pub fn operation(&self) -> &str {
        &self.operation
    }

    /// The shapes of the inputs.
    pub fn inputs(&self) -> &[Vec<DimPattern>] {
        &self.inputs
    }

    /// The stable hash.
    pub fn hash(&self) -> KeyDigest {
        self.hash
    }

    /// Whether every size is known.
    pub fn is_concrete(&self) -> bool {
        let mut dims = self.inputs.iter().flatten();
        dims.all(|dim| matches!(dim, DimPattern::Exact(_)))
    }

    /// Whether a kernel for this signature is right for all that `other` stands for.
    pub fn covers(&self, other: &Self) -> bool {
        let shapes = || self.inputs.iter().zip(&other.inputs);
        self.operation == other.operation
            && self.inputs.len() == other.inputs.len()
            && shapes().all(|(ours, theirs)| {
                ours.len() == theirs.len()
                    && ours
                        .iter()
                        .zip(theirs)
                        .all(|(ours, theirs)| ours.covers(*theirs))
            })
    }

    /// The key of a kernel that is stored under this signature alone.
    pub fn key(&self) -> CacheKey {
        let fields = [
            ("operation", self.operation.clone()),
            ("shapes", shapes(&self.inputs)),
        ];
        CacheKey::new(EntryKind::KERNEL, self.hash, fields)
    }

    /// How much it asks for: exact dimensions, then multiples. Of signatures that cover the same, the greatest fits best.
    pub(crate) fn specificity(&self) -> (usize, usize, i64) {
        let dims = || self.inputs.iter().flatten();
        let multiples = dims().filter_map(|dim| match dim {
            DimPattern::Multiple(divisor) => Some(*divisor),
            _ => None,
        });
        let exact = dims().filter(|dim| matches!(dim, DimPattern::Exact(_)));
        let sum = multiples.clone().fold(0, i64::saturating_add);
        (exact.count(), multiples.count(), sum)
    }
}

impl DimPattern {
    /// Whether a size is among them.
    pub fn matches(self, size: i64) -> bool {
        self.covers(Self::Exact(size))
    }

    /// Whether every size of `other` is among them.
    pub fn covers(self, other: Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Multiple(1 | -1), _) => true,
            (Self::Exact(ours), Self::Exact(theirs)) => ours == theirs,
            (Self::Multiple(divisor), Self::Exact(size))
            | (Self::Multiple(divisor), Self::Multiple(size)) => size
                .checked_rem(divisor)
                .map_or(size == 0, |rest| rest == 0),
            (Self::Exact(0), Self::Multiple(0)) => true,
            (Self::Exact(_) | Self::Multiple(_), _) => false,
        }
    }

    /// The pattern with exactly the sizes of a symbolic dimension; none if it has bounds, which no pattern can say.
    pub fn of(dimension: &SymbolicDimension) -> Option<Self> {
        if let Some(size) = dimension.value() {
            return Some(Self::Exact(size));
        }
        if dimension.min() > 0 || dimension.is_bounded() {
            return None;
        }
        Some(match dimension.multiple() {
            1 => Self::Any,
            divisor => Self::Multiple(divisor),
        })
    }
}

impl fmt::Display for DimPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(size) => write!(formatter, "{size}"),
            Self::Multiple(divisor) => write!(formatter, "{divisor}*?"),
            Self::Any => formatter.write_str("?"),
        }
    }
}

impl fmt::Display for ShapeSignature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.operation, shapes(&self.inputs))
    }
}

impl fmt::Debug for ShapeSignature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ShapeSignature({self})")
    }
}

impl std::hash::Hash for ShapeSignature {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

/// `([8, ?], [?, 4*?])`.
fn shapes(inputs: &[Vec<DimPattern>]) -> String {
    let shape = |dims: &Vec<DimPattern>| {
        let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
        format!("[{}]", dims.join(", "))
    };
    let shapes: Vec<String> = inputs.iter().map(shape).collect();
    format!("({})", shapes.join(", "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn signatures_print_and_hash_by_operation_and_shapes() {
        let dims = vec![
            vec![DimPattern::Exact(8), DimPattern::Any],
            vec![DimPattern::Multiple(4)],
        ];
        let signature = ShapeSignature::new("matmul", dims.clone());
        insta::assert_snapshot!(signature, @"matmul([8, ?], [4*?])");
        insta::assert_snapshot!(signature.hash(), @"b96fd00167bce1bf4ac3ee288b31fa30055e8d5a2215723d73bcabdb261129b7");
        assert_eq!(signature.key().digest(), signature.hash());
        assert_eq!(signature, ShapeSignature::new("matmul", dims.clone()));
        assert_ne!(signature.hash(), ShapeSignature::new("add", dims).hash());
        assert_eq!(signature.operation(), "matmul");
        assert_eq!(signature.inputs().len(), 2);
        assert!(!signature.is_concrete());
        assert!(ShapeSignature::concrete("add", &[&[2, 3], &[]]).is_concrete());
    }

    #[test]
    fn patterns_of_symbolic_dimensions_say_exactly_their_sizes() {
        let dim = || SymbolicDimension::named("N");
        assert_eq!(DimPattern::of(&dim()), Some(DimPattern::Any));
        let eights = dim().multiple_of(8).expect("8 is positive");
        assert_eq!(DimPattern::of(&eights), Some(DimPattern::Multiple(8)));
        let known = SymbolicDimension::known(5);
        assert_eq!(DimPattern::of(&known), Some(DimPattern::Exact(5)));
        let bounded = SymbolicDimension::bounded("N", 9).expect("9 is a size");
        assert_eq!(DimPattern::of(&bounded), None);
    }

    fn pattern() -> impl Strategy<Value = DimPattern> {
        prop_oneof![
            (0..20_i64).prop_map(DimPattern::Exact),
            (0..7_i64).prop_map(DimPattern::Multiple),
            Just(DimPattern::Any),
        ]
    }

    proptest! {
        #[test]
        fn covering_is_inclusion_of_sizes(left in pattern(), right in pattern()) {
            let sizes: Vec<i64> = (0..500).filter(|size| right.matches(*size)).collect();
            prop_assert_eq!(left.covers(right), sizes.iter().all(|size| left.matches(*size)));
        }
    }
}
