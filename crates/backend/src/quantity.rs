//! Size-dependent numbers of a launch, as data.
//!
//! A quantity is a postfix program over `i64`, evaluated with checks. Backends build quantities when they compile; the
//! runtime evaluates them when it builds a launch plan. Constant parts are folded during construction. Intermediate
//! results have 128 bits, so only a final value that does not fit is an overflow.

mod convert;
mod display;
mod shared;

#[cfg(test)]
mod tests;

pub use shared::Quantities;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// One step of a [`Quantity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Step {
    Constant(i64),
    /// A symbol of the kernel, by position.
    Symbol(u32),
    Threads,
    /// Bytes of the cache of a level, 1 to 3, available to one core.
    Cache(u8),
    Add,
    Sub,
    Mul,
    FloorDiv,
    Mod,
    Min,
    Max,
    /// The operand that is not 1; operands that are not 1 are equal.
    Bcast,
    /// Pops the top value and stores it as the next shared value.
    Keep,
    /// A shared value, by its number.
    Kept(u32),
}

/// An expression over a kernel's symbols, the number of threads and the sizes of caches.
///
/// Operations combine two quantities into one. `/` and `%` round down, and their divisors must be positive.
///
/// ```
/// use kiln_backend::{LaunchContext, Quantity};
///
/// let rows = Quantity::symbol(0);
/// let tasks = rows.ceil_div(Quantity::constant(16)).min(Quantity::threads() * Quantity::constant(4));
/// assert_eq!(tasks.to_string(), "min((n0 + 15) / 16, threads * 4)");
/// let context = LaunchContext { symbols: &[100], threads: 2, caches: [0; 3] };
/// assert_eq!(tasks.evaluate(&context), Ok(7));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Quantity(Vec<Step>);

/// The variables of a [`Quantity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchContext<'a> {
    /// The values of the kernel's symbols, in the order of its table.
    pub symbols: &'a [i64],
    /// The number of participating threads. Used only for distributing independent points, never for splitting a reduction.
    pub threads: usize,
    /// Bytes of the caches of level 1 to 3 available to one core.
    pub caches: [usize; 3],
}

/// Why a quantity has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// E0224: the value does not fit in 64 bits, or an intermediate one in 128.
    #[error("a number of the launch does not fit 64 bits")]
    Overflow,
    /// E0225: a divisor that is not positive.
    #[error("expected a positive divisor in a number of the launch, found {0}")]
    Divisor(i64),
    /// E0226: a symbol without a value, or a damaged program.
    #[error("a number of the launch is damaged")]
    Malformed,
    /// E0227: two sizes that do not broadcast.
    #[error("expected equal sizes or a 1 in a number of the launch, found {0} and {1}")]
    Broadcast(i64, i64),
}

impl QuantityError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Overflow => "E0224",
            Self::Divisor(_) => "E0225",
            Self::Malformed => "E0226",
            Self::Broadcast(..) => "E0227",
        }
    }
}

impl Quantity {
    /// A constant.
    pub fn constant(value: i64) -> Self {
        Self(vec![Step::Constant(value)])
    }

    /// The number of threads.
    pub fn threads() -> Self {
        Self(vec![Step::Threads])
    }

    /// Bytes of the cache of a level from 1 to 3 available to one core.
    pub fn cache(level: u8) -> Self {
        Self(vec![Step::Cache(level)])
    }

    /// The symbol of a kernel at a position of its table.
    pub fn symbol(position: u32) -> Self {
        Self(vec![Step::Symbol(position)])
    }

    /// `self / divisor`, rounded down.
    #[must_use]
    pub fn floor_div(self, divisor: Self) -> Self {
        match divisor.as_constant() {
            Some(1) => self,
            _ => self.join(divisor, Step::FloorDiv),
        }
    }

    /// `self / divisor`, rounded up.
    #[must_use]
    pub fn ceil_div(self, divisor: Self) -> Self {
        let last = divisor.clone() - Self::constant(1);
        (self + last).floor_div(divisor)
    }

    /// The remainder of [`floor_div`](Self::floor_div).
    #[must_use]
    pub fn modulo(self, divisor: Self) -> Self {
        self.join(divisor, Step::Mod)
    }

    /// The minimum.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        if self == other {
            self
        } else {
            self.join(other, Step::Min)
        }
    }

    /// The maximum.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        if self == other {
            self
        } else {
            self.join(other, Step::Max)
        }
    }

    /// `self` rounded up to a multiple of `unit`.
    #[must_use]
    pub fn round_up(self, unit: Self) -> Self {
        self.ceil_div(unit.clone()) * unit
    }

    /// The value, if it is constant.
    pub fn as_constant(&self) -> Option<i64> {
        match self.0.as_slice() {
            [Step::Constant(value)] => Some(*value),
            _ => None,
        }
    }

    /// The value for a launch.
    ///
    /// # Errors
    /// If a value does not fit, a divisor is not positive, sizes do not broadcast, or the program is damaged.
    pub fn evaluate(&self, context: &LaunchContext<'_>) -> Result<i64, QuantityError> {
        match self.evaluate_narrow(context) {
            Some(value) => Ok(value),
            None => self.evaluate_wide(context),
        }
    }

    /// The value if every intermediate result fits in 64 bits and there is no error, which is nearly always so, and
    /// several times as fast.
    fn evaluate_narrow(&self, context: &LaunchContext<'_>) -> Option<i64> {
        if let [step] = self.0.as_slice() {
            return step.leaf(context);
        }
        let mut stack: SmallVec<[i64; 16]> = SmallVec::new();
        let mut kept: SmallVec<[i64; 4]> = SmallVec::new();
        for &step in &self.0 {
            let value = match step {
                Step::Keep => {
                    kept.push(stack.pop()?);
                    continue;
                }
                Step::Kept(number) => *kept.get(number as usize)?,
                Step::Constant(_) | Step::Symbol(_) | Step::Threads | Step::Cache(_) => {
                    step.leaf(context)?
                }
                operation => {
                    let (right, left) = (stack.pop()?, stack.pop()?);
                    operation.apply_narrow(left, right)?
                }
            };
            stack.push(value);
        }
        match stack.as_slice() {
            &[value] => Some(value),
            _ => None,
        }
    }

    /// As documented at [`evaluate`](Self::evaluate).
    fn evaluate_wide(&self, context: &LaunchContext<'_>) -> Result<i64, QuantityError> {
        let mut stack: SmallVec<[i128; 16]> = SmallVec::new();
        let mut kept: SmallVec<[i128; 4]> = SmallVec::new();
        for &step in &self.0 {
            let value = match step {
                Step::Constant(value) => value.into(),
                Step::Symbol(position) => context
                    .symbols
                    .get(position as usize)
                    .copied()
                    .ok_or(QuantityError::Malformed)?
                    .into(),
                Step::Threads => wide(context.threads)?,
                Step::Cache(level) => {
                    let place = usize::from(level).wrapping_sub(1);
                    wide(*context.caches.get(place).ok_or(QuantityError::Malformed)?)?
                }
                Step::Keep => {
                    kept.push(stack.pop().ok_or(QuantityError::Malformed)?);
                    continue;
                }
                Step::Kept(number) => *kept.get(number as usize).ok_or(QuantityError::Malformed)?,
                operation => {
                    let (Some(right), Some(left)) = (stack.pop(), stack.pop()) else {
                        return Err(QuantityError::Malformed);
                    };
                    apply(operation, left, right)?
                }
            };
            stack.push(value);
        }
        match stack.as_slice() {
            &[value] => narrow(value),
            _ => Err(QuantityError::Malformed),
        }
    }

    /// Both programs, then one operation; folded if both are constant.
    fn join(mut self, other: Self, operation: Step) -> Self {
        if let (Some(left), Some(right)) = (self.as_constant(), other.as_constant())
            && let Ok(value) = apply(operation, left.into(), right.into()).and_then(narrow)
        {
            return Self::constant(value);
        }
        let n_kept = self.0.iter().filter(|step| **step == Step::Keep).count() as u32;
        self.0.extend(other.0.into_iter().map(|step| match step {
            Step::Kept(number) => Step::Kept(number.saturating_add(n_kept)),
            step => step,
        }));
        self.0.push(operation);
        self
    }
}

impl Step {
    /// The value of an operation without operands, if it has one.
    fn leaf(self, context: &LaunchContext<'_>) -> Option<i64> {
        match self {
            Self::Constant(value) => Some(value),
            Self::Symbol(position) => context.symbols.get(position as usize).copied(),
            Self::Threads => i64::try_from(context.threads).ok(),
            Self::Cache(level) => {
                let place = usize::from(level).checked_sub(1)?;
                i64::try_from(*context.caches.get(place)?).ok()
            }
            _ => None,
        }
    }

    /// An operation on two values, if 64 bits are enough and there is no error.
    fn apply_narrow(self, left: i64, right: i64) -> Option<i64> {
        match self {
            Self::Add => left.checked_add(right),
            Self::Sub => left.checked_sub(right),
            Self::Mul => left.checked_mul(right),
            Self::FloorDiv if right > 0 => Some(left.div_euclid(right)),
            Self::Mod if right > 0 => Some(left.rem_euclid(right)),
            Self::Min => Some(left.min(right)),
            Self::Max => Some(left.max(right)),
            Self::Bcast if left == 1 || left == right => Some(right),
            Self::Bcast if right == 1 => Some(left),
            _ => None,
        }
    }
}

impl std::ops::Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        match (self.as_constant(), other.as_constant()) {
            (Some(0), _) => other,
            (_, Some(0)) => self,
            _ => self.join(other, Step::Add),
        }
    }
}

impl std::ops::Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        match other.as_constant() {
            Some(0) => self,
            _ => self.join(other, Step::Sub),
        }
    }
}

impl std::ops::Mul for Quantity {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        match (self.as_constant(), other.as_constant()) {
            (Some(0), _) | (_, Some(0)) => Self::constant(0),
            (Some(1), _) => other,
            (_, Some(1)) => self,
            _ => self.join(other, Step::Mul),
        }
    }
}

impl From<i64> for Quantity {
    fn from(value: i64) -> Self {
        Self::constant(value)
    }
}

fn wide(value: usize) -> Result<i128, QuantityError> {
    i128::try_from(value).map_err(|_| QuantityError::Overflow)
}

fn narrow(value: i128) -> Result<i64, QuantityError> {
    i64::try_from(value).map_err(|_| QuantityError::Overflow)
}

/// A number for a message: the nearest 64-bit value.
fn shown(value: i128) -> i64 {
    narrow(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

fn apply(operation: Step, left: i128, right: i128) -> Result<i128, QuantityError> {
    let divisor = || {
        if right > 0 {
            Ok(right)
        } else {
            Err(QuantityError::Divisor(shown(right)))
        }
    };
    let value = match operation {
        Step::Add => left.checked_add(right),
        Step::Sub => left.checked_sub(right),
        Step::Mul => left.checked_mul(right),
        Step::FloorDiv => Some(left.div_euclid(divisor()?)),
        Step::Mod => Some(left.rem_euclid(divisor()?)),
        Step::Min => Some(left.min(right)),
        Step::Max => Some(left.max(right)),
        Step::Bcast if left == 1 || left == right => Some(right),
        Step::Bcast if right == 1 => Some(left),
        Step::Bcast => return Err(QuantityError::Broadcast(shown(left), shown(right))),
        _ => return Err(QuantityError::Malformed),
    };
    value.ok_or(QuantityError::Overflow)
}
