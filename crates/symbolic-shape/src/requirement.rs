//! The requirements of an operator on concrete sizes, checked at each call.
//!
//! A requirement is kept as stated, expression by expression. It is dropped only if it follows from facts known *without*
//! it, never because a result would otherwise have no size: `bcast(D, 4)` is 4 wherever it has a value, but that does not
//! imply that `D` broadcasts with 4. A list of requirements is checked in order, so each may assume those before it.

use std::borrow::Cow;

use crate::binding::Binding;
use crate::error::EvaluateError;
use crate::fact::Predicate;
use crate::ids::DimId;
use crate::table::{DimImport, DimTable};
use crate::{DimError, Proof};

/// The relation that a requirement states between its lists of sizes `left` and `right`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequirementKind {
    /// Every size of `left` is defined.
    Value,
    /// Every size of `left` is at least 0.
    NonNegative,
    /// The sizes of `left` that are not 1 are equal.
    Broadcast,
    /// Each size of `left` is 1 or equals its counterpart in `right`.
    Expand,
    /// Each size of `left` equals its counterpart in `right`.
    Equal,
    /// The first size of `left` is the product of `right`.
    Product,
    /// Both lists have the same product.
    SameCount,
    /// Each size of `left` is at most its counterpart in `right`; nothing is required if a size of `left` is 0.
    Covers,
    /// Each size of `left` is at most its counterpart in `right`.
    Fits,
    /// As [`Fits`](Self::Fits), for an op that selects at most as many elements as exist.
    AtMost,
    /// `left` is the start and the size of a slice with this step, `right` the axis: all indices are inside.
    Slice {
        /// The step, which is not 0.
        step: i64,
    },
    /// No size of `left` is 0, unless one of `right` is.
    NotEmpty,
    /// As [`NotEmpty`](Self::NotEmpty), for a mean of integers.
    MeanOfSome,
    /// Every size of `left` is a multiple of the divisor.
    Divides {
        /// The divisor, which is positive.
        divisor: i64,
    },
}

impl RequirementKind {
    /// The kind as a word, and its number (0 if it has none).
    pub fn parts(self) -> (&'static str, i64) {
        match self {
            Self::Value => ("value", 0),
            Self::NonNegative => ("non_negative", 0),
            Self::Broadcast => ("broadcast", 0),
            Self::Expand => ("expand", 0),
            Self::Equal => ("equal", 0),
            Self::Product => ("product", 0),
            Self::SameCount => ("same_count", 0),
            Self::Covers => ("covers", 0),
            Self::Fits => ("fits", 0),
            Self::AtMost => ("at_most", 0),
            Self::Slice { step } => ("slice", step),
            Self::NotEmpty => ("not_empty", 0),
            Self::MeanOfSome => ("mean_of_some", 0),
            Self::Divides { divisor } => ("divides", divisor),
        }
    }

    /// The kind of a word and a number; `None` for an unknown word.
    pub fn from_parts(word: &str, number: i64) -> Option<Self> {
        Some(match word {
            "value" => Self::Value,
            "non_negative" => Self::NonNegative,
            "broadcast" => Self::Broadcast,
            "expand" => Self::Expand,
            "equal" => Self::Equal,
            "product" => Self::Product,
            "same_count" => Self::SameCount,
            "covers" => Self::Covers,
            "fits" => Self::Fits,
            "at_most" => Self::AtMost,
            "slice" if number != 0 => Self::Slice { step: number },
            "not_empty" => Self::NotEmpty,
            "mean_of_some" => Self::MeanOfSome,
            "divides" if number > 0 => Self::Divides { divisor: number },
            _ => return None,
        })
    }
}

/// A requirement of an operator on the sizes of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SizeRequirement {
    /// The relation.
    pub kind: RequirementKind,
    /// The meaning of the sizes, for messages: `inner axes`.
    pub what: Cow<'static, str>,
    /// The operator, for messages: `add (%3)`.
    pub origin: String,
    /// The operator's position in its region as the program was written: its index there, after those of control flow that
    /// has since been dissolved into the region. Lists are in this order.
    pub position: Vec<u32>,
    /// Sizes; their meaning depends on the kind.
    pub left: Vec<DimId>,
    /// More sizes.
    pub right: Vec<DimId>,
}

/// Why a requirement is violated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// The sizes, left and right, violate the relation.
    Sizes(Vec<i64>, Vec<i64>),
    /// A slice would start before its axis, at this index.
    NegativeStart(i64),
    /// A size is undefined.
    NoValue(EvaluateError),
}

/// Whether sizes satisfy a requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They satisfy it.
    Met,
    /// A symbol in it has no value yet.
    Unknown,
    /// They violate it.
    Unmet(Unmet),
}

impl DimTable {
    /// Whether these sizes satisfy a requirement.
    pub fn judge(&self, requirement: &SizeRequirement, binding: &Binding) -> Verdict {
        let left = self.evaluate_all(&requirement.left, binding);
        let values =
            left.and_then(|left| Ok((left, self.evaluate_all(&requirement.right, binding)?)));
        let unmet = match values {
            Ok((left, right)) => unmet(requirement.kind, left, right),
            Err(EvaluateError::Unbound { .. }) => return Verdict::Unknown,
            Err(error) => Some(Unmet::NoValue(error)),
        };
        unmet.map_or(Verdict::Met, Verdict::Unmet)
    }

    /// Whether a requirement holds for all sizes that the facts allow and for which it is defined.
    pub fn always_meets(&self, requirement: &SizeRequirement) -> bool {
        let (left, right) = (&requirement.left, &requirement.right);
        let at_least = |dim: &DimId, least: i64| self.range(*dim).at_least(least);
        let equal = |a: DimId, b: DimId| self.equal(a, b).is_proved();
        let at_most =
            |a: DimId, b: DimId| a == b || self.prove(&Predicate::LessEqual(a, b)).is_proved();
        let mut pairs = left.iter().copied().zip(right.iter().copied());
        let is_one = |dim: DimId| self.range(dim).as_point() == Some(1);
        match requirement.kind {
            RequirementKind::Value => left
                .iter()
                .all(|&dim| self.as_constant(dim).is_some() || self.as_symbol(dim).is_some()),
            RequirementKind::NonNegative => left.iter().all(|dim| at_least(dim, 0)),
            RequirementKind::Broadcast => {
                let mut others = left.iter().copied().filter(|&dim| !is_one(dim));
                others
                    .next()
                    .is_none_or(|first| others.all(|dim| equal(first, dim)))
            }
            RequirementKind::Expand => pairs.all(|(from, to)| is_one(from) || equal(from, to)),
            RequirementKind::Equal => pairs.all(|(a, b)| equal(a, b)),
            RequirementKind::Product | RequirementKind::SameCount => {
                self.prove(&Predicate::ProductEqual(left.clone(), right.clone())) == Proof::Proved
            }
            RequirementKind::Covers | RequirementKind::Fits | RequirementKind::AtMost => {
                pairs.all(|(a, b)| at_most(a, b))
            }
            RequirementKind::Slice { step } => match (left.as_slice(), right.as_slice()) {
                ([start, size], [axis]) => {
                    step == 1 && self.as_constant(*start) == Some(0) && at_most(*size, *axis)
                        || [start, size, axis]
                            .iter()
                            .all(|dim| self.as_constant(**dim).is_some())
                            && self.judge(requirement, &Binding::new()) == Verdict::Met
                }
                _ => false,
            },
            RequirementKind::NotEmpty | RequirementKind::MeanOfSome => {
                left.iter().all(|dim| at_least(dim, 1))
            }
            RequirementKind::Divides { divisor } => left
                .iter()
                .all(|&dim| self.prove(&Predicate::Divides { divisor, dim }) == Proof::Proved),
        }
    }

    /// A requirement of another table, imported into this one. Symbols that the caller did not map become new ones.
    ///
    /// # Errors
    /// A size that cannot be expressed here.
    pub fn import_requirement(
        &mut self,
        from: &DimTable,
        requirement: &SizeRequirement,
        import: &mut DimImport,
    ) -> Result<SizeRequirement, DimError> {
        let mut all = |dims: &[DimId]| {
            let dims = dims.iter().map(|&dim| self.import(from, dim, import));
            dims.collect::<Result<Vec<_>, _>>()
        };
        Ok(SizeRequirement {
            left: all(&requirement.left)?,
            right: all(&requirement.right)?,
            ..requirement.clone()
        })
    }
}

fn unmet(kind: RequirementKind, left: Vec<i64>, right: Vec<i64>) -> Option<Unmet> {
    let has_zero = |sizes: &[i64]| sizes.contains(&0);
    let mut pairs = left.iter().zip(&right);
    let is_met = match kind {
        RequirementKind::Value => true,
        RequirementKind::NonNegative => left.iter().all(|&size| size >= 0),
        RequirementKind::Broadcast => {
            let mut others = left.iter().filter(|&&size| size != 1);
            others
                .next()
                .is_none_or(|first| others.all(|size| size == first))
        }
        RequirementKind::Expand => pairs.all(|(&from, to)| from == 1 || from == *to),
        RequirementKind::Equal => pairs.all(|(a, b)| a == b),
        RequirementKind::Product | RequirementKind::SameCount => product(&left) == product(&right),
        RequirementKind::Covers => has_zero(&left) || pairs.all(|(a, b)| a <= b),
        RequirementKind::Fits | RequirementKind::AtMost => pairs.all(|(a, b)| a <= b),
        RequirementKind::NotEmpty | RequirementKind::MeanOfSome => {
            !has_zero(&left) || has_zero(&right)
        }
        RequirementKind::Divides { divisor } => {
            left.iter().all(|size| size.checked_rem(divisor) == Some(0))
        }
        RequirementKind::Slice { step } => {
            let (&[start, size], &[axis]) = (left.as_slice(), right.as_slice()) else {
                return None;
            };
            if size > 0 && start < 0 {
                return Some(Unmet::NegativeStart(start));
            }
            let last = i128::from(start) + (i128::from(size) - 1) * i128::from(step);
            size <= 0 || start < axis && (0..i128::from(axis)).contains(&last)
        }
    };
    (!is_met).then_some(Unmet::Sizes(left, right))
}

/// The product of sizes; `None` beyond 128 bits, which no tensor has.
fn product(sizes: &[i64]) -> Option<i128> {
    if sizes.contains(&0) {
        return Some(0);
    }
    let mut factors = sizes.iter();
    factors.try_fold(1_i128, |product, &size| product.checked_mul(size.into()))
}
