//! A loaded model: what it takes and gives, and calls.
//!
//! A model is built once when it is loaded. Where its graph depends on what calls bring (the rank of an input, the branch
//! that an `If` takes), it is built once for each such combination instead, at the first call that brings it.

mod ahead;
#[cfg(feature = "native")]
mod bundle;
mod call;
mod compare;
mod executable;
mod instance;
mod instances;
mod look;
mod memory;
mod records;
mod signature;
mod source;

use crate::description::ValueDescription;
use crate::device::Device;
use crate::error::{Error, Failure};
use crate::guard::guarded;
use crate::options::Options;
use crate::outputs::Outputs;
use crate::recording::building;
use crate::session::SessionBuilder;
pub(crate) use call::arrange_beside;
use instance::{Built, Instance};
#[cfg(feature = "native")]
pub(crate) use instances::Choice;
#[cfg(not(feature = "native"))]
use instances::Choice;
use instances::{Chosen, Instances};
use kiln_ir::{BlobMap, Graph};
use kiln_lazy_runtime::{CallControl, CallOptions, Donations};
use kiln_tensor::Tensor;
pub(crate) use signature::Signature;
pub(crate) use source::Source;
#[cfg(feature = "llvm")]
pub(crate) use source::file_name;
#[cfg(feature = "native")]
pub(crate) use source::{ConstantPlace, ModelDigest};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A tensor program, ready to be called with tensors of any size that it allows.
///
/// Cheap to clone; may be called from many threads at once.
///
/// ```
/// use kiln::{Model, Tensor};
///
/// let model = Model::from_text("graph @double(%x: f32[N]) -> f32[N] {
///   %y = add %x, %x
///   return %y
/// }")?;
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
    /// Loads a model from a file: ONNX (`.onnx`) or a graph's text (`.kiln`). The file is data, from anyone: nothing in it
    /// is run as it is. A bundle is code, and has a function of its own, [`open_bundle`](Self::open_bundle).
    ///
    /// # Errors
    /// When the file cannot be read, is damaged, or asks for what Kiln does not do; E0997 for a bundle.
    ///
    /// ```no_run
    /// let model = kiln::Model::load("model.onnx")?;
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::load_with(path, Options::new())
    }

    /// [`load`](Self::load) with options.
    ///
    /// # Errors
    /// As [`load`](Self::load), and when an option does not fit the model.
    pub fn load_with(path: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        Self::build(options, |options| Source::load(path.as_ref(), options))
    }

    /// Loads an ONNX model from memory. Data beside the model come from `files`;
    /// [`NoFiles`](kiln_onnx::NoFiles) has none.
    ///
    /// # Errors
    /// When the bytes are damaged, or ask for what Kiln does not do.
    ///
    /// ```
    /// let error = kiln::Model::from_bytes(b"no model", &kiln::onnx::NoFiles).err();
    /// assert_eq!(error.map(|error| error.code()), Some("E0901"));
    /// ```
    #[cfg(feature = "onnx")]
    pub fn from_bytes(bytes: &[u8], files: &dyn kiln_onnx::Fs) -> Result<Self, Error> {
        Self::from_bytes_with(bytes, files, Options::new())
    }

    /// [`from_bytes`](Self::from_bytes) with options.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes), and when an option does not fit the model.
    #[cfg(feature = "onnx")]
    pub fn from_bytes_with(
        bytes: &[u8],
        files: &dyn kiln_onnx::Fs,
        options: Options,
    ) -> Result<Self, Error> {
        Self::build(options, |options| Source::from_bytes(bytes, files, options))
    }

    /// Reads a model from a graph's text; types of results may be left out.
    ///
    /// # Errors
    /// When the text is not a graph.
    pub fn from_text(text: &str) -> Result<Self, Error> {
        Self::from_text_with(text, Options::new())
    }

    /// [`from_text`](Self::from_text) with options.
    ///
    /// # Errors
    /// As [`from_text`](Self::from_text), and when an option does not fit the graph.
    pub fn from_text_with(text: &str, options: Options) -> Result<Self, Error> {
        Self::build(options, |options| {
            Source::from_text(text, &BlobMap::new(), options)
        })
    }

    /// Makes a model of a graph.
    ///
    /// # Errors
    /// When the graph is not well formed, or its types do not follow from its ops.
    ///
    /// ```
    /// use kiln::ir::{Graph, Type};
    ///
    /// let mut graph = Graph::new("identity");
    /// let n = graph.dims_mut().symbol("N")?;
    /// let x = graph.add_input("x", Type::tensor(kiln::DType::F32, [n]));
    /// graph.set_outputs([("y", x)]);
    /// assert_eq!(kiln::Model::from_graph(graph)?.outputs()[0].to_string(), "y: f32[N]");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_graph(graph: Graph) -> Result<Self, Error> {
        Self::from_graph_with(graph, Options::new())
    }

    /// [`from_graph`](Self::from_graph) with options.
    ///
    /// # Errors
    /// As [`from_graph`](Self::from_graph), and when an option does not fit the graph.
    pub fn from_graph_with(graph: Graph, options: Options) -> Result<Self, Error> {
        Self::build(options, |_| Source::from_graph(graph))
    }

    /// Builds a model of a source, and times that.
    fn build(
        options: Options,
        read: impl FnOnce(&Options) -> Result<Source, Error>,
    ) -> Result<Self, Error> {
        guarded("loading", || {
            let options = options.started();
            let timing = options.clockwork().clone();
            let _inside = timing.enter();
            let (control, clockwork) = (options.control(None), timing.clone());
            let source = {
                let _span = building(&timing, "read", "Reading a model and checking it");
                read(&options)?
            };
            call::waiting(control.as_deref(), move || {
                let _inside = clockwork.enter();
                Self::new(source, options)
            })
        })
    }

    fn new(source: Source, options: Options) -> Result<Self, Error> {
        let (signature, instances) = match source.open_signature(&options)? {
            Some(signature) => (signature, Instances::tree(Arc::new(source))),
            None => {
                let source = Arc::new(source);
                match Instance::build(&source, &Choice::default(), &options)? {
                    Built::Graph(instance) => {
                        let signature = Signature::of_graph(instance.optimized())?;
                        (signature, Instances::Only(Box::new(instance)))
                    }
                    Built::Question(_, question) => {
                        let outputs = source.stated_outputs()?;
                        let signature = Signature::of_question(question.optimized(), outputs)?;
                        (signature, Instances::tree(source))
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

    /// The options it was loaded with.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// Calls the model. Inputs are given by name, in any order.
    ///
    /// # Errors
    /// When an input is missing, unknown, given twice, or of another dtype, rank or size than the
    /// model takes; when an op meets a fault, such as an index out of range; when a limit is
    /// exceeded.
    pub fn run<'a, N: AsRef<str>>(
        &self,
        inputs: impl IntoIterator<Item = (N, &'a Tensor)>,
    ) -> Result<Outputs, Error> {
        self.serve(inputs, None)
    }

    /// [`run`](Self::run), for a call that may be ended early: when it is cancelled from another thread, or takes longer
    /// than it may. It ends within milliseconds wherever it is, also in the middle of a step, and does not wait for a compiler
    /// any longer.
    ///
    /// # Errors
    /// As [`run`](Self::run); of kind [`Cancelled`](crate::ErrorKind::Cancelled) when it was cancelled, `E0894` of kind
    /// [`Limit`](crate::ErrorKind::Limit) when it took too long.
    ///
    /// ```
    /// use kiln::{CallOptions, Cancellation, ErrorKind, Model, Tensor};
    ///
    /// let model = Model::from_text("graph @double(%x: f32[N]) -> f32[N] {
    ///   %y = add %x, %x
    ///   return %y
    /// }")?;
    /// let x = Tensor::full(&[2], 1.5f32)?;
    /// let cancellation = Cancellation::new();
    /// let options = CallOptions::new().with_cancellation(&cancellation);
    /// assert!(model.run_with([("x", &x)], &options).is_ok());
    /// cancellation.cancel(); // by whichever thread has a clone of it
    /// let error = model.run_with([("x", &x)], &options).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Cancelled);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_with<'a, N: AsRef<str>>(
        &self,
        inputs: impl IntoIterator<Item = (N, &'a Tensor)>,
        options: &CallOptions,
    ) -> Result<Outputs, Error> {
        self.serve(inputs, Some(options))
    }

    fn serve<'a, N: AsRef<str>>(
        &self,
        inputs: impl IntoIterator<Item = (N, &'a Tensor)>,
        call: Option<&CallOptions>,
    ) -> Result<Outputs, Error> {
        guarded("a call", || {
            let inside = self.0.options.enter_first_call();
            let inputs = call::arrange(&self.0.signature, inputs)?;
            let control = self.0.options.control(call);
            let instance = self.instance_for(&inputs, control.as_ref())?;
            let tensors = instance.run(&inputs, &self.0.options, control.as_ref())?;
            drop(inside);
            self.0.options.tell_first_call();
            Ok(self.outputs_of(&instance, tensors))
        })
    }

    /// Calls the model with tensors in its order, and writes what it gives into `outputs`, one per output: in place where a
    /// tensor has the output's dtype and shape, and its memory is nobody else's; kernels then compute right there where
    /// nothing speaks against it. A compiled call with sizes that came before then allocates no memory.
    ///
    /// # Errors
    /// As [`run`](Self::run), and what the tensors hold is then not defined; when there are not as many tensors as outputs.
    ///
    /// ```
    /// use kiln::{DType, Model, Tensor};
    ///
    /// let model = Model::from_text("graph @double(%x: f32[N]) -> f32[N] {
    ///   %y = add %x, %x
    ///   return %y
    /// }")?;
    /// let mut outputs = [Tensor::zeros(DType::F32, &[2])?];
    /// for n in 0..3 {
    ///     let x = Tensor::full(&[2], n as f32)?;
    ///     model.run_into(&[x], &mut outputs)?;
    ///     assert_eq!(outputs[0].to_vec::<f32>()?, [2.0 * n as f32; 2]);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_into(&self, inputs: &[Tensor], outputs: &mut [Tensor]) -> Result<(), Error> {
        self.serve_into(inputs, outputs, None)
    }

    /// [`run_into`](Self::run_into), for a call that may be ended early; the tensors are then as they were. Once all is
    /// computed, and only to be copied into the tensors, the call is not ended any more.
    ///
    /// # Errors
    /// As [`run_into`](Self::run_into) and [`run_with`](Self::run_with).
    pub fn run_into_with(
        &self,
        inputs: &[Tensor],
        outputs: &mut [Tensor],
        options: &CallOptions,
    ) -> Result<(), Error> {
        self.serve_into(inputs, outputs, Some(options))
    }

    /// [`run_into`](Self::run_into), giving up some of the inputs: an output may be computed in the memory of an input that it
    /// is paired with, so that what the graph leaves as it is needs no copy. An input whose memory was taken is gone from
    /// `inputs`: looking at what is left there is an error, `E0943`. What became of each, `donations` say.
    ///
    /// Tensors that go from call to call are a [`Session`](crate::Session)'s.
    ///
    /// # Errors
    /// As [`run_into`](Self::run_into); `E0898` for a pair of an input and an output that are not there. Inputs are then as
    /// they were, save those that are [spoiled](crate::DonationFate::Spoiled).
    ///
    /// ```
    /// use kiln::{DonationFate, Donations, Model, Tensor};
    ///
    /// let model = Model::from_text("graph @set(%rows: f32[N, 2], %at: i64[1], %row: f32[1, 2]) -> f32[N, 2] {
    ///   %y = update_slice %rows, %at, %row {axes = [0]}
    ///   return %y
    /// }")?;
    /// let rows = Tensor::full(&[3, 2], 0.0f32)?;
    /// let mut inputs = [rows, Tensor::from_slice(&[1], &[1i64])?, Tensor::full(&[1, 2], 7.0f32)?];
    /// let mut outputs = [Tensor::scalar(0u8)];
    /// let mut donations = Donations::new([(0, 0)])?;
    /// model.run_donating(&mut inputs, &mut donations, &mut outputs)?;
    /// assert_eq!(outputs[0].to_vec::<f32>()?, [0.0, 0.0, 7.0, 7.0, 0.0, 0.0]);
    /// # let _ = DonationFate::Taken;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_donating(
        &self,
        inputs: &mut [Tensor],
        donations: &mut Donations,
        outputs: &mut [Tensor],
    ) -> Result<(), Error> {
        self.serve_donating(inputs, donations, outputs, None)
    }

    pub(crate) fn serve_donating(
        &self,
        inputs: &mut [Tensor],
        donations: &mut Donations,
        outputs: &mut [Tensor],
        call: Option<&CallOptions>,
    ) -> Result<(), Error> {
        guarded("a call", || {
            let control = self.0.options.control(call);
            let instance = self.instance_for(inputs, control.as_ref())?;
            let options = &self.0.options;
            instance.run_donating(inputs, donations, outputs, options, control.as_ref())
        })
    }

    /// A session of calls that hand tensors on: see [`Session`](crate::Session).
    pub fn session(&self) -> SessionBuilder {
        SessionBuilder::new(self)
    }

    pub(crate) fn signature(&self) -> &Signature {
        &self.0.signature
    }

    fn serve_into(
        &self,
        inputs: &[Tensor],
        outputs: &mut [Tensor],
        call: Option<&CallOptions>,
    ) -> Result<(), Error> {
        guarded("a call", || {
            let control = self.0.options.control(call);
            let instance = self.instance_for(inputs, control.as_ref())?;
            instance.run_into(inputs, outputs, &self.0.options, control.as_ref())
        })
    }

    /// What executes the model. With an open rank and no call yet, what is to execute it.
    pub fn device(&self) -> Device {
        match self.0.instances.any() {
            Some(instance) => instance.executable().device(),
            None => self.0.options.device.clone().unwrap_or_default(),
        }
    }

    /// The instance for these inputs. Where the graph depends on data, finding it is a part of the call.
    fn instance_for(
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
    fn only_instance(&self) -> Result<Chosen<'_>, Error> {
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
    fn outputs_of(&self, instance: &Instance, tensors: Vec<Tensor>) -> Outputs {
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
