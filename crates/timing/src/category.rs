//! Categories of events.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::TimingError;

/// The part of the work that an event belongs to, in the order of a model's pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// Import, passes, fusion, plan.
    Build,
    /// From kernels to the compiler's input: LLVM IR, source text.
    Codegen,
    /// From there to callable code: optimising, machine code, loading.
    Compile,
    /// Execution.
    Runtime,
}

impl Category {
    /// All categories, in order.
    pub const ALL: [Self; 4] = [Self::Build, Self::Codegen, Self::Compile, Self::Runtime];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Codegen => "codegen",
            Self::Compile => "compile",
            Self::Runtime => "runtime",
        }
    }

    /// Its contents, in a few words.
    pub fn description(self) -> &'static str {
        match self {
            Self::Build => "models into plans",
            Self::Codegen => "kernels into the compiler's form",
            Self::Compile => "machine code, ready to be called",
            Self::Runtime => "calls",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Category {
    type Err = TimingError;

    fn from_str(text: &str) -> Result<Self, TimingError> {
        Self::ALL
            .into_iter()
            .find(|category| category.name() == text)
            .ok_or_else(|| TimingError::UnknownCategory {
                found: text.escape_debug().to_string(),
                expected: Self::ALL.map(Self::name).join(", "),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_others_are_refused_with_the_list() {
        for category in Category::ALL {
            assert_eq!(category.to_string().parse::<Category>().unwrap(), category);
            assert!(!category.description().is_empty());
        }
        let error = "Link\n".parse::<Category>().unwrap_err();
        assert_eq!(error.code(), "E0750");
        insta::assert_snapshot!(error, @r"expected a category of build, codegen, compile, runtime, found `Link\n`");
    }
}
