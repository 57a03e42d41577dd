//! Targets and schedules: what a kernel is compiled for, and how its loops are arranged, as backend-specific names and
//! numbers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The target of a compilation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Target {
    /// The backend: `llvm`, `cuda`.
    pub backend: String,
    /// The instruction set, as the backend's name for a list of features: `avx2+fma`.
    pub level: String,
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.backend, self.level)
    }
}

/// How a backend arranges a kernel's loops: a name for human readers, and the text from which code is generated.
///
/// Prints as its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Schedule {
    /// The backend's name for it.
    pub name: String,
    /// The loops, in the backend's form; empty for the fallback, which the backend knows.
    pub text: String,
}

/// The schedule that compiles any verified kernel: plain loops.
pub const FALLBACK_SCHEDULE: &str = "fallback";

impl Schedule {
    /// A schedule without a text.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: String::new(),
        }
    }

    /// The same with a text.
    #[must_use]
    pub fn with_text(self, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..self
        }
    }

    /// Whether it is the fallback schedule.
    pub fn is_fallback(&self) -> bool {
        self.name == FALLBACK_SCHEDULE
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.name)
    }
}
