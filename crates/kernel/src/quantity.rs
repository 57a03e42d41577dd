//! Numbers of a launch that depend on sizes, threads and caches, as data.
//!
//! A postfix program over `i64`, evaluated with checks. Backends make them when they compile; the runtime
//! evaluates them when it makes a launch plan.

use kiln_symbolic_shape::{DimId, DimTable};
use serde::{Deserialize, Serialize};

/// One step of a [`Quantity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Step {
    Constant(i64),
    /// A symbol of the kernel, by position.
    Symbol(u32),
    Threads,
    /// Bytes of the cache of a level, 1 to 3, that one core can count on.
    Cache(u8),
    Add,
    Sub,
    Mul,
    FloorDiv,
    Mod,
    Min,
    Max,
}

/// An expression over a kernel's symbols, the number of threads and the sizes of caches.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Quantity(Vec<Step>);

/// What a [`Quantity`] may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchContext<'a> {
    /// The values of the kernel's symbols, in the order of its table.
    pub symbols: &'a [i64],
    /// How many threads take part. Only for how independent points are shared out, never for how a reduction is split.
    pub threads: usize,
    /// Bytes of the caches of level 1 to 3 that one core can count on.
    pub caches: [usize; 3],
}

/// Why a quantity has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// The value, or one on the way, does not fit 64 bits.
    #[error("a number of the launch does not fit 64 bits")]
    Overflow,
    /// A division by zero or less.
    #[error("expected a positive divisor in a number of the launch, found {0}")]
    Divisor(i64),
    /// A symbol that was not given, or a program that is damaged.
    #[error("a number of the launch is damaged")]
    Malformed,
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

    /// Bytes of the cache of a level from 1 to 3 that one core can count on.
    pub fn cache(level: u8) -> Self {
        Self(vec![Step::Cache(level)])
    }

    /// The symbol of a kernel at a position of its table.
    pub fn symbol(position: u32) -> Self {
        Self(vec![Step::Symbol(position)])
    }
    // of(table, dim), add, sub, mul, floor_div, ceil_div, modulo, min, max, as_constant, evaluate
}
