//! A function and its graphs, recorded once per combination of argument dtypes and ranks.

use crate::axis_size::{AxisSize, dims_of};
use crate::error::{CallSite, TraceError};
use crate::function::{Arguments, TraceFunction};
use crate::gradient_ops::engine;
use crate::recorded::Recorded;
use crate::recorder::Recorder;
use crate::results::Results;
use crate::var::Var;
use kiln_fork_lock::ForkLock;
use kiln_ir::{Graph, ValueId};
use kiln_shape_inference::{GraphBuilder, InferError, InferErrorKind};
use kiln_symbolic_shape::DimLimits;
use kiln_tensor::{DType, Tensor};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

/// The maximum number of axes.
const MAX_AXES: usize = 32;

/// The property of an argument on which a recording depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArgumentType {
    /// The element type.
    pub dtype: DType,
    /// The number of axes.
    pub rank: usize,
}

impl ArgumentType {
    /// A type.
    pub fn new(dtype: DType, rank: usize) -> Self {
        Self { dtype, rank }
    }

    /// The type of a tensor.
    pub fn of(tensor: &Tensor) -> Self {
        Self::new(tensor.dtype(), tensor.rank())
    }
}

impl fmt::Display for ArgumentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes = vec!["_"; self.rank].join(", ");
        write!(f, "{}[{axes}]", self.dtype)
    }
}

/// The types of all arguments.
pub type Signature = Vec<ArgumentType>;

/// Records a function: its arguments are `x0`, `x1`, … with sizes `x0_0`, `x0_1`, …; its results
/// `y0`, `y1`, …
///
/// # Errors
/// The first op of the function that does not fit its operands, with its source line.
pub fn trace<A: Arguments, F: TraceFunction<A>>(
    name: &str,
    function: &F,
    signature: &[ArgumentType],
) -> Result<Graph, TraceError> {
    trace_within(name, function, signature, DimLimits::default())
}

/// As [`trace`], with other limits for the size table of the graph.
///
/// # Errors
/// As [`trace`].
pub fn trace_within<A: Arguments, F: TraceFunction<A>>(
    name: &str,
    function: &F,
    signature: &[ArgumentType],
    limits: DimLimits,
) -> Result<Graph, TraceError> {
    let recorded = record(name, function, signature, limits, &ArgumentSizes::new())?;
    Ok((**recorded.graph()).clone())
}

/// The sizes that were specified for arguments, by position, with the source line that specified them.
type ArgumentSizes = BTreeMap<usize, (CallSite, Vec<AxisSize>)>;

/// As [`trace_within`], with given sizes of arguments; includes the custom gradients of values.
fn record<A: Arguments, F: TraceFunction<A>>(
    name: &str,
    function: &F,
    signature: &[ArgumentType],
    limits: DimLimits,
    sizes: &ArgumentSizes,
) -> Result<Recorded, TraceError> {
    let mut builder = GraphBuilder::with_limits(name, engine(), limits);
    let mut inputs = Vec::with_capacity(signature.len());
    for (index, &argument) in signature.iter().enumerate() {
        inputs.push(argument_input(&mut builder, index, argument, sizes)?);
    }
    if let Some(&last) = sizes.keys().last()
        && last >= signature.len()
    {
        return Err(TraceError::Arguments {
            expected: A::COUNT,
            found: last + 1,
        });
    }
    let recorder = Recorder::new(builder);
    let variables = inputs
        .into_iter()
        .map(|input| Var::new(&recorder, Some(input)))
        .collect();
    let Some(results) = function.apply(variables) else {
        return Err(TraceError::Arguments {
            expected: A::COUNT,
            found: signature.len(),
        });
    };
    let results = results.into_variables();
    if results.is_empty() {
        return Err(TraceError::NoResult);
    }
    let outputs: Vec<_> = results
        .iter()
        .enumerate()
        .map(|(index, result)| (format!("y{index}"), result.value_in(&recorder)))
        .collect();
    recorder.finish(&outputs)
}

/// The input of an argument.
fn argument_input(
    builder: &mut GraphBuilder,
    index: usize,
    ArgumentType { dtype, rank }: ArgumentType,
    sizes: &ArgumentSizes,
) -> Result<ValueId, TraceError> {
    if rank > MAX_AXES {
        return Err(TraceError::Rank {
            index,
            given: rank,
            limit: MAX_AXES,
        });
    }
    let name = format!("x{index}");
    let here = CallSite(Location::caller());
    let own = (here, vec![AxisSize::Own; rank]);
    let (at, sizes) = sizes.get(&index).unwrap_or(&own);
    let placed = |source: InferError| TraceError::Op { at: *at, source };
    if sizes.len() != rank {
        return Err(placed(InferError::new(
            format!("argument {index}"),
            InferErrorKind::Attribute {
                name: "sizes",
                expected: format!("one for each of its {rank} axes"),
                found: sizes.len().to_string(),
            },
        )));
    }
    let dims = dims_of(builder, &name, sizes).map_err(placed)?;
    Ok(builder.input(&name, dtype, &dims))
}

/// A function with its recordings, each made when its signature is first seen.
pub struct Traced<F, A> {
    name: String,
    function: F,
    limits: DimLimits,
    sizes: ArgumentSizes,
    /// Entries are only ever added, so a panic of the function leaves it valid.
    graphs: ForkLock<BTreeMap<Signature, Recorded>>,
    arguments: PhantomData<fn(A)>,
}

impl<A: Arguments, F: TraceFunction<A>> Traced<F, A> {
    /// The function, not recorded yet.
    pub fn new(name: impl Into<String>, function: F) -> Self {
        Self {
            name: name.into(),
            function,
            limits: DimLimits::default(),
            sizes: ArgumentSizes::new(),
            graphs: ForkLock::default(),
            arguments: PhantomData,
        }
    }

    /// Sets the name of its graphs; clears the recordings.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self {
            limits: self.limits,
            sizes: self.sizes,
            ..Self::new(name, self.function)
        }
    }

    /// Sets the limits for the size tables of its graphs; clears the recordings.
    #[must_use]
    pub fn with_limits(self, limits: DimLimits) -> Self {
        Self {
            limits,
            sizes: self.sizes,
            ..Self::new(self.name, self.function)
        }
    }

    /// Specifies the sizes of the axes of an argument, by its position: numbers, and names, which stand for the same
    /// size wherever they occur. Calls with other sizes, or a different number of axes, are rejected. Clears the
    /// recordings.
    ///
    /// ```
    /// use kiln_tensor::DType;
    /// use kiln_trace::{ArgumentType, Traced, Var};
    ///
    /// let scaled = Traced::new("scaled", |x: Var, scale: Var| x * scale)
    ///     .with_sizes(0, ["batch".into(), "features".into()])
    ///     .with_sizes(1, ["features".into()]);
    /// let graph = scaled.graph(&[ArgumentType::new(DType::F32, 2), ArgumentType::new(DType::F32, 1)])?;
    /// let result = graph.ty(graph.outputs()[0]).display(graph.dims()).to_string();
    /// assert_eq!(result, "f32[batch, features]");
    /// # Ok::<(), kiln_trace::TraceError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn with_sizes(self, argument: usize, sizes: impl IntoIterator<Item = AxisSize>) -> Self {
        let at = CallSite(Location::caller());
        let mut given = self.sizes;
        given.insert(argument, (at, sizes.into_iter().collect()));
        Self {
            limits: self.limits,
            sizes: given,
            ..Self::new(self.name, self.function)
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of recordings.
    pub fn n_recordings(&self) -> usize {
        self.graphs.lock().len()
    }

    /// The graph for arguments of these types, recorded on first use. Two threads may record it concurrently; the first
    /// to finish wins.
    ///
    /// # Errors
    /// As [`trace`].
    pub fn graph(&self, signature: &[ArgumentType]) -> Result<Arc<Graph>, TraceError> {
        Ok(Arc::clone(self.recorded(signature)?.graph()))
    }

    /// As [`graph`](Self::graph), with the custom gradients of values.
    ///
    /// # Errors
    /// As [`trace`].
    pub fn recorded(&self, signature: &[ArgumentType]) -> Result<Recorded, TraceError> {
        if let Some(recorded) = self.graphs.lock().get(signature) {
            return Ok(recorded.clone());
        }
        let limits = self.limits.clone();
        let recorded = record(&self.name, &self.function, signature, limits, &self.sizes)?;
        let mut graphs = self.graphs.lock();
        Ok(graphs.entry(signature.to_vec()).or_insert(recorded).clone())
    }
}

impl<F, A> fmt::Debug for Traced<F, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Traced({})", self.name)
    }
}
