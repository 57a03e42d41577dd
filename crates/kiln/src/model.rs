//! A loaded model: what it takes and gives, and calls.
//!
//! A model is built once when it is loaded. Where its graph depends on what calls bring (the rank of an input, the branch
//! that an `If` takes), it is built once for each such combination instead, at the first call that brings it.

mod ahead;
mod arrange;
#[cfg(feature = "native")]
mod bundle;
mod executable;
mod instance;
mod instances;
mod origin;
mod records;
mod serve;
mod signature;

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

/// A tensor program, ready to be called with tensors of any size that it allows.
///
/// Cheap to clone; may be called from many threads at once.
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
    /// Loads a model, with the defaults of [`Options`]; with others, [`Options::load`] does.
    ///
    /// A path is a file: ONNX (`.onnx`) or a graph's text (`.kiln`). Whatever the [source](Source), it is data, from anyone:
    /// nothing in it is run as it is. A bundle is code, and has a function of its own, [`open_bundle`](Self::open_bundle).
    ///
    /// # Errors
    /// When a file cannot be read; when the source is damaged, or asks for what Kiln does not do; E0997 for a bundle.
    ///
    /// ```no_run
    /// let model = kiln::Model::load("model.onnx")?;
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn load<'a>(source: impl Into<Source<'a>>) -> Result<Self, Error> {
        Self::of_source(source.into(), Options::new())
    }

    /// Builds a model of a source, and times that.
    pub(crate) fn of_source(source: Source<'_>, options: Options) -> Result<Self, Error> {
        guarded("loading", || {
            let options = options.started();
            let timing = options.clockwork().clone();
            let _inside = timing.enter();
            let (control, clockwork) = (options.control(None), timing.clone());
            let origin = {
                let _span = building(&timing, "read", "Reading a model and checking it");
                Origin::read(source, &options)?
            };
            waiting(control.as_deref(), move || {
                let _inside = clockwork.enter();
                Self::new(origin, options)
            })
        })
    }

    fn new(origin: Origin, options: Options) -> Result<Self, Error> {
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

    /// What the model takes, in its order.
    pub fn inputs(&self) -> &[ValueDescription] {
        &self.0.signature.inputs
    }

    /// What the model gives, in its order.
    pub fn outputs(&self) -> &[ValueDescription] {
        &self.0.signature.outputs
    }

    /// Texts that came with the model, such as its author or a dictionary.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.0.signature.metadata
    }

    /// What executes the model. With an open rank and no call yet, what is to execute it.
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

    /// A call that carries more than inputs: outputs to write into, what may end it, where its profile goes.
    pub fn call<'a>(&'a self, inputs: impl Into<Inputs<'a>>) -> Call<'a> {
        Call::of_model(self, inputs.into())
    }

    /// A session of calls that hand tensors on: see [`Session`](crate::Session).
    pub fn session(&self) -> SessionBuilder {
        SessionBuilder::new(self)
    }

    pub(crate) fn signature(&self) -> &Signature {
        &self.0.signature
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    /// The instance for these inputs. Where the graph depends on data, finding it is a part of the call.
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

    /// The instance, where there is only one.
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

    /// The outputs of an instance: the tensors that it gave, by its graph's names.
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
