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
mod signature;
mod source;

use crate::backend::Backend;
use crate::description::ValueDescription;
use crate::error::{Error, Failure};
use crate::guard::guarded;
use crate::options::Options;
use crate::outputs::Outputs;
use crate::recording::building;
use instance::{Built, Instance};
#[cfg(feature = "llvm")]
pub(crate) use instances::Choice;
#[cfg(not(feature = "llvm"))]
use instances::Choice;
use instances::{Chosen, Instances};
use kiln_ir::{BlobMap, Graph};
#[cfg(feature = "native")]
use kiln_lazy_runtime::Runtime;
use kiln_lazy_runtime::{CallControl, CallOptions, CompilationStats, CompileRecord, VariantRecord};
use kiln_tensor::Tensor;
use kiln_timing::Timing;
use signature::Signature;
pub(crate) use source::Source;
#[cfg(feature = "llvm")]
pub(crate) use source::file_name;
#[cfg(feature = "llvm")]
pub(crate) use source::{ConstantPlace, ModelDigest};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How many questions one call may be asked before its graph is known.
const QUESTIONS_LIMIT: usize = 64;

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
    /// Loads a model from a file: ONNX (`.onnx`), a graph's text (`.kiln`) or a bundle (`.kiln-bundle`).
    ///
    /// # Errors
    /// When the file cannot be read, is damaged, or asks for what Kiln does not do.
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
        #[cfg(feature = "native")]
        if path
            .as_ref()
            .extension()
            .is_some_and(|ending| ending == "kiln-bundle")
        {
            return Self::from_bundle_with(path, options);
        }
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
            waiting(control.as_deref(), move || {
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

    /// Where the time went: a recorder of what this model was loaded, built, compiled and called for.
    ///
    /// ```
    /// use kiln::timing::Category;
    /// use kiln::{Model, Tensor};
    ///
    /// let model = Model::from_text("graph @id(%x: f32[N]) -> f32[N] { return %x }")?;
    /// model.run([("x", &Tensor::full(&[3], 1.5f32)?)])?;
    /// let report = model.timing().report();
    /// assert!(report.category(Category::Build).wall_ns > 0);
    /// println!("{report}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn timing(&self) -> &Timing {
        self.0.options.clockwork()
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

    /// What was compiled so far, and everything that was done otherwise than planned: of this model
    /// and those that share kernels with it. All zero for an interpreted model.
    ///
    /// ```
    /// # #[cfg(feature = "llvm")] {
    /// use kiln::{Backend, Cache, Model, Options, Tensor};
    ///
    /// let options = Options::new().backend(Backend::Llvm).shared_kernels(false).cache(Cache::off());
    /// let text = "graph @double(%x: f32[N]) -> f32[N] {
    ///   %y = add %x, %x
    ///   return %y
    /// }";
    /// let model = Model::from_text_with(text, options)?;
    /// for n in [3, 1, 1000] {
    ///     model.run([("x", &Tensor::full(&[n], 1.5f32)?)])?;
    /// }
    /// assert_eq!(model.compilation_stats().compilations, 1);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compilation_stats(&self) -> CompilationStats {
        #[cfg(feature = "native")]
        if let Some(runtime) = self.runtime() {
            return runtime.stats();
        }
        CompilationStats::default()
    }

    /// The variants of kernels for sizes that came often, why there are, and what each gained: of this model and those that
    /// share kernels with it.
    pub fn variant_records(&self) -> Vec<VariantRecord> {
        #[cfg(feature = "native")]
        if let Some(runtime) = self.runtime() {
            return runtime.variant_records();
        }
        Vec::new()
    }

    /// One record per compile, in order: which kernel, why, how long it took. Of this model and
    /// those that share kernels with it.
    pub fn compile_records(&self) -> Vec<CompileRecord> {
        #[cfg(feature = "native")]
        if let Some(runtime) = self.runtime() {
            return runtime.compile_records();
        }
        Vec::new()
    }

    /// Waits until nothing is compiled behind the back of calls, and all that was is stored; at most so long. Says
    /// whether that is so. Of this model and those that share kernels with it.
    pub fn wait_for_compiles(&self, limit: Duration) -> bool {
        #[cfg(feature = "native")]
        if let Some(runtime) = self.runtime() {
            return runtime.wait_idle(limit);
        }
        let _ = limit;
        true
    }

    /// What executes the model. With an open rank and no call yet, what is to execute it.
    pub fn backend(&self) -> Backend {
        match self.0.instances.any() {
            Some(instance) => instance.executable().backend(),
            None => self.0.options.backend.unwrap_or_default(),
        }
    }

    /// The runtime of the instances, once there is one that is compiled.
    #[cfg(feature = "native")]
    fn runtime(&self) -> Option<Arc<Runtime>> {
        let instance = self.0.instances.any()?;
        instance.executable().runtime().cloned()
    }

    /// The optimised graph.
    ///
    /// # Errors
    /// When the rank of an input is open, or the graph depends on data: then there are several, or none yet.
    pub fn graph(&self) -> Result<Graph, Error> {
        guarded("a look at the model", || {
            Ok(self.only_instance()?.optimized().clone())
        })
    }

    /// The names of the stages a graph goes through, for [`stage`](Self::stage): `import`, then the
    /// passes, then `optimized`.
    pub fn stages(&self) -> Vec<&'static str> {
        instance::stages()
    }

    /// The names of all stages, for [`inspect`](Self::inspect): those of graphs, then those that
    /// come after.
    pub fn all_stages(&self) -> Vec<&'static str> {
        let mut stages = instance::stages();
        stages.extend(look::BEYOND_GRAPHS);
        stages
    }

    /// The graph after a stage; after a pass that ran several times, as the last run left it. Runs
    /// the passes again, so it takes as long as loading.
    ///
    /// # Errors
    /// When there is no stage of that name, or the rank of an input is open.
    ///
    /// ```
    /// let text = "graph @twice(%x: f32[N]) -> f32[N] {
    ///   %a = neg %x
    ///   %b = neg %a
    ///   return %b
    /// }";
    /// let model = kiln::Model::from_text(text)?;
    /// assert_eq!(model.stage("import")?.ops().count(), 2);
    /// assert_eq!(model.stage("optimized")?.ops().count(), 0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn stage(&self, name: &str) -> Result<Graph, Error> {
        guarded("a look at the model", || {
            self.only_instance()?.stage(name, &self.0.options)
        })
    }

    /// The outputs of an instance: the tensors that it gave, by its graph's names.
    fn outputs_of(&self, instance: &Instance, tensors: Vec<Tensor>) -> Outputs {
        let names = match &self.0.instances {
            Instances::Only(_) => Arc::clone(&self.0.signature.output_names),
            Instances::Tree(_) => instance.optimized().output_names().into(),
        };
        Outputs::new(names, tensors)
    }

    /// The instance for these inputs. Where the graph depends on data, finding it is a part of the call.
    fn instance_for(
        &self,
        inputs: &[Tensor],
        control: Option<&Arc<CallControl>>,
    ) -> Result<Chosen<'_>, Error> {
        let tree = match &self.0.instances {
            Instances::Only(instance) => return Ok(Chosen::Only(instance)),
            Instances::Tree(tree) => tree,
        };
        let open = self.0.signature.open.iter();
        let ranks = open.filter_map(|&index| {
            let name = self.inputs().get(index)?.name().to_owned();
            Some((name, inputs.get(index)?.rank()))
        });
        let mut choice = Choice {
            ranks: ranks.collect(),
            answers: BTreeMap::new(),
        };
        let options = &self.0.options;
        loop {
            let (place, source) = (tree.place(&choice), Arc::clone(tree.source()));
            let node = match place.get() {
                Some(node) => Arc::clone(node),
                None => {
                    let (choice, options) = (choice.clone(), options.clone());
                    waiting(control.map(Deref::deref), move || {
                        let build = || Instance::build(&source, &choice, &options).map(Arc::new);
                        place.get_or_try_init(build).cloned()
                    })?
                }
            };
            let &Built::Question(number, ref question) = &*node else {
                return Ok(Chosen::OfTree(node));
            };
            if choice.answers.len() >= QUESTIONS_LIMIT {
                let limit = QUESTIONS_LIMIT;
                return Err(Failure::Questions { limit }.into());
            }
            let given = question.run(inputs, options, control)?;
            choice.answers.insert(number, answer_in(&given)?);
        }
    }

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
}

/// What nothing can end: where a call may be ended, it is done on a thread of its own, and the call waits for it until it is
/// to end.
fn waiting<T: Send + 'static>(
    control: Option<&CallControl>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match control {
        Some(control) => control.wait_for(work)?,
        None => work(),
    }
}

/// The answer that a question's graph gave: a `bool`, or an integer.
fn answer_in(given: &[Tensor]) -> Result<i64, Error> {
    let Some(answer) = given.first() else {
        unreachable!("a question has one output");
    };
    Ok(match answer.item::<bool>() {
        Ok(answer) => i64::from(answer),
        Err(_) => answer.item::<i64>()?,
    })
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
