//! What is decided about an ONNX model when it is imported: ranks, constants, lengths of sequences, optionals left out, and
//! how strictly it is read.

use crate::error::{Error, Failure};
#[cfg(feature = "native")]
use kiln_ir::Constant;
use kiln_shape_inference::Mode;
use kiln_tensor::Tensor;
use std::collections::{BTreeMap, BTreeSet};

/// What is decided about an ONNX model when it is imported.
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
    /// Nothing is decided.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says the rank of an input whose rank the model leaves open. Without it, the model is built
    /// once for each combination of ranks that calls bring, at the first such call.
    #[must_use]
    pub fn rank(mut self, input: impl Into<String>, rank: usize) -> Self {
        self.ranks.insert(input.into(), rank);
        self
    }

    /// Makes an input a constant: for one that decides about axes or ranks, which must be known when the model is imported.
    /// Calls then leave it out.
    #[must_use]
    pub fn fix(mut self, input: impl Into<String>, value: Tensor) -> Self {
        self.fixed.insert(input.into(), value);
        self
    }

    /// How many entries a sequence has that goes in. Calls bring them as inputs of their own, `xs.0`, `xs.1` and so on, whose
    /// rank may be said and which may be constants; a sequence that comes out is given likewise.
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

    /// Loads the model for calls that leave this optional input out; without it, calls bring it.
    #[must_use]
    pub fn absent(mut self, input: impl Into<String>) -> Self {
        self.absent.insert(input.into());
        self
    }

    /// What to do where types that the model states contradict those inferred from its ops.
    ///
    /// `Lenient` (the default) goes by what is inferred, because many exporters leave stale shapes
    /// behind; `Strict` refuses the model.
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }
}

impl Import {
    /// Refuses what is only of use for a model that is imported.
    ///
    /// # Errors
    /// When anything was said.
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

    /// The decisions as a text, equal where they are; none where memory is short.
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
