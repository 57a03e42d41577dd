//! Converts a model to a graph of core operations.
//!
//! [`import`] declares sizes and inputs, imports the nodes through the importers of `ops`, and names the outputs. Only
//! names, types and constants of the model remain: every operator decomposes into core operations, whose types are inferred
//! as they are added.
//!
//! Operators without an importer are found before anything else, and one error lists all of them. Any other error names the
//! node where it occurred.

mod append;
mod captures;
mod context;
mod control;
mod function;
mod graph;
mod inputs;
mod item;
mod moved;
mod names;
mod options;
mod order;
mod questions;
mod registry;
mod scan;
mod stated;
mod unroll;
mod unsupported;

use std::fmt;
use std::sync::Arc;

use kiln_ir::{Graph, ValueId};
use kiln_shape_inference::{GraphBuilder, Mode, ShapeInferenceEngine};

pub use context::NodeContext;
pub(crate) use context::Outputs;
pub(crate) use control::{import_if, import_loop};
pub(crate) use graph::typed;
pub use inputs::graph_inputs;
pub(crate) use item::{Item, Stacked};
pub use options::{ImportOptions, OpImporter};
pub use questions::Question;
pub(crate) use registry::{Operator, Takes};
pub(crate) use scan::import_scan;
pub(crate) use unroll::import_sequence_map;
pub use unsupported::UnsupportedOperator;
pub(crate) use unsupported::list as list_operators;

use self::graph::{Frame, Made, import_graph, output_value};
use self::inputs::ModelSizes;
use self::names::Names;
use self::questions::Questions;
use self::registry::Registry;
use crate::{Error, Model, Name};

/// Imports a model.
///
/// The graph has only tensors. Each entry of a sequence that is an input or output becomes a separate one named after it,
/// `name.0` and so on ([`ImportOptions::length`] gives the number of input entries); an optional is its content or, if it
/// has none, absent ([`ImportOptions::absent`]). Elements of unsupported types are stored in wider ones
/// ([`NarrowType`](crate::NarrowType)).
///
/// ```
/// use kiln_onnx::{ImportOptions, Model, NoFiles, import};
///
/// // A graph with one input `x: f32[batch, 3]` and one node, `y = Relu(x)`.
/// let bytes = b"\x08\x08\x3a\x30\x0a\x0c\x0a\x01x\x12\x01y\x22\x04Relu\x12\x01g\
///               \x5a\x18\x0a\x01x\x12\x13\x0a\x11\x08\x01\x12\x0d\
///               \x0a\x07\x12\x05batch\x0a\x02\x08\x03\x62\x03\x0a\x01y\x42\x02\x10\x11";
/// let model = Model::from_bytes(bytes, &NoFiles)?;
/// let graph = import(&model, &ImportOptions::new())?;
/// assert_eq!(graph.ty(graph.outputs()[0]).display(graph.dims()).to_string(), "f32[batch, 3]");
/// # Ok::<(), kiln_onnx::Error>(())
/// ```
///
/// # Errors
/// [`Error::UnsupportedOperators`] first; otherwise the first error, with the node's path.
pub fn import(model: &Model, options: &ImportOptions) -> Result<Graph, Error> {
    Ok(import_reporting(model, options)?.graph)
}

/// The result of [`import_reporting`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Imported {
    /// The graph.
    pub graph: Graph,
    /// The ignored types that the model states, in the order of its statements; none in strict mode, which rejects the
    /// model instead.
    pub wrong_types: Vec<WrongType>,
}

/// A type that a model states for a value, and that its operators contradict or do not confirm.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrongType {
    /// The value.
    pub value: Name,
    /// The type that follows from the operators.
    pub inferred: String,
    /// The model's type; `?` where none is stated.
    pub stated: String,
}

impl fmt::Display for WrongType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            value,
            inferred,
            stated,
        } = self;
        write!(
            f,
            "type of {value}: the model states {stated}, its operators give {inferred}; the latter is used"
        )
    }
}

/// Imports a model, and reports wrongly stated types.
///
/// # Errors
/// As [`import`].
pub fn import_reporting(model: &Model, options: &ImportOptions) -> Result<Imported, Error> {
    match import_or_ask(model, options)? {
        Import::Graph(imported) => Ok(imported),
        Import::Question(question) => Err(question.error),
    }
}

/// The result of importing a model.
#[derive(Debug)]
pub enum Import {
    /// A graph.
    Graph(Imported),
    /// The graph depends on the call.
    Question(Question),
}

/// Imports a model whose graph may depend on the call, as far as the options' answers determine it.
///
/// # Errors
/// As [`import`].
pub fn import_or_ask(model: &Model, options: &ImportOptions) -> Result<Import, Error> {
    let span = tracing::info_span!("onnx.import", nodes = model.graph().nodes().len());
    let _entered = span.enter();
    let registry = Registry::new(model, options);
    unsupported::check_operators(model, &registry)?;
    let refused = match import_until(model, options, &registry, None) {
        Ok(imported) => return Ok(Import::Graph(imported)),
        Err(refused) => refused,
    };
    // Answered questions are not asked again.
    let is_new = |number: &usize| !options.answers.contains_key(number);
    let Some(number) = refused.open.filter(is_new) else {
        return Err(refused.error);
    };
    match import_until(model, options, &registry, Some(number)) {
        Err(Refused {
            question: Some(graph),
            ..
        }) => Ok(Import::Question(Question {
            number,
            graph: *graph,
            error: refused.error,
        })),
        _ => Err(refused.error),
    }
}

/// Why there is no graph.
struct Refused {
    error: Error,
    /// The question whose answer might have helped.
    open: Option<usize>,
    /// The graph of the question at which the import was requested to end.
    question: Option<Box<Graph>>,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self {
            error,
            open: None,
            question: None,
        }
    }
}

/// Imports a model up to the requested question, or to its end.
fn import_until(
    model: &Model,
    options: &ImportOptions,
    registry: &Registry<'_>,
    wanted: Option<usize>,
) -> Result<Imported, Refused> {
    let mut builder = GraphBuilder::with_limits(
        graph_name(model),
        ShapeInferenceEngine::new(),
        options.dim_limits.clone(),
    );
    builder.set_mode(if options.strict {
        Mode::Strict
    } else {
        Mode::Lenient
    });
    for (key, value) in model.metadata() {
        builder.metadata_mut().insert(key.clone(), value.clone());
    }
    let mut names = Names::default();
    let sizes = ModelSizes::declare(&mut builder, model, options)?;
    inputs::add_inputs(&mut builder, model, options, &sizes, &mut names)?;
    let made = Made::new(Questions::new(&options.answers, wanted));
    let frame = Frame {
        registry,
        limits: &options.limits,
        opsets: model.opsets(),
        path: Arc::from(""),
        depth: 0,
        made: &made,
        is_nested: false,
    };
    if let Err(error) = import_graph(&frame, &mut builder, model.graph(), &mut names) {
        let open = made.questions.open();
        let question = made.questions.asked(builder);
        return Err(Refused {
            error,
            open,
            question: question.and_then(Result::ok).map(Box::new),
        });
    }
    builder.clear_origin();
    let wrong_types = stated::annotate(&mut builder, model, &sizes, &names)?;
    if let Some(first) = wrong_types.first() {
        tracing::warn!(count = wrong_types.len(), %first, "ignoring types that the model states");
    }
    let outputs = model.graph().outputs().iter();
    let mut tensors: Vec<(String, ValueId)> = Vec::new();
    for output in outputs {
        let item = output_value(&names, &output.name)?;
        match &item {
            Item::Stacked(stacked) => {
                let error = Error::Unsupported {
                    node: format!("output {}", crate::Name::from(output.name.as_str())),
                    what: item.kind(),
                };
                return Err(Refused {
                    error,
                    open: stacked.place.number,
                    question: None,
                });
            }
            Item::Sequence(_) => {
                let entries = item.values().into_iter().enumerate();
                tensors
                    .extend(entries.map(|(index, value)| (entry_name(&output.name, index), value)));
            }
            other => tensors.extend(other.value().map(|value| (output.name.clone(), value))),
        }
    }
    let outputs = tensors;
    let graph = builder.finish(&outputs).map_err(|source| Error::Infer {
        node: "model".to_owned(),
        source,
    })?;
    Ok(Imported { graph, wrong_types })
}

/// The name of an entry of a sequence that is an input or output of the model.
fn entry_name(sequence: &str, index: usize) -> String {
    format!("{sequence}.{index}")
}

fn graph_name(model: &Model) -> &str {
    match model.graph().name() {
        "" => "model",
        name => name,
    }
}
