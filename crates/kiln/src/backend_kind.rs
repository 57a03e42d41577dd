//! What executes a model, by name.
//!
//! Not here: the executors themselves. A name that this build lacks is an error that lists those it
//! has.

use crate::error::{Error, Failure};
use std::fmt;
use std::str::FromStr;

/// What executes a model.
///
/// The default of a release build is native code, where this build has a compiler; a debug build
/// interprets, so that a program under development starts at once and every op can be followed.
///
/// ```
/// use kiln::Backend;
///
/// assert_eq!("interpreter".parse::<Backend>()?, Backend::Interpreter);
/// assert!(Backend::AVAILABLE.contains(&Backend::default()));
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// The reference interpreter: one op after the other, on one thread. Slow, and the definition
    /// of what every op means.
    Interpreter,
    /// Native code for this machine's CPU, compiled by LLVM when a call first needs it. Part of
    /// builds with the feature `native`; one without the feature `llvm` compiles nothing, and runs what
    /// [`Options::cache`](crate::Options::cache) or a bundle has: what they lack is a compile that fails (E0517).
    Llvm,
}

impl Backend {
    /// The backends that this build has.
    #[cfg(feature = "native")]
    pub const AVAILABLE: &[Backend] = &[Backend::Interpreter, Backend::Llvm];
    /// The backends that this build has.
    #[cfg(not(feature = "native"))]
    pub const AVAILABLE: &[Backend] = &[Backend::Interpreter];

    /// The name, as the command line takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interpreter => "interpreter",
            Self::Llvm => "llvm",
        }
    }

    /// Whether this build has it.
    pub fn is_available(self) -> bool {
        Self::AVAILABLE.contains(&self)
    }

    /// The error for a backend that this build does not have.
    pub(crate) fn unknown(name: &str) -> Error {
        let available: Vec<_> = Self::AVAILABLE.iter().map(|known| known.name()).collect();
        Failure::UnknownBackend {
            name: name.escape_debug().to_string(),
            expected: available.join(", "),
        }
        .into()
    }
}

/// The instruction-set levels that code can be compiled for and run on this machine, lowest first:
/// what [`Options::target`](crate::Options::target) takes. Empty in builds that run no native code.
///
/// ```
/// for level in kiln::targets() {
///     let options = kiln::Options::new().target(level);
/// #   let _ = options;
/// }
/// ```
pub fn targets() -> Vec<String> {
    #[cfg(feature = "native")]
    {
        use kiln_backend::IsaLevel;
        let here = IsaLevel::of_host();
        here.map(|level| level.name().to_owned()).collect()
    }
    #[cfg(not(feature = "native"))]
    Vec::new()
}

impl Default for Backend {
    fn default() -> Self {
        if cfg!(all(feature = "llvm", not(debug_assertions))) {
            Self::Llvm
        } else {
            Self::Interpreter
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
        found.ok_or_else(|| Self::unknown(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_backend_is_told_which_exist() {
        let error = "abacus".parse::<Backend>().unwrap_err();
        assert_eq!(error.code(), "E0974");
        let message = error.to_string();
        assert!(
            message.starts_with("unknown backend `abacus`, expected one of: interpreter"),
            "{message}"
        );
    }

    #[test]
    fn every_backend_of_this_build_is_found_by_its_name() {
        for &backend in Backend::AVAILABLE {
            assert_eq!(backend.to_string().parse::<Backend>().unwrap(), backend);
            assert!(backend.is_available());
        }
        assert_eq!(Backend::Llvm.is_available(), cfg!(feature = "native"));
    }
}
