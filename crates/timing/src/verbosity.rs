//! Verbosity: how much is timed and shown.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::TimingError;

/// How much is timed and shown; each level includes those before it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Verbosity {
    /// Nothing is timed; counters continue.
    Off = 0,
    /// Times per category.
    #[default]
    Default = 1,
    /// Times per event: one per kernel, and per step of a run.
    Verbose = 2,
    /// Each span individually, in order.
    Debug = 3,
}

impl Verbosity {
    /// All levels, from nothing to everything.
    pub const ALL: [Self; 4] = [Self::Off, Self::Default, Self::Verbose, Self::Debug];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Default => "default",
            Self::Verbose => "verbose",
            Self::Debug => "debug",
        }
    }

    /// The level with this number, as stored in an atomic.
    pub(crate) fn of_level(level: u8) -> Self {
        match level {
            0 => Self::Off,
            1 => Self::Default,
            2 => Self::Verbose,
            _ => Self::Debug,
        }
    }
}

impl fmt::Display for Verbosity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Verbosity {
    type Err = TimingError;

    fn from_str(text: &str) -> Result<Self, TimingError> {
        Self::ALL
            .into_iter()
            .find(|verbosity| verbosity.name() == text)
            .ok_or_else(|| TimingError::UnknownVerbosity {
                found: text.escape_debug().to_string(),
                expected: Self::ALL.map(Self::name).join(", "),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_names_and_numbers() {
        for verbosity in Verbosity::ALL {
            assert_eq!(
                verbosity.to_string().parse::<Verbosity>().unwrap(),
                verbosity
            );
            assert_eq!(Verbosity::of_level(verbosity as u8), verbosity);
        }
        let error = "loud".parse::<Verbosity>().unwrap_err();
        assert_eq!(error.code(), "E0754");
        insta::assert_snapshot!(error, @"expected a verbosity of off, default, verbose, debug, found `loud`");
    }
}
