//! What is decided about a model's inputs when it is imported: constants, lengths of sequences, optionals left out.

use crate::error::{Error, Failure};
use crate::options::Options;
#[cfg(feature = "native")]
use kiln_ir::Constant;
use kiln_tensor::Tensor;
use std::collections::{BTreeMap, BTreeSet};

/// By the names of inputs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Importing {
    pub(crate) fixed: BTreeMap<String, Tensor>,
    pub(crate) lengths: BTreeMap<String, usize>,
    pub(crate) absent: BTreeSet<String>,
}

impl Options {
    /// Makes an input of an ONNX model a constant: for one that decides about axes or ranks, which must be known when the
    /// model is imported. Calls then leave it out.
    ///
    /// ```no_run
    /// use kiln::{Model, Options, Tensor};
    ///
    /// let axes = Tensor::from_slice(&[1], &[1_i64])?;
    /// let model = Model::load_with("reduce.onnx", Options::new().fix("axes", axes))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn fix(mut self, input: impl Into<String>, value: Tensor) -> Self {
        self.importing.fixed.insert(input.into(), value);
        self
    }

    /// How many entries a sequence has that goes into an ONNX model. Calls bring them as inputs of their own, `xs.0`,
    /// `xs.1` and so on, whose rank may be said and which may be constants; a sequence that comes out is given likewise.
    ///
    /// ```no_run
    /// use kiln::{Model, Options};
    ///
    /// let model = Model::load_with("concat.onnx", Options::new().length("xs", 3))?;
    /// assert_eq!(model.inputs()[2].name(), "xs.2");
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    pub fn length(mut self, input: impl Into<String>, entries: usize) -> Self {
        self.importing.lengths.insert(input.into(), entries);
        self
    }

    /// Loads an ONNX model for calls that leave this optional input out; without it, calls bring it.
    #[must_use]
    pub fn absent(mut self, input: impl Into<String>) -> Self {
        self.importing.absent.insert(input.into());
        self
    }
}

impl Importing {
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
