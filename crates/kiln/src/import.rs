//! Decisions about an ONNX model at import: ranks, constants, lengths of sequences, omitted optional inputs, and
//! strictness.

use crate::error::{Error, Failure};
#[cfg(feature = "native")]
use kiln_ir::Constant;
use kiln_shape_inference::Mode;
use kiln_tensor::Tensor;
use std::collections::{BTreeMap, BTreeSet};

/// Decisions about an ONNX model at import.
///
/// ```no_run
/// use kiln::{Import, Options, Tensor};
///
/// let axes = Tensor::from_slice(&[1], &[1_i64])?;
/// let model = Options::new().import(Import::new().fix("axes", axes)).load("reduce.onnx")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Import {
    pub(crate) ranks: BTreeMap<String, usize>,
    pub(crate) fixed: BTreeMap<String, Tensor>,
    pub(crate) lengths: BTreeMap<String, usize>,
    pub(crate) absent: BTreeSet<String>,
    #[cfg_attr(
        not(feature = "onnx"),
        allow(dead_code, reason = "only ONNX models state types")
    )]
    pub(crate) mode: Mode,
}

impl Default for Import {
    fn default() -> Self {
        Self {
            ranks: BTreeMap::new(),
            fixed: BTreeMap::new(),
            lengths: BTreeMap::new(),
            absent: BTreeSet::new(),
            mode: Mode::Lenient,
        }
    }
}

impl Import {
    /// No decisions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the rank of an input whose rank the model leaves open. Without it, the model is built once for each combination
    /// of ranks, at the first call that has it.
    #[must_use]
    pub fn rank(mut self, input: impl Into<String>, rank: usize) -> Self {
        self.ranks.insert(input.into(), rank);
        self
    }

    /// Makes an input a constant, for an input that decides axes or ranks, which must be known at import. Calls then omit
    /// it.
    #[must_use]
    pub fn fix(mut self, input: impl Into<String>, value: Tensor) -> Self {
        self.fixed.insert(input.into(), value);
        self
    }

    /// The number of entries of a sequence input. Calls pass the entries as separate inputs, `xs.0`, `xs.1` and so on,
    /// whose ranks may be set and which may be constants; sequence outputs are returned likewise.
    ///
    /// ```no_run
    /// use kiln::{Import, Options};
    ///
    /// let model = Options::new().import(Import::new().length("xs", 3)).load("concat.onnx")?;
    /// assert_eq!(model.inputs()[2].name(), "xs.2");
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn length(mut self, input: impl Into<String>, entries: usize) -> Self {
        self.lengths.insert(input.into(), entries);
        self
    }

    /// Loads the model for calls that omit this optional input; without it, calls must pass it.
    #[must_use]
    pub fn absent(mut self, input: impl Into<String>) -> Self {
        self.absent.insert(input.into());
        self
    }

    /// What to do if types that the model states contradict those inferred from its ops.
    ///
    /// `Lenient` (the default) uses the inferred types, because many exporters leave stale shapes behind; `Strict`
    /// rejects the model.
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }
}

impl Import {
    /// Rejects decisions that only apply to an imported model.
    ///
    /// # Errors
    /// When any was made.
    pub(crate) fn refuse_for_graph(&self) -> Result<(), Error> {
        let fixed = self.fixed.keys().map(|name| ("fix", name));
        let lengths = self.lengths.keys().map(|name| ("length", name));
        let absent = self.absent.iter().map(|name| ("absent", name));
        match fixed.chain(lengths).chain(absent).next() {
            None => Ok(()),
            Some((option, name)) => Err(Failure::NotImported {
                option,
                name: name.escape_debug().to_string(),
            }
            .into()),
        }
    }

    /// The decisions as text; texts are equal iff the decisions are. `None` if memory runs out.
    #[cfg(feature = "native")]
    pub(crate) fn key(&self) -> Option<String> {
        let fixed = self.fixed.iter().map(|(name, tensor)| {
            let digest = Constant::new(tensor.clone()).ok()?.digest().to_string();
            Some((name, tensor.dtype(), tensor.shape(), digest))
        });
        let fixed = fixed.collect::<Option<Vec<_>>>()?;
        Some(format!("{fixed:?} {:?} {:?}", self.lengths, self.absent))
    }
}
