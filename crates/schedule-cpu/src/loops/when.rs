//! Conditions on the sizes of a launch: disjunctions of conjunctions of comparisons between products of sizes.

use kiln_backend::Quantity;
use kiln_kernel::{AxisId, VerifiedKernel};

use crate::strides::bound;
use crate::work;

/// A condition: the sizes at which all comparisons of one of the lists hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct When(pub(super) Vec<Vec<Comparison>>);

/// A comparison of two sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The left side.
    pub left: Size,
    /// Whether the left side must be at least the right one, rather than below it.
    pub at_least: bool,
    /// The right side.
    pub right: Size,
}

/// A product of sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// The constant factor.
    pub constant: i64,
    /// The other factors.
    pub factors: Vec<Factor>,
}

/// A size of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// An upper bound on the points of an axis.
    Axis(AxisId),
    /// Bytes of the cache of a level from 1 to 3 that one core can rely on.
    Cache(u8),
    /// Bytes of all results.
    Results,
    /// Scalar operations per outer point.
    Work,
}

impl When {
    /// At all sizes.
    pub fn always() -> Self {
        Self(vec![Vec::new()])
    }

    /// At no size.
    pub fn never() -> Self {
        Self(Vec::new())
    }

    /// Sizes of at least another.
    pub fn at_least(left: impl Into<Size>, right: impl Into<Size>) -> Self {
        Self::of(left.into(), true, right.into())
    }

    /// Sizes below another.
    pub fn below(left: impl Into<Size>, right: impl Into<Size>) -> Self {
        Self::of(left.into(), false, right.into())
    }

    fn of(left: Size, at_least: bool, right: Size) -> Self {
        Self(vec![vec![Comparison {
            left,
            at_least,
            right,
        }]])
    }

    /// The conjunction.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let mut all = Vec::new();
        for left in &self.0 {
            for right in &other.0 {
                all.push(left.iter().chain(right).cloned().collect());
            }
        }
        Self(all)
    }

    /// The disjunction.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Whether it holds at all sizes.
    pub fn is_always(&self) -> bool {
        self.0.iter().any(Vec::is_empty)
    }

    /// Whether it holds at no size.
    pub fn is_never(&self) -> bool {
        self.0.is_empty()
    }

    /// The same without comparisons of constants.
    #[must_use]
    pub(crate) fn simplified(self, kernel: &VerifiedKernel) -> Self {
        let known = |comparison: &Comparison| comparison.quantity(kernel).as_constant();
        let mut lists = Vec::new();
        for mut list in self.0 {
            if list.iter().any(|comparison| known(comparison) == Some(0)) {
                continue;
            }
            list.retain(|comparison| known(comparison) != Some(1));
            if list.is_empty() {
                return Self::always();
            }
            lists.push(list);
        }
        Self(lists)
    }

    /// 1 if it holds, else 0.
    pub fn quantity(&self, kernel: &VerifiedKernel) -> Quantity {
        let one = || Quantity::constant(1);
        let all = |list: &Vec<Comparison>| {
            let holds = list.iter().map(|comparison| comparison.quantity(kernel));
            holds.fold(one(), |product, holds| product * holds)
        };
        if let [list] = self.0.as_slice() {
            return all(list);
        }
        let none = self
            .0
            .iter()
            .fold(one(), |none, list| none * (one() - all(list)));
        one() - none
    }
}

impl Comparison {
    /// 1 if it holds, else 0.
    fn quantity(&self, kernel: &VerifiedKernel) -> Quantity {
        let (zero, one) = (Quantity::constant(0), Quantity::constant(1));
        let (left, right) = (self.left.quantity(kernel), self.right.quantity(kernel));
        let at_least = match right.as_constant() {
            Some(limit) if limit > 0 => left.floor_div(right).min(one.clone()),
            _ => (left - right + one.clone()).max(zero).min(one.clone()),
        };
        match self.at_least {
            true => at_least,
            false => one - at_least,
        }
    }
}

impl Size {
    /// A product of a constant and some sizes.
    pub fn product(constant: i64, factors: impl IntoIterator<Item = Factor>) -> Self {
        Self {
            constant,
            factors: factors.into_iter().collect(),
        }
    }

    fn quantity(&self, kernel: &VerifiedKernel) -> Quantity {
        let factors = self.factors.iter().map(|factor| factor.quantity(kernel));
        factors.fold(Quantity::constant(self.constant), |product, factor| {
            product * factor
        })
    }
}

impl Factor {
    fn quantity(self, kernel: &VerifiedKernel) -> Quantity {
        match self {
            Self::Axis(axis) => bound(kernel, axis),
            Self::Cache(level) => Quantity::cache(level),
            Self::Results => work::bytes_of_results(kernel),
            Self::Work => work::per_point(kernel),
        }
    }
}

impl From<u32> for Size {
    fn from(constant: u32) -> Self {
        Self::product(i64::from(constant), [])
    }
}

impl From<Factor> for Size {
    fn from(factor: Factor) -> Self {
        Self::product(1, [factor])
    }
}

impl From<AxisId> for Size {
    fn from(axis: AxisId) -> Self {
        Factor::Axis(axis).into()
    }
}
