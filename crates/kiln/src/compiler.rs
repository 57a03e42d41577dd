//! Where kernels are compiled: in this process, or in workers that may crash.
//!
//! Not here: the workers themselves, which are `kiln_compile_worker`'s.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::{Error, Failure};

/// Where kernels are compiled.
///
/// ```
/// use kiln::{Compiler, Options};
///
/// let options = Options::new().compiler(Compiler::worker_at("/usr/bin/kiln"));
/// assert_eq!("in-process".parse::<Compiler>()?, Compiler::InProcess);
/// # let _ = options;
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compiler {
    /// In this process: nothing to set up. What LLVM does to its process, it does to this one.
    #[default]
    InProcess,
    /// In worker processes, within [`Limits::compile`](crate::Limits). A crash of LLVM, a hang, or too much memory is an
    /// error of one kernel, which the next schedule and then the interpreter serve.
    Worker {
        /// The worker's program, such as the `kiln` command. Without it, this program, which must begin with
        /// [`compile_worker::main_if_worker`](crate::compile_worker::main_if_worker).
        program: Option<PathBuf>,
    },
}

impl Compiler {
    /// In workers that run this program.
    pub fn worker() -> Self {
        Self::Worker { program: None }
    }

    /// In workers that run another program, such as the `kiln` command of the same version.
    pub fn worker_at(program: impl Into<PathBuf>) -> Self {
        Self::Worker {
            program: Some(program.into()),
        }
    }
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InProcess => f.write_str("in-process"),
            Self::Worker { program: None } => f.write_str("worker"),
            Self::Worker {
                program: Some(path),
            } => write!(f, "worker={}", path.display()),
        }
    }
}

impl FromStr for Compiler {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match (text, text.strip_prefix("worker=")) {
            ("in-process", _) => Ok(Self::InProcess),
            ("worker", _) => Ok(Self::worker()),
            (_, Some(path)) if !path.is_empty() => Ok(Self::worker_at(path)),
            _ => Err(Failure::UnknownBackend {
                name: text.escape_debug().to_string(),
                expected: "in-process, worker, worker=PROGRAM".to_owned(),
            }
            .into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_read_back_and_others_are_refused() {
        for compiler in [
            Compiler::InProcess,
            Compiler::worker(),
            Compiler::worker_at("/usr/bin/kiln"),
        ] {
            assert_eq!(compiler.to_string().parse::<Compiler>().unwrap(), compiler);
        }
        assert_eq!("worker=".parse::<Compiler>().unwrap_err().code(), "E0974");
    }
}
