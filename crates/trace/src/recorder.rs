//! The graph being recorded, shared by its variables and sizes.
//!
//! Invariant: after a failure nothing more is recorded, and the first failure is the result of the recording. Values made
//! after it are meaningless.

use crate::error::{CallSite, TraceError};
use kiln_autodiff::GradientError;
use kiln_ir::{Graph, ValueId};
use kiln_shape_inference::{GraphBuilder, InferError};
use kiln_symbolic_shape::{DimError, DimId, DimTable};
use std::cell::RefCell;
use std::fmt;
use std::panic::Location;
use std::rc::Rc;

/// A recording. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Recorder(Rc<RefCell<State>>);

struct State {
    /// `None` once the recording is finished.
    builder: Option<GraphBuilder>,
    error: Option<TraceError>,
}

impl Recorder {
    pub(crate) fn new(builder: GraphBuilder) -> Self {
        Self(Rc::new(RefCell::new(State {
            builder: Some(builder),
            error: None,
        })))
    }

    /// Whether both belong to one recording.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Records something; `None` if it, or an earlier step, failed.
    #[track_caller]
    pub(crate) fn record<R>(
        &self,
        record: impl FnOnce(&mut GraphBuilder) -> Result<R, InferError>,
    ) -> Option<R> {
        let at = CallSite(Location::caller());
        self.attempt(|builder| record(builder).map_err(|source| TraceError::Op { at, source }))
    }

    /// Records gradients; `None` if that, or an earlier step, failed.
    #[track_caller]
    pub(crate) fn differentiate<R>(
        &self,
        differentiate: impl FnOnce(&mut GraphBuilder) -> Result<R, GradientError>,
    ) -> Option<R> {
        let at = CallSite(Location::caller());
        self.attempt(|builder| {
            differentiate(builder).map_err(|source| TraceError::Gradient { at, source })
        })
    }

    /// Computes with sizes; `None` if that, or an earlier step, failed.
    #[track_caller]
    pub(crate) fn compute(
        &self,
        compute: impl FnOnce(&mut DimTable) -> Result<DimId, DimError>,
    ) -> Option<DimId> {
        let at = CallSite(Location::caller());
        self.attempt(|builder| {
            compute(builder.dims_mut()).map_err(|source| TraceError::Size { at, source })
        })
    }

    fn attempt<R>(
        &self,
        attempt: impl FnOnce(&mut GraphBuilder) -> Result<R, TraceError>,
    ) -> Option<R> {
        let state = &mut *self.0.borrow_mut();
        if state.error.is_some() {
            return None;
        }
        match attempt(state.builder.as_mut()?) {
            Ok(result) => Some(result),
            Err(error) => {
                state.error = Some(error);
                None
            }
        }
    }

    /// Queries the recording; `None` once it is finished.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&GraphBuilder) -> R) -> Option<R> {
        self.0.borrow().builder.as_ref().map(look)
    }

    /// Ends the recording with an error, unless it has one.
    pub(crate) fn fail(&self, error: TraceError) {
        self.0.borrow_mut().error.get_or_insert(error);
    }

    /// The graph with these outputs; variables that live on are meaningless.
    pub(crate) fn finish(
        &self,
        outputs: &[(String, Option<ValueId>)],
    ) -> Result<Graph, TraceError> {
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
            (Some(builder), Some(outputs)) => builder
                .finish(&outputs)
                .map_err(|source| TraceError::Op { at, source }),
            _ => Err(TraceError::Foreign { at }),
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}
