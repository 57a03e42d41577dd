//! Every limit a user may set, in one place.

use kiln_interpreter::InterpretLimits;

/// When to give up, rather than take all memory or run for ever.
///
/// ```
/// let mut limits = kiln::Limits::default();
/// limits.run.live_bytes = 1 << 30;
/// let options = kiln::Options::new().limits(limits);
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Limits {
    /// Limits of reading an ONNX model.
    #[cfg(feature = "onnx")]
    pub onnx: kiln_onnx::Limits,
    /// Limits of each call.
    pub run: InterpretLimits,
}
