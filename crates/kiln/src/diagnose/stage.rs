//! The stages that a model goes through, by name.

use crate::error::{Error, Failure};
use kiln_passes::pass_names;
use std::fmt;
use std::str::FromStr;

/// A stage of a model on its way to code.
///
/// ```
/// use kiln::diagnose::Stage;
///
/// assert_eq!("fusion".parse::<Stage>()?, Stage::Fusion);
/// for stage in Stage::all() {
///     assert_eq!(stage.to_string().parse::<Stage>()?, stage);
/// }
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// The graph before any pass: `import`.
    Import,
    /// The graph after the pass of this name; if it ran several times, after its last run.
    Pass(&'static str),
    /// The graph after all passes: `optimized`.
    Optimized,
    /// Which ops become one kernel: `fusion`.
    Fusion,
    /// The text of each kernel: `kernels`.
    Kernels,
    /// Steps, the placement of buffers, and the schedules with which kernels are launched: `program`.
    Program,
    /// The loop nests of each kernel, from which its code is generated: `loops`.
    Loops,
    /// Each kernel in the compiler's intermediate form, as for a call with unremarkable sizes: `llvm`.
    Llvm,
    /// Each kernel as machine code, for the same sizes: `asm`.
    Assembly,
}

impl Stage {
    /// All stages, in order: those at which a model is a graph, then the others.
    pub fn all() -> Vec<Self> {
        let graphs = Self::graphs();
        graphs.chain(Self::BEYOND_GRAPHS).collect()
    }

    /// Whether the model is a graph at this stage.
    pub fn is_graph(self) -> bool {
        matches!(self, Self::Import | Self::Pass(_) | Self::Optimized)
    }

    const BEYOND_GRAPHS: [Self; 6] = [
        Self::Fusion,
        Self::Kernels,
        Self::Program,
        Self::Loops,
        Self::Llvm,
        Self::Assembly,
    ];

    fn graphs() -> impl Iterator<Item = Self> {
        let passes = pass_names().map(Self::Pass);
        let before = [Self::Import].into_iter();
        before.chain(passes).chain([Self::Optimized])
    }

    /// The error for a stage that is not a graph, or a pass that does not exist.
    pub(super) fn no_graph(self) -> Error {
        unknown(&self.to_string(), Self::graphs())
    }
}

fn unknown(name: &str, expected: impl Iterator<Item = Stage>) -> Error {
    let expected: Vec<String> = expected.map(|stage| stage.to_string()).collect();
    Failure::UnknownStage {
        name: name.escape_debug().to_string(),
        expected: expected.join(", "),
    }
    .into()
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Import => "import",
            Self::Pass(name) => name,
            Self::Optimized => "optimized",
            Self::Fusion => "fusion",
            Self::Kernels => "kernels",
            Self::Program => "program",
            Self::Loops => "loops",
            Self::Llvm => "llvm",
            Self::Assembly => "asm",
        })
    }
}

impl FromStr for Stage {
    type Err = Error;

    /// # Errors
    /// E0973 if no stage has this name.
    fn from_str(name: &str) -> Result<Self, Error> {
        let all = Self::all();
        let found = all.iter().find(|stage| stage.to_string() == name);
        found.copied().ok_or_else(|| unknown(name, all.into_iter()))
    }
}
