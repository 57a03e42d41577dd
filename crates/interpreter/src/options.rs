//! Options of a run, other than the inputs.

use kiln_ir::{OpData, ValueId};
use kiln_scalar::Mode;
use kiln_tensor::Tensor;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The options of a run. The default is [`Mode::Declared`] with default limits and without callbacks.
#[derive(Clone, Copy)]
pub struct InterpretOptions<'a> {
    /// Whether results are rounded to their dtypes, or every float is an `f64`.
    pub mode: Mode,
    /// Limits of the run.
    pub limits: InterpretLimits,
    /// Called with every intermediate, in order of execution; for an op in a loop, once per iteration.
    pub trace: Option<&'a dyn Fn(TraceEvent<'_>)>,
    /// Called before every op, and inside ops after every few ten thousand elements; returns whether to stop.
    pub cancelled: Option<&'a dyn Fn() -> bool>,
    /// The implementations of custom ops.
    pub custom_ops: Option<&'a CustomOps>,
}

impl Default for InterpretOptions<'_> {
    fn default() -> Self {
        Self {
            mode: Mode::Declared,
            limits: InterpretLimits::default(),
            trace: None,
            cancelled: None,
            custom_ops: None,
        }
    }
}

impl fmt::Debug for InterpretOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterpretOptions")
            .field("mode", &self.mode)
            .field("limits", &self.limits)
            .field("trace", &self.trace.is_some())
            .field("cancelled", &self.cancelled.is_some())
            .field("custom_ops", &self.custom_ops)
            .finish()
    }
}

/// Limits of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterpretLimits {
    /// Bytes of the values alive at once, excluding inputs and constants. A view counts as if it were a copy, and a
    /// broadcast as its operand; while an op runs, its approximate temporaries count too.
    pub live_bytes: u64,
    /// Total iterations of all loops.
    pub iterations: u64,
    /// The maximum number of elements of a window of a pooling or a convolution.
    pub window_elements: u64,
}

impl Default for InterpretLimits {
    /// 64 GiB, 2^32 iterations, and 2^24 elements of a window.
    fn default() -> Self {
        Self {
            live_bytes: 64 << 30,
            iterations: 1 << 32,
            window_elements: 1 << 24,
        }
    }
}

/// An intermediate, just computed.
#[derive(Clone, Copy, Debug)]
pub struct TraceEvent<'a> {
    /// The value.
    pub value: ValueId,
    /// Its name, if it has one.
    pub name: Option<&'a str>,
    /// Its tensor.
    pub tensor: &'a Tensor,
    /// The op that produced it.
    pub op: &'a OpData,
}

/// The implementation of an op registered by the user.
pub trait CustomOp: Send + Sync {
    /// Computes the results, which have the graph's types, for operands of the graph's types; also in
    /// [`Mode::Promoted`], where operands are rounded before and results widened after.
    ///
    /// # Errors
    /// A message for the user.
    fn evaluate(&self, arguments: &str, operands: &[Tensor]) -> Result<Vec<Tensor>, String>;
}

/// Custom ops by name.
#[derive(Clone, Default)]
pub struct CustomOps(BTreeMap<String, Arc<dyn CustomOp>>);

impl CustomOps {
    /// No ops.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers an op, and returns the previous one of that name.
    pub fn register(
        &mut self,
        name: impl Into<String>,
        op: Arc<dyn CustomOp>,
    ) -> Option<Arc<dyn CustomOp>> {
        self.0.insert(name.into(), op)
    }

    /// The op with that name.
    pub fn get(&self, name: &str) -> Option<&dyn CustomOp> {
        self.0.get(name).map(AsRef::as_ref)
    }
}

impl fmt::Debug for CustomOps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
