//! A recording with named inputs and outputs, built step by step.

use crate::axis_size::{AxisSize, dims_of};
use crate::error::TraceError;
use crate::gradient_ops::engine;
use crate::recorder::Recorder;
use crate::var::Var;
use kiln_ir::{Graph, ValueId};
use kiln_shape_inference::GraphBuilder;
use kiln_tensor::{DType, Tensor};

/// A graph being recorded, to which inputs may be added at any time. A [traced](crate::trace) function, in contrast,
/// has a fixed list of arguments.
///
/// ```
/// use kiln_tensor::DType;
/// use kiln_trace::Recording;
///
/// let recording = Recording::new("layer");
/// let x = recording.input("x", DType::F32, ["B".into(), 4.into()]);
/// let w = recording.input("w", DType::F32, [4.into(), 2.into()]);
/// let y = x.matmul(&w).relu();
/// let graph = recording.finish(&[("y", &y)])?;
/// assert_eq!(graph.inputs().len(), 2);
/// # Ok::<(), kiln_trace::TraceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Recording(Recorder);

impl Recording {
    /// An empty recording.
    pub fn new(name: &str) -> Self {
        let builder = GraphBuilder::with_engine(name, engine());
        Self(Recorder::new(builder))
    }

    pub(crate) fn of(recorder: &Recorder) -> Self {
        Self(recorder.clone())
    }

    /// Adds an input. A symbol whose name is not an identifier ends the recording with an error.
    #[track_caller]
    pub fn input(
        &self,
        name: &str,
        dtype: DType,
        sizes: impl IntoIterator<Item = AxisSize>,
    ) -> Var {
        let sizes: Vec<AxisSize> = sizes.into_iter().collect();
        let value = self.0.record(|builder| {
            let dims = dims_of(builder, name, &sizes)?;
            Ok(builder.input(name, dtype, &dims))
        });
        Var::new(&self.0, value)
    }

    /// A constant tensor.
    #[track_caller]
    pub fn constant(&self, tensor: &Tensor) -> Var {
        let value = self.0.record(|builder| builder.constant(tensor.clone()));
        Var::new(&self.0, value)
    }

    /// The graph with these outputs; variables that still exist become meaningless.
    ///
    /// # Errors
    /// The first mistake of the recording, with its source line.
    pub fn finish(self, outputs: &[(&str, &Var)]) -> Result<Graph, TraceError> {
        if outputs.is_empty() {
            return Err(TraceError::NoResult);
        }
        let outputs: Vec<(String, Option<ValueId>)> = outputs
            .iter()
            .map(|(name, variable)| ((*name).to_owned(), variable.value_in(&self.0)))
            .collect();
        let recorded = self.0.finish(&outputs)?;
        Ok((**recorded.graph()).clone())
    }
}
