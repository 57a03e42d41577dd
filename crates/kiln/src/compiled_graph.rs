//! A graph compiled together with its gradients, and the cache of such graphs.

use crate::error::{Error, Failure};
use crate::inputs::Inputs;
use crate::model::Model;
use crate::options::Options;
use crate::source::Source;
use kiln_autodiff::{GradientRequest, JointGraph, PartitionOptions, Rematerialization};
use kiln_autodiff::{differentiate, partition};
use kiln_fork_lock::{ForkCell, ForkLock};
use kiln_ir::{Graph, structural_hash};
use kiln_tensor::Tensor;
use kiln_trace::Recorded;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Compiles graphs together with their gradients, each once: the results are cached by the graph's structural hash and
/// the requested gradients.
pub struct GraphCompiler {
    options: Options,
    partition: PartitionOptions,
    /// Entries are only ever added, so a panic elsewhere leaves it valid.
    graphs: ForkLock<BTreeMap<String, Arc<CompiledGraph>>>,
}

impl GraphCompiler {
    /// A compiler with these options and an empty cache.
    pub fn new(options: Options) -> Self {
        Self {
            options: options.with_one_recorder(),
            partition: PartitionOptions::default(),
            graphs: ForkLock::default(),
        }
    }

    /// Limits the bytes that a [forward](CompiledGraph::forward) pass saves for the backward pass, where each unknown
    /// size counts as 64: beyond the limit, values are rematerialised, the cheapest first. By default, only values that
    /// are nearly free are rematerialised.
    #[must_use]
    pub fn saving_at_most(self, bytes: u64) -> Self {
        Self {
            partition: PartitionOptions {
                rematerialization: Rematerialization::Within(bytes),
                ..self.partition
            },
            ..self
        }
    }

    /// The graph and its gradients, compiled unless they are in the cache.
    ///
    /// # Errors
    /// E06xx if it cannot be differentiated as requested, and as [`Model::load`].
    pub fn compile(
        &self,
        graph: &Graph,
        request: &GradientRequest,
    ) -> Result<Arc<CompiledGraph>, Error> {
        let key = format!("{} {request:?}", structural_hash(graph));
        if let Some(compiled) = self.graphs.lock().get(&key) {
            return Ok(Arc::clone(compiled));
        }
        self.insert(key, differentiate(graph, request)?, graph.inputs().len())
    }

    /// As [`compile`](Self::compile), for a recording, whose values may have custom gradients.
    pub(crate) fn compile_recorded(
        &self,
        recorded: &Recorded,
        request: &GradientRequest,
    ) -> Result<Arc<CompiledGraph>, Error> {
        let graph = recorded.graph();
        if !recorded.has_custom_gradients() {
            return self.compile(graph, request);
        }
        // Functions cannot be compared, so their gradients are.
        let joint = recorded.differentiate(request)?;
        let key = format!("{} {request:?} recorded", structural_hash(&joint.graph));
        if let Some(compiled) = self.graphs.lock().get(&key) {
            return Ok(Arc::clone(compiled));
        }
        self.insert(key, joint, graph.inputs().len())
    }

    fn insert(
        &self,
        key: String,
        joint: JointGraph,
        n_inputs: usize,
    ) -> Result<Arc<CompiledGraph>, Error> {
        let compiled = CompiledGraph::new(joint, n_inputs, self.partition, self.options.clone())?;
        let mut graphs = self.graphs.lock();
        let entry = graphs.entry(key).or_insert_with(|| Arc::new(compiled));
        Ok(Arc::clone(entry))
    }

    /// The number of graphs in the cache.
    pub fn n_graphs(&self) -> usize {
        self.graphs.lock().len()
    }
}

impl fmt::Debug for GraphCompiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GraphCompiler({} graphs)", self.n_graphs())
    }
}

/// A graph with its gradients: forward and backward, compiled as one program or as two with saved values between them.
///
/// | you want | use |
/// |---|---|
/// | outputs and gradients at once | [`run`](Self::run): one program, nothing is saved |
/// | outputs now, gradients later | [`forward`](Self::forward), then [`backward`](Self::backward) |
/// | the models, to inspect, time or explain them | [`joint`](Self::joint), [`halves`](Self::halves) |
pub struct CompiledGraph {
    joint: Model,
    graph: JointGraph,
    n_inputs: usize,
    partition: PartitionOptions,
    options: Options,
    halves: ForkCell<(Model, Model)>,
}

/// The values that a forward pass saves for the backward pass.
#[derive(Clone, Debug)]
pub struct SavedValues(Vec<Tensor>);

impl SavedValues {
    /// The total size of the tensors in bytes.
    pub fn bytes(&self) -> u64 {
        let bytes = |tensor: &Tensor| (tensor.len() * tensor.dtype().size_in_bytes()) as u64;
        self.0.iter().map(bytes).sum()
    }
}

impl CompiledGraph {
    fn new(
        joint: JointGraph,
        n_inputs: usize,
        partition: PartitionOptions,
        options: Options,
    ) -> Result<Self, Error> {
        Ok(Self {
            joint: options.load(Source::graph(joint.graph.clone()))?,
            n_inputs,
            graph: joint,
            partition,
            options,
            halves: ForkCell::new(),
        })
    }

    /// The positions of the inputs among those of the [joint](Self::joint) model and of [backward](Self::halves).
    pub fn input_positions(&self) -> Range<usize> {
        0..self.n_inputs
    }

    /// The positions of the cotangents among the inputs of the joint model and of backward.
    pub fn cotangent_positions(&self) -> Range<usize> {
        self.n_inputs..self.n_inputs + self.graph.cotangents.len()
    }

    /// The positions of the outputs among those of the joint model and of forward, whose other outputs are the saved values.
    pub fn output_positions(&self) -> Range<usize> {
        0..self.graph.n_outputs
    }

    /// The positions of the gradients among the outputs of the joint model; backward has no others.
    pub fn gradient_positions(&self) -> Range<usize> {
        self.graph.n_outputs..self.graph.n_outputs + self.graph.gradients.len()
    }

    /// The model that computes outputs and gradients.
    pub fn joint(&self) -> &Model {
        &self.joint
    }

    /// The models of the two halves, loaded when they are first needed.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn halves(&self) -> Result<(&Model, &Model), Error> {
        let halves = self.halves.get_or_try_init(|| {
            let halves = partition(&self.graph, &self.partition)?;
            let forward = self.options.load(Source::graph(halves.forward))?;
            let backward = self.options.load(Source::graph(halves.backward))?;
            Ok::<_, Error>((forward, backward))
        })?;
        Ok((&halves.0, &halves.1))
    }

    /// Computes the outputs and the gradients. The inputs are those of the graph, then the cotangents, if it has any.
    ///
    /// # Errors
    /// As [`Call::run`](crate::Call::run).
    pub fn run<'a>(
        &'a self,
        inputs: impl Into<Inputs<'a>>,
    ) -> Result<(Vec<Tensor>, Vec<Tensor>), Error> {
        let mut tensors = self.joint.run(inputs)?.into_tensors();
        let gradients = tensors.split_off(self.graph.n_outputs.min(tensors.len()));
        Ok((tensors, gradients))
    }

    /// Computes the outputs, and the values that [`backward`](Self::backward) needs.
    ///
    /// # Errors
    /// As [`Call::run`](crate::Call::run), and as [`halves`](Self::halves).
    pub fn forward<'a>(
        &'a self,
        inputs: impl Into<Inputs<'a>>,
    ) -> Result<(Vec<Tensor>, SavedValues), Error> {
        let mut tensors = self.halves()?.0.run(inputs)?.into_tensors();
        let saved = tensors.split_off(self.graph.n_outputs.min(tensors.len()));
        Ok((tensors, SavedValues(saved)))
    }

    /// Computes the gradients: `inputs` are those of the forward pass, and `cotangents` has one tensor for each
    /// differentiated output, or none if all cotangents are 1.
    ///
    /// # Errors
    /// As [`Call::run`](crate::Call::run); E0612 for a wrong number of tensors.
    pub fn backward(
        &self,
        inputs: &[Tensor],
        saved: &SavedValues,
        cotangents: &[Tensor],
    ) -> Result<Vec<Tensor>, Error> {
        if inputs.len() != self.n_inputs || cotangents.len() != self.graph.cotangents.len() {
            return Err(Failure::Backward {
                inputs: self.n_inputs,
                cotangents: self.graph.cotangents.len(),
                given_inputs: inputs.len(),
                given_cotangents: cotangents.len(),
            }
            .into());
        }
        let given = inputs.iter().chain(cotangents).chain(&saved.0);
        let backward = self.halves()?.1;
        Ok(backward.run(given.collect::<Inputs<'_>>())?.into_tensors())
    }
}

impl fmt::Debug for CompiledGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompiledGraph({:?})", self.joint)
    }
}
