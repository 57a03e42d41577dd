//! What executes a model, by name.
//!
//! Not here: the executors themselves. A name that this build lacks is an error that lists those it
//! has.

use crate::error::{Error, Failure};
use std::fmt;
use std::str::FromStr;

/// What executes a model.
///
/// ```
/// use kiln::Backend;
///
/// assert_eq!("interpreter".parse::<Backend>()?, Backend::Interpreter);
/// assert_eq!(Backend::default().to_string(), "interpreter");
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// The reference interpreter: one op after the other, on one thread. Slow, and the definition
    /// of what every op means.
    #[default]
    Interpreter,
}

impl Backend {
    /// The backends that this build has.
    pub const AVAILABLE: &[Backend] = &[Backend::Interpreter];

    /// The name, as the command line takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interpreter => "interpreter",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Backend {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::AVAILABLE
            .iter()
            .copied()
            .find(|backend| backend.name() == name);
        found.ok_or_else(|| {
            Failure::UnknownBackend {
                name: name.escape_debug().to_string(),
            }
            .into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_backend_is_told_which_exist() {
        let error = "cuda".parse::<Backend>().unwrap_err();
        assert_eq!(error.code(), "E0974");
        assert_eq!(
            error.to_string(),
            "unknown backend `cuda`, expected one of: interpreter"
        );
    }
}
