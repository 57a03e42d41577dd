//! The graph being recorded, shared by its variables and sizes.
//!
//! Invariant: after a failure nothing more is recorded, and the first failure is the result of the recording. Values
//! created after it are meaningless. A tape reports its failure when it is next read, and can be continued afterwards.

use crate::eager::{EagerFault, EagerValues};
use crate::error::{CallSite, TraceError};
use crate::recorded::Recorded;
use kiln_autodiff::{CustomGradient, GradientError, GradientRules};
use kiln_interpreter::{CustomOp, CustomOps};
use kiln_ir::ValueId;
use kiln_shape_inference::{GraphBuilder, InferError};
use kiln_symbolic_shape::{DimError, DimId, DimTable};
use kiln_tensor::Tensor;
use std::cell::RefCell;
use std::fmt;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

/// A recording. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Recorder(Rc<RefCell<State>>);

struct State {
    /// `None` once the recording is finished.
    builder: Option<GraphBuilder>,
    error: Option<TraceError>,
    /// For a tape: the values so far.
    eager: Option<EagerValues>,
    /// The gradients of values with a custom gradient.
    rules: GradientRules,
    /// How a tape computes the ops whose results are these values.
    custom_ops: CustomOps,
}

impl Recorder {
    pub(crate) fn new(builder: GraphBuilder) -> Self {
        Self::of(builder, None)
    }

    /// A recording that computes its values.
    pub(crate) fn eager(builder: GraphBuilder, values: EagerValues) -> Self {
        Self::of(builder, Some(values))
    }

    fn of(builder: GraphBuilder, eager: Option<EagerValues>) -> Self {
        Self(Rc::new(RefCell::new(State {
            builder: Some(builder),
            error: None,
            eager,
            rules: GradientRules::new(),
            custom_ops: CustomOps::new(),
        })))
    }

    /// Whether both belong to one recording.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Records with the builder; `None` if this, or an earlier step, failed.
    #[track_caller]
    pub(crate) fn record<R>(
        &self,
        record: impl FnOnce(&mut GraphBuilder) -> Result<R, InferError>,
    ) -> Option<R> {
        let at = CallSite(Location::caller());
        self.attempt(at, |builder| {
            record(builder).map_err(|source| TraceError::Op { at, source })
        })
    }

    /// Records an input of a tape, whose sizes are symbols that begin with its name.
    #[track_caller]
    pub(crate) fn add_valued_input(&self, name: &str, tensor: &Tensor) -> Option<ValueId> {
        let at = CallSite(Location::caller());
        let value = self.attempt(at, |builder| {
            let dims: Vec<DimId> = (0..tensor.rank())
                .map(|axis| {
                    let symbol = builder.dims_mut().fresh(&format!("{name}_{axis}"));
                    builder.dims_mut().dim(symbol)
                })
                .collect();
            Ok(builder.input(name, tensor.dtype(), &dims))
        })?;
        let state = &mut *self.0.borrow_mut();
        let (builder, eager) = (state.builder.as_ref()?, state.eager.as_mut()?);
        match eager.add_input(builder.graph(), value, tensor) {
            Ok(()) => Some(value),
            Err(fault) => {
                state.error = Some(faulted(at, fault));
                None
            }
        }
    }

    /// The tensor of a value of a tape.
    pub(crate) fn tensor(&self, value: ValueId) -> Option<Tensor> {
        self.0.borrow().eager.as_ref()?.get(value).cloned()
    }

    /// The first failure, reported once.
    pub(crate) fn take_error(&self) -> Option<TraceError> {
        self.0.borrow_mut().error.take()
    }

    /// Records gradients; `None` if that, or an earlier step, failed.
    #[track_caller]
    pub(crate) fn differentiate<R>(
        &self,
        differentiate: impl FnOnce(&mut GraphBuilder, &GradientRules) -> Result<R, GradientError>,
    ) -> Option<R> {
        let at = CallSite(Location::caller());
        let rules = self.0.borrow().rules.clone();
        self.attempt(at, |builder| {
            differentiate(builder, &rules).map_err(|source| TraceError::Gradient { at, source })
        })
    }

    /// Adds the gradient of some values, under the name of the custom op whose results they are, and how a tape
    /// computes the op.
    pub(crate) fn add_rule(
        &self,
        name: &str,
        rule: Arc<dyn CustomGradient>,
        op: Arc<dyn CustomOp>,
    ) {
        let state = &mut *self.0.borrow_mut();
        state.rules.register(name, rule);
        state.custom_ops.register(name, op);
    }

    /// The gradients of values with a custom gradient.
    pub(crate) fn rules(&self) -> GradientRules {
        self.0.borrow().rules.clone()
    }

    /// Takes the builder and the first failure; variables that still exist become meaningless.
    pub(crate) fn into_parts(self) -> (Option<GraphBuilder>, Option<TraceError>) {
        let state = &mut *self.0.borrow_mut();
        (state.builder.take(), state.error.take())
    }

    /// Computes sizes; `None` if this, or an earlier step, failed.
    #[track_caller]
    pub(crate) fn compute(
        &self,
        compute: impl FnOnce(&mut DimTable) -> Result<DimId, DimError>,
    ) -> Option<DimId> {
        let at = CallSite(Location::caller());
        self.attempt(at, |builder| {
            compute(builder.dims_mut()).map_err(|source| TraceError::Size { at, source })
        })
    }

    fn attempt<R>(
        &self,
        at: CallSite,
        attempt: impl FnOnce(&mut GraphBuilder) -> Result<R, TraceError>,
    ) -> Option<R> {
        let state = &mut *self.0.borrow_mut();
        if state.error.is_some() {
            return None;
        }
        let builder = state.builder.as_mut()?;
        let recorded = attempt(builder).and_then(|result| {
            if let Some(eager) = &mut state.eager {
                let advanced = eager.advance(builder.graph(), &state.custom_ops);
                advanced.map_err(|fault| faulted(at, fault))?;
            }
            Ok(result)
        });
        match recorded {
            Ok(result) => Some(result),
            Err(error) => {
                state.error = Some(error);
                None
            }
        }
    }

    /// Records control flow, whose regions lend their builder to this recorder; `None` if this, or an earlier step,
    /// failed.
    #[track_caller]
    pub(crate) fn record_nested<R>(
        &self,
        record: impl FnOnce(&mut GraphBuilder, &Nest<'_>) -> Result<R, NestedError>,
    ) -> Option<R> {
        let at = CallSite(Location::caller());
        let (mut builder, eager) = {
            let state = &mut *self.0.borrow_mut();
            if state.error.is_some() {
                return None;
            }
            // The values inside a region do not exist yet.
            (state.builder.take()?, state.eager.take())
        };
        let recorded = record(&mut builder, &Nest(self));
        let state = &mut *self.0.borrow_mut();
        state.builder = Some(builder);
        state.eager = eager;
        match recorded {
            Ok(result) if state.error.is_none() => {
                let advanced = match (&mut state.eager, &state.builder) {
                    (Some(eager), Some(builder)) => {
                        eager.advance(builder.graph(), &state.custom_ops)
                    }
                    _ => Ok(()),
                };
                match advanced {
                    Ok(()) => Some(result),
                    Err(fault) => {
                        state.error = Some(faulted(at, fault));
                        None
                    }
                }
            }
            Ok(_) | Err(NestedError::Failed) => {
                state.error.get_or_insert(TraceError::Foreign { at });
                None
            }
            Err(NestedError::Infer(source)) => {
                state.error.get_or_insert(TraceError::Op { at, source });
                None
            }
        }
    }

    /// Takes the builder of an open region, until it is [taken back](Self::take_back).
    fn lend(&self, builder: &mut GraphBuilder) {
        let lent = std::mem::replace(builder, GraphBuilder::new(""));
        self.0.borrow_mut().builder = Some(lent);
    }

    /// Returns the builder of an open region.
    fn take_back(&self, builder: &mut GraphBuilder) {
        if let Some(lent) = self.0.borrow_mut().builder.take() {
            *builder = lent;
        }
    }

    /// Queries the recording; `None` once it is finished.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&GraphBuilder) -> R) -> Option<R> {
        self.0.borrow().builder.as_ref().map(look)
    }

    /// Ends the recording with an error, unless it already has one.
    pub(crate) fn fail(&self, error: TraceError) {
        self.0.borrow_mut().error.get_or_insert(error);
    }

    /// The recording with these outputs; variables that still exist become meaningless.
    pub(crate) fn finish(
        &self,
        outputs: &[(String, Option<ValueId>)],
    ) -> Result<Recorded, TraceError> {
        let at = CallSite(Location::caller());
        let state = &mut *self.0.borrow_mut();
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        let outputs: Option<Vec<(&str, ValueId)>> = outputs
            .iter()
            .map(|(name, value)| Some((name.as_str(), (*value)?)))
            .collect();
        match (state.builder.take(), outputs) {
            (Some(builder), Some(outputs)) => {
                let graph = builder.finish(&outputs);
                let graph = graph.map_err(|source| TraceError::Op { at, source })?;
                Ok(Recorded::new(graph, std::mem::take(&mut state.rules)))
            }
            _ => Err(TraceError::Foreign { at }),
        }
    }
}

/// Why a nested recording failed: an op does not fit, or the recorder already has a failure.
pub(crate) enum NestedError {
    /// An op does not fit.
    Infer(InferError),
    /// The recorder has the failure.
    Failed,
}

impl From<InferError> for NestedError {
    fn from(error: InferError) -> Self {
        Self::Infer(error)
    }
}

/// Lends the builder of an open region to the recorder.
pub(crate) struct Nest<'a>(&'a Recorder);

impl Nest<'_> {
    /// Records in the open region.
    pub(crate) fn enter<R>(
        &self,
        builder: &mut GraphBuilder,
        record: impl FnOnce(&Recorder) -> Option<R>,
    ) -> Result<R, NestedError> {
        self.0.lend(builder);
        let recorded = record(self.0);
        self.0.take_back(builder);
        recorded.ok_or(NestedError::Failed)
    }
}

fn faulted(at: CallSite, fault: EagerFault) -> TraceError {
    let EagerFault { op, message, code } = fault;
    TraceError::Fault {
        at,
        op,
        message,
        code,
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}
