//! The source of a model, and how a graph is built from it for a choice of what it depends on.
//!
//! Passes are run elsewhere. Every graph returned from this file is verified, and its types follow from its ops.

#[cfg(feature = "onnx")]
mod file;
mod graph;
#[cfg(feature = "onnx")]
mod hashed;
#[cfg(feature = "onnx")]
mod known;
#[cfg(feature = "onnx")]
mod onnx;
#[cfg(feature = "onnx")]
#[cfg_attr(
    not(feature = "native"),
    allow(dead_code, reason = "only compiled programs are kept")
)]
mod opened;

use super::instances::Choice;
use super::signature::Signature;
use crate::description::ValueDescription;
use crate::error::{Error, Failure};
use crate::options::Options;
use crate::source::{Kind, Source};
#[cfg(feature = "native")]
use kiln_ir::Digest;
use kiln_ir::{BlobMap, Constant, Graph};
#[cfg(feature = "onnx")]
use kiln_kernel_cache::TierList;
use kiln_kernel_cache::open_regular;
#[cfg(feature = "onnx")]
use kiln_onnx::NoFiles;
use kiln_precision::reduce_precision;
use kiln_shape_inference::{ShapeInferenceEngine, check_types, infer_types, read_graph_within};
use kiln_symbolic_shape::{DimError, Hint};
#[cfg(feature = "native")]
use kiln_tensor::{DType, Tensor};
#[cfg(feature = "native")]
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
#[cfg(feature = "onnx")]
use std::time::SystemTime;

#[cfg(feature = "onnx")]
pub(crate) use file::OnnxOrigin;
use graph::GraphOrigin;

/// A digest of everything that was read for a model.
#[cfg(any(feature = "native", feature = "onnx"))]
pub(crate) type ModelDigest = [u8; 32];

/// The source from which graphs are built.
pub(crate) enum Origin {
    /// A finished graph.
    Graph(Box<GraphOrigin>),
    /// An ONNX model, whose inputs may have open ranks.
    #[cfg(feature = "onnx")]
    Onnx(Box<OnnxOrigin>),
}

/// Where the elements of a large constant are: in the files of a model, or in the graph from which it was made.
#[cfg(feature = "native")]
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct ConstantPlace {
    /// Its name in the model.
    pub(crate) name: String,
    /// The external file; `None` for the model's own file.
    pub(crate) file: Option<String>,
    /// The first byte.
    pub(crate) offset: u64,
}

impl Origin {
    /// Reads and checks a source.
    pub(super) fn read(source: Source<'_>, options: &Options) -> Result<Self, Error> {
        match source.0 {
            Kind::File(path) => Self::read_file(&path, options),
            Kind::Text(text) => Self::read_text(text, &BlobMap::new(), options),
            #[cfg(feature = "onnx")]
            Kind::Onnx { bytes, files } => {
                let (files, limits) = (files.unwrap_or(&NoFiles), &options.limits.onnx);
                let model = kiln_onnx::Model::from_bytes_with(bytes, files, limits)?;
                Ok(Self::Onnx(Box::new(OnnxOrigin::of_model(model))))
            }
            Kind::Graph(graph) => {
                kiln_ir::verify(&graph)?;
                check_types(&graph)?;
                Ok(Self::of_graph(*graph, options))
            }
        }
    }

    /// Reads a file according to its extension.
    fn read_file(path: &Path, options: &Options) -> Result<Self, Error> {
        let _span = tracing::info_span!("kiln.load").entered();
        let ending = path
            .extension()
            .and_then(|ending| ending.to_str())
            .unwrap_or_default();
        match ending.to_ascii_lowercase().as_str() {
            "kiln" => Self::read_text_file(path, options),
            "kiln-bundle" => Err(Failure::BundleIsCode {
                found: file_name(path),
            }
            .into()),
            #[cfg(feature = "onnx")]
            "onnx" => {
                let limits = &options.limits.onnx;
                // Digesting takes time, and is only useful if the program is kept.
                let source = match options.keeps_programs() {
                    true => {
                        let tiers = TierList::new(crate::stores::of_folder(&options.cache));
                        OnnxOrigin::open(path, limits, &tiers, SystemTime::now())?
                    }
                    false => OnnxOrigin::of_model(kiln_onnx::Model::load_with(path, limits)?),
                };
                Ok(Self::Onnx(Box::new(source)))
            }
            _ => {
                let _ = options;
                let expected = if cfg!(feature = "onnx") {
                    ".onnx or .kiln"
                } else {
                    ".kiln"
                };
                Err(Failure::UnknownFormat {
                    expected,
                    found: file_name(path),
                }
                .into())
            }
        }
    }

    /// Reads a graph's text; large constants come from a `.npz` archive of the same name beside it, by digest.
    fn read_text_file(path: &Path, options: &Options) -> Result<Self, Error> {
        let failed = |path: &Path| {
            let file = file_name(path);
            move |source| Error::from(Failure::Read { file, source })
        };
        let limits = &options.limits.text;
        let mut file = open_regular(path).map_err(failed(path))?;
        let bytes = file.metadata().map_err(failed(path))?.len();
        limits
            .check_bytes(bytes)
            .map_err(|errors| Failure::text(&errors, ""))?;
        let mut text = String::new();
        // One byte more than the limit detects a file that grew meanwhile.
        let most = limits.bytes.saturating_add(1);
        Read::take(&mut file, most)
            .read_to_string(&mut text)
            .map_err(failed(path))?;
        let mut blobs = BlobMap::new();
        let archive = path.with_extension("npz");
        if archive.exists() {
            let constant_bytes = usize::try_from(limits.constant_bytes).unwrap_or(usize::MAX);
            let file = open_regular(&archive).map_err(failed(&archive))?;
            for tensor in kiln_tensor::read_npz(file, constant_bytes)?.into_values() {
                blobs.insert(Constant::new(tensor)?);
            }
        }
        Self::read_text(&text, &blobs, options)
    }

    /// Reads a graph's text, large constants from `blobs`.
    fn read_text(text: &str, blobs: &BlobMap, options: &Options) -> Result<Self, Error> {
        let engine = ShapeInferenceEngine::new();
        let limits = options.limits.of_reading();
        let graph = read_graph_within(text, blobs, &engine, &limits)
            .map_err(|errors| Failure::text(&errors, text))?;
        Ok(Self::of_graph(graph, options))
    }

    fn of_graph(graph: Graph, options: &Options) -> Self {
        Self::Graph(Box::new(GraphOrigin::new(graph, options)))
    }

    /// The digest of everything that was read, if known.
    #[cfg(feature = "native")]
    pub(super) fn digest(&self) -> Option<&ModelDigest> {
        match self {
            Self::Graph(source) => source.digest(),
            #[cfg(feature = "onnx")]
            Self::Onnx(source) => source.digest(),
        }
    }

    /// A constant of the model: the tensor if it was read, or one that is read on demand.
    #[cfg(feature = "native")]
    pub(crate) fn constant(
        &self,
        place: &ConstantPlace,
        dtype: DType,
        shape: &[usize],
        digest: Digest,
    ) -> Option<Tensor> {
        match self {
            Self::Graph(source) => {
                let _ = (place, dtype, shape);
                source.constant(digest)
            }
            #[cfg(feature = "onnx")]
            Self::Onnx(source) => source.constant(place, dtype, shape, digest),
        }
    }

    /// Where the large constants of the model are, by digest.
    #[cfg(feature = "native")]
    pub(crate) fn constant_places(&self) -> BTreeMap<Digest, ConstantPlace> {
        match self {
            Self::Graph(source) => source.constant_places(),
            #[cfg(feature = "onnx")]
            Self::Onnx(source) => source.constant_places(),
        }
    }

    /// The signature as the model states it, if some input's rank is set neither by the model nor by the options;
    /// `None` if the graph will have a signature.
    ///
    /// # Errors
    /// When options about inputs do not apply to the model.
    pub(super) fn open_signature(&self, options: &Options) -> Result<Option<Signature>, Error> {
        match self {
            Self::Graph(_) => {
                options.import.refuse_for_graph()?;
                Ok(None)
            }
            #[cfg(feature = "onnx")]
            Self::Onnx(source) => match source.read() {
                Some(model) => onnx::open_signature(model, options),
                // A model that need not be read has no open ranks.
                None => Ok(None),
            },
        }
    }

    /// The graph for a choice, with the options' dimensions; or the next question, if the choice does not answer it.
    #[cfg_attr(
        not(feature = "onnx"),
        expect(unused_variables, reason = "a graph depends on no choice")
    )]
    pub(super) fn make(&self, choice: &Choice, options: &Options) -> Result<Made, Error> {
        let made = match self {
            Self::Graph(source) => constrain(source.graph().clone(), options).map(Made::Graph),
            #[cfg(feature = "onnx")]
            Self::Onnx(source) => onnx::import(source.model()?, choice, options),
        }?;
        Ok(match made {
            Made::Graph(graph) => Made::Graph(rewritten(graph, options)?),
            #[cfg(feature = "onnx")]
            question => question,
        })
    }

    /// The graph for a choice that answers every question.
    pub(super) fn graph(&self, choice: &Choice, options: &Options) -> Result<Graph, Error> {
        match self.make(choice, options)? {
            Made::Graph(graph) => Ok(graph),
            #[cfg(feature = "onnx")]
            Made::Question(question) => Err(question.error.into()),
        }
    }

    /// The outputs as stated by the model, for a model that asks questions.
    pub(super) fn stated_outputs(&self) -> Result<Vec<ValueDescription>, Error> {
        match self {
            Self::Graph(_) => Ok(Vec::new()),
            #[cfg(feature = "onnx")]
            Self::Onnx(source) => Ok(onnx::stated_outputs(source.model()?)),
        }
    }
}

/// The graph, or the question, that a source yields for a choice.
pub(super) enum Made {
    Graph(Graph),
    #[cfg(feature = "onnx")]
    Question(kiln_onnx::Question),
}

/// The graph with the options' precision, and then with their gradients.
fn rewritten(mut graph: Graph, options: &Options) -> Result<Graph, Error> {
    if let Some(precision) = &options.precision {
        (graph, _) = reduce_precision(&graph, precision)?;
        check_types(&graph)?;
    }
    match &options.gradients {
        Some(gradients) => gradients.apply(&graph),
        None => Ok(graph),
    }
}

/// Narrows the graph's symbols as the options require, and its types with them.
fn constrain(mut graph: Graph, options: &Options) -> Result<Graph, Error> {
    if options.dims.is_empty() {
        return Ok(graph);
    }
    check_names(options, &symbol_names(&graph))?;
    for (name, &dim) in &options.dims {
        let failed = |source| dim_failure(name, source);
        let dimension = dim.symbolic(name).map_err(failed)?;
        let likely = dimension.likely_value();
        let Some(symbol) = graph.dims().symbol_named(name) else {
            continue;
        };
        graph
            .dims_mut()
            .constrain(symbol, dimension)
            .map_err(failed)?;
        if let Some(likely) = likely {
            graph.dims_mut().hint(Hint { symbol, likely });
        }
    }
    Ok(infer_types(graph)?)
}

/// The symbols that a caller may refer to: all but those that the graph computes.
fn symbol_names(graph: &Graph) -> BTreeSet<String> {
    let dims = graph.dims();
    let declared = dims
        .symbols()
        .filter(|&symbol| dims.definition(symbol).is_none());
    declared
        .map(|symbol| dims.symbol_info(symbol).name().to_owned())
        .collect()
}

/// Rejects options about dimensions that the model does not have.
fn check_names(options: &Options, known: &BTreeSet<String>) -> Result<(), Error> {
    let Some(name) = options.dims.keys().find(|&name| !known.contains(name)) else {
        return Ok(());
    };
    let expected = if known.is_empty() {
        "the model has no named dimension".to_owned()
    } else {
        let known: Vec<_> = known
            .iter()
            .map(|name| name.escape_debug().to_string())
            .collect();
        format!("expected one of: {}", known.join(", "))
    };
    Err(Failure::UnknownDim {
        name: name.escape_debug().to_string(),
        expected,
    }
    .into())
}

fn dim_failure(name: &str, source: DimError) -> Error {
    Failure::Dim {
        name: name.escape_debug().to_string(),
        source,
    }
    .into()
}

/// A file's name for messages.
pub(crate) fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().escape_debug().to_string()
}

#[cfg(all(test, feature = "llvm", feature = "onnx"))]
mod tests;
