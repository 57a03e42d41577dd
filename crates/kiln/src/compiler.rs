//! Where kernels are compiled: in this process, or in workers, which may crash.
//!
//! The workers themselves are in `kiln_compile_worker`.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Failure};
use kiln_compile_worker::WorkerProgram;

/// Where kernels are compiled.
///
/// ```
/// use kiln::{Compiler, Compiling, Options};
///
/// let compiling = Compiling { compiler: Compiler::worker(), ..Compiling::default() };
/// let options = Options::new().compiling(compiling);
/// assert_eq!("in-process".parse::<Compiler>()?, Compiler::InProcess);
/// # let _ = options;
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compiler {
    /// In this process: nothing to set up, but a crash of LLVM is a crash of this process.
    #[default]
    InProcess,
    /// In worker processes, within [`Limits::compile`](crate::Limits). A crash of LLVM, a hang or excessive memory use is
    /// an error of one kernel, which then runs under the next schedule or in the interpreter.
    Worker {
        /// The worker's program, such as the `kiln` command. By default this program, which must then begin with
        /// [`compile_worker::main_if_worker`](crate::compile_worker::main_if_worker).
        program: Option<WorkerProgram>,
    },
}

impl Compiler {
    /// Compiles in workers that run the current program.
    pub fn worker() -> Self {
        Self::Worker { program: None }
    }

    /// Compiles in workers that run another program, such as the `kiln` command of the same version.
    pub fn worker_of(program: WorkerProgram) -> Self {
        Self::Worker {
            program: Some(program),
        }
    }
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InProcess => f.write_str("in-process"),
            Self::Worker { program: None } => f.write_str("worker"),
            Self::Worker {
                program: Some(program),
            } => write!(f, "worker of {}", program.path().display()),
        }
    }
}

impl FromStr for Compiler {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "in-process" => Ok(Self::InProcess),
            "worker" => Ok(Self::worker()),
            _ => Err(Failure::UnknownName {
                what: "compiler",
                name: text.escape_debug().to_string(),
                expected: "in-process, worker".to_owned(),
            }
            .into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiler_names_round_trip_and_unknown_ones_are_refused() {
        for compiler in [Compiler::InProcess, Compiler::worker()] {
            assert_eq!(compiler.to_string().parse::<Compiler>().unwrap(), compiler);
        }
        assert_eq!(
            "worker=/no/such".parse::<Compiler>().unwrap_err().code(),
            "E0974"
        );
    }
}
