//! A loaded model: its inputs and outputs, and calls.
//!
//! A model is built once when it is loaded. If its graph depends on what calls pass (the rank of an input, the branch
//! that an `If` takes), it is built once per combination instead, at the first call with that combination.

mod ahead;
mod arrange;
#[cfg(feature = "native")]
mod bundle;
#[cfg(feature = "native")]
mod deferred;
mod executable;
mod instance;
mod instances;
mod origin;
mod records;
mod serve;
mod signature;
mod wrong_index;

use crate::call::Call;
use crate::description::ValueDescription;
use crate::device::Device;
use crate::error::{Error, Failure};
use crate::guard::guarded;
use crate::inputs::Inputs;
use crate::options::Options;
use crate::outputs::Outputs;
use crate::recording::building;
use crate::session::SessionBuilder;
use crate::source::Source;
pub(crate) use arrange::arrange_beside;
pub(crate) use executable::{Executable, interpret_graph};
use instance::Built;
pub(crate) use instance::Instance;
#[cfg(feature = "native")]
pub(crate) use instances::Choice;
#[cfg(not(feature = "native"))]
use instances::Choice;
use instances::{Chosen, Instances, waiting};
use kiln_lazy_runtime::CallControl;
use kiln_tensor::Tensor;
pub(crate) use origin::Origin;
#[cfg(feature = "llvm")]
pub(crate) use origin::file_name;
#[cfg(feature = "native")]
pub(crate) use origin::{ConstantPlace, ModelDigest};
pub(crate) use signature::Signature;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A tensor program, ready to be called with tensors of any size it allows.
///
/// Cheap to clone; may be called from several threads at once.
///
/// ```
/// use kiln::{Model, Source, Tensor};
///
/// let model = Model::load(Source::text("graph @double(%x: f32[N]) -> f32[N] {
///   %y = add %x, %x
///   return %y
/// }"))?;
/// for n in [0, 1, 5] {
///     let x = Tensor::full(&[n], 1.5f32)?;
///     assert_eq!(model.run([("x", &x)])?[0].to_vec::<f32>()?, vec![3.0; n]);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Model(Arc<Inner>);

struct Inner {
    options: Options,
    signature: Signature,
    instances: Instances,
}

impl Model {
    /// Loads a model with the default [`Options`]; [`Options::load`] loads it with others.
    ///
    /// A path refers to a file: ONNX (`.onnx`) or a graph's text (`.kiln`). Any [source](Source) is data and may be
    /// untrusted: nothing in it is executed as machine code. A bundle is code, and is opened by a separate function,
    /// [`open_bundle`](Self::open_bundle).
    ///
    /// # Errors
    /// When a file cannot be read; when the source is damaged, or needs something that Kiln does not support; E0997 for a
    /// bundle.
    ///
    /// ```no_run
    /// let model = kiln::Model::load("model.onnx")?;
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn load<'a>(source: impl Into<Source<'a>>) -> Result<Self, Error> {
        Self::of_source(source.into(), Options::new())
    }

    /// Builds a model from a source, timed.
    pub(crate) fn of_source(source: Source<'_>, options: Options) -> Result<Self, Error> {
        guarded("loading", || {
            let options = options.started();
            let timing = options.timing().clone();
            let _inside = timing.enter();
            let (control, thread_timing) = (options.control(None), timing.clone());
            let origin = {
                let _span = building(&timing, "read", "Reading a model and checking it");
                Origin::read(source, &options)?
            };
            waiting(control.as_deref(), move || {
                let _inside = thread_timing.enter();
                Self::new(origin, options)
            })
        })
    }

    fn new(origin: Origin, options: Options) -> Result<Self, Error> {
        options.check()?;
        let (signature, instances) = match origin.open_signature(&options)? {
            Some(signature) => (signature, Instances::tree(Arc::new(origin))),
            None => {
                let origin = Arc::new(origin);
                match Instance::build(&origin, &Choice::default(), &options)? {
                    Built::Graph(instance) => {
                        let signature = Signature::of_graph(instance.optimized())?;
                        (signature, Instances::Only(Box::new(instance)))
                    }
                    Built::Question(_, question) => {
                        let outputs = origin.stated_outputs()?;
                        let signature = Signature::of_question(question.optimized(), outputs)?;
                        (signature, Instances::tree(origin))
                    }
                }
            }
        };
        Ok(Self(Arc::new(Inner {
            options,
            signature,
            instances,
        })))
    }

    /// The inputs, in the model's order.
    pub fn inputs(&self) -> &[ValueDescription] {
        &self.0.signature.inputs
    }

    /// The outputs, in the model's order.
    pub fn outputs(&self) -> &[ValueDescription] {
        &self.0.signature.outputs
    }

    /// The model's graph as it was read or imported, before any pass: to be printed, differentiated or continued.
    ///
    /// # Errors
    /// E0976 or E0995 when the graph depends on the inputs of a call; as [`load`](Self::load), if it has not been
    /// imported yet.
    pub fn graph(&self) -> Result<kiln_ir::Graph, Error> {
        guarded("reading a model's graph", || {
            let instance = self.only_instance()?;
            Ok(instance.imported(&self.0.options)?.clone())
        })
    }

    /// Texts stored with the model, such as its author or a dictionary.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.0.signature.metadata
    }

    /// The device that executes the model; for a model with an open rank that has not been called yet, the device that
    /// will execute it.
    pub fn device(&self) -> Device {
        match self.0.instances.any() {
            Some(instance) => instance.executable().device(),
            None => self.0.options.device.clone().unwrap_or_default(),
        }
    }

    /// Calls the model, with inputs by name or by position: see [`Inputs`].
    ///
    /// # Errors
    /// As [`Call::run`].
    pub fn run<'a>(&'a self, inputs: impl Into<Inputs<'a>>) -> Result<Outputs, Error> {
        self.call(inputs).run()
    }

    /// A call with options in addition to its inputs: outputs to write into, conditions to end it, a place for its
    /// profile.
    pub fn call<'a>(&'a self, inputs: impl Into<Inputs<'a>>) -> Call<'a> {
        Call::of_model(self, inputs.into())
    }

    /// A session, whose calls pass tensors on to the next: see [`Session`](crate::Session).
    pub fn session(&self) -> SessionBuilder {
        SessionBuilder::new(self)
    }

    pub(crate) fn signature(&self) -> &Signature {
        &self.0.signature
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    /// The instance for these inputs. If the graph depends on data, finding it is part of the call.
    pub(crate) fn instance_for(
        &self,
        inputs: &[Tensor],
        control: Option<&Arc<CallControl>>,
    ) -> Result<Chosen<'_>, Error> {
        match &self.0.instances {
            Instances::Only(instance) => Ok(Chosen::Only(instance)),
            Instances::Tree(tree) => {
                let ranks = self.0.signature.open_ranks(inputs);
                tree.find(ranks, inputs, &self.0.options, control)
            }
        }
    }

    /// The instance, if there is only one.
    pub(crate) fn only_instance(&self) -> Result<Chosen<'_>, Error> {
        if let Instances::Only(instance) = &self.0.instances {
            return Ok(Chosen::Only(instance));
        }
        let mut open = self.0.signature.open.iter();
        let open = open.next().and_then(|&index| self.inputs().get(index));
        Err(match open {
            Some(input) => Failure::UnknownRank {
                name: input.name().escape_debug().to_string(),
            },
            None => Failure::SeveralGraphs,
        }
        .into())
    }

    /// The outputs of an instance: its tensors, with the names of its graph.
    pub(crate) fn outputs_of(&self, instance: &Instance, tensors: Vec<Tensor>) -> Outputs {
        let names = match &self.0.instances {
            Instances::Only(_) => Arc::clone(&self.0.signature.output_names),
            Instances::Tree(_) => instance.optimized().output_names().into(),
        };
        Outputs::new(names, tensors)
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = |values: &[ValueDescription]| {
            values
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        };
        write!(
            f,
            "Model({} -> {})",
            texts(self.inputs()),
            texts(self.outputs())
        )
    }
}
