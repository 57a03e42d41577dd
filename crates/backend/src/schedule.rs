//! What a kernel is compiled for, and how its loops are arranged: names and numbers of a backend.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What to compile for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Target {
    /// The backend: `llvm`, `cuda`.
    pub backend: String,
    /// The instruction set, by a name of the backend that stands for a list of features: `avx2+fma`.
    pub level: String,
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.backend, self.level)
    }
}

/// How a backend arranges a kernel's loops: a name and numbers. Prints as `contraction(columns=2, rows=14)`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Schedule {
    /// The backend's name for it.
    pub name: String,
    /// Its numbers.
    pub parameters: BTreeMap<String, i64>,
}

/// The schedule that compiles any verified kernel: plain loops.
pub const FALLBACK_SCHEDULE: &str = "fallback";

impl Schedule {
    /// A schedule without numbers.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            parameters: BTreeMap::new(),
        }
    }

    /// The same with one more number.
    #[must_use]
    pub fn with(mut self, parameter: impl Into<String>, value: i64) -> Self {
        self.parameters.insert(parameter.into(), value);
        self
    }

    /// A number.
    pub fn get(&self, parameter: &str) -> Option<i64> {
        self.parameters.get(parameter).copied()
    }

    /// Whether it is the one that compiles anything.
    pub fn is_fallback(&self) -> bool {
        self.name == FALLBACK_SCHEDULE
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)?;
        for (position, (name, value)) in self.parameters.iter().enumerate() {
            let open = if position == 0 { "(" } else { ", " };
            write!(formatter, "{open}{name}={value}")?;
        }
        if self.parameters.is_empty() {
            Ok(())
        } else {
            formatter.write_str(")")
        }
    }
}
