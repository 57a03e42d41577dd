//! Variables: the values of a recorded function.

mod contraction;
mod control;
mod elementwise;
mod gradient;
mod layout;
mod movement;
mod operators;
mod order;
mod random;
mod reduction;
mod scan;
mod sources;
mod statistics;
mod updates;
mod window;

pub use elementwise::Operand;
pub use reduction::Axes;
pub use scan::Step;
pub use window::WindowOptions;

use crate::error::{CallSite, TraceError};
use crate::recorder::Recorder;
use crate::size::Size;
use kiln_ir::ValueId;
use kiln_shape_inference::Number;
use kiln_shape_inference::{GraphBuilder, InferError};
use kiln_tensor::{DType, Tensor};
use std::fmt;
use std::panic::Location;

/// A tensor that does not exist yet: an argument of a recorded function, or a value computed in it.
///
/// Methods take variables by value or by reference. Axes may count from the end: -1 is the last. Mistakes do not panic:
/// the first ends the recording with an error that has its source line.
#[derive(Clone)]
pub struct Var {
    recorder: Recorder,
    /// `None` once the recording failed.
    value: Option<ValueId>,
}

impl Var {
    pub(crate) fn new(recorder: &Recorder, value: Option<ValueId>) -> Self {
        Self {
            recorder: recorder.clone(),
            value,
        }
    }

    /// Its value in a recording.
    #[track_caller]
    pub(crate) fn value_in(&self, recorder: &Recorder) -> Option<ValueId> {
        if !self.recorder.is(recorder) {
            let at = CallSite(Location::caller());
            recorder.fail(TraceError::Foreign { at });
            return None;
        }
        self.value
    }

    /// Its recording.
    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Its value, unless the recording failed.
    pub(crate) fn id(&self) -> Option<ValueId> {
        self.value
    }

    /// Whether it belongs to a recording.
    pub(crate) fn is_of(&self, recorder: &Recorder) -> bool {
        self.recorder.is(recorder)
    }

    /// Records ops on this variable.
    #[track_caller]
    fn record(
        &self,
        record: impl FnOnce(&mut GraphBuilder, ValueId) -> Result<ValueId, InferError>,
    ) -> Var {
        // A closure would hide the caller's line.
        let value = match self.value {
            Some(value) => self.recorder.record(|builder| record(builder, value)),
            None => None,
        };
        Var::new(&self.recorder, value)
    }

    /// Records ops on this variable and others.
    #[track_caller]
    fn record_with(
        &self,
        others: &[&Var],
        record: impl FnOnce(&mut GraphBuilder, ValueId, &[ValueId]) -> Result<ValueId, InferError>,
    ) -> Var {
        let mut values = Vec::with_capacity(others.len());
        for other in others {
            match other.value_in(&self.recorder) {
                Some(value) => values.push(value),
                None => return Var::new(&self.recorder, None),
            }
        }
        self.record(|builder, value| record(builder, value, &values))
    }

    /// A constant tensor of this recording, such as a weight.
    #[track_caller]
    pub fn constant(&self, tensor: &Tensor) -> Var {
        self.record(|builder, _| builder.constant(tensor.clone()))
    }

    /// A number of this variable's element type. A number that the type cannot represent, such as 0.5 with an `i32`, ends
    /// the recording with E0804.
    #[track_caller]
    pub fn scalar(&self, number: f64) -> Var {
        self.number(Number::Float(number))
    }

    #[track_caller]
    pub(crate) fn number(&self, number: Number) -> Var {
        let Some(dtype) = self.dtype() else {
            return Var::new(&self.recorder, None);
        };
        match number.tensor(dtype) {
            Some(tensor) => self.constant(&tensor),
            None => {
                self.recorder.fail(TraceError::Number {
                    at: CallSite(Location::caller()),
                    dtype,
                    number: number.to_string(),
                });
                Var::new(&self.recorder, None)
            }
        }
    }

    /// The element type; `None` after a mistake.
    pub fn dtype(&self) -> Option<DType> {
        let value = self.value?;
        self.recorder.look(|builder| builder.dtype(value).ok())?
    }

    /// The number of axes; 0 after a mistake.
    pub fn rank(&self) -> usize {
        let rank = self.value.and_then(|value| {
            self.recorder
                .look(|builder| builder.rank(value).ok())
                .flatten()
        });
        rank.unwrap_or(0)
    }

    /// The size of an axis.
    #[track_caller]
    pub fn size(&self, axis: i64) -> Size {
        let dim = match self.value {
            Some(value) => self.recorder.record(|builder| {
                let axis = builder.axis(value, axis)?;
                Ok(builder.shape(value)?.get(axis).copied())
            }),
            None => None,
        };
        Size::symbolic(&self.recorder, dim.flatten())
    }
}

impl fmt::Debug for Var {
    /// The variable in the graph's text form: `%3: f32[x0_0, 64]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let described = self
            .value
            .and_then(|value| self.recorder.look(|builder| builder.describe(value)));
        f.write_str(described.as_deref().unwrap_or("a variable without a value"))
    }
}
