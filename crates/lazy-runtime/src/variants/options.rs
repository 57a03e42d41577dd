//! When variants are built, and how many.

use std::time::Duration;

/// When kernels get variants for frequent sizes.
///
/// ```
/// use kiln_lazy_runtime::VariantOptions;
/// use std::time::Duration;
///
/// let options = VariantOptions::new().with_after(Duration::from_secs(5)).with_per_kernel(2);
/// assert_eq!(options.per_kernel, 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VariantOptions {
    /// How long a kernel has run at the same sizes before it gets a variant for them.
    pub after: Duration,
    /// The maximum number of variants of a kernel, including those that lost.
    pub per_kernel: usize,
    /// The maximum number of variants of all kernels of a process.
    pub in_process: usize,
    /// The percentage of the generic kernel's time by which a variant must be faster to be kept.
    pub margin: u32,
}

impl Default for VariantOptions {
    fn default() -> Self {
        Self {
            after: Duration::from_secs(1),
            per_kernel: 4,
            in_process: 128,
            margin: 5,
        }
    }
}

impl VariantOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time that a kernel must have run.
    #[must_use]
    pub fn with_after(self, after: Duration) -> Self {
        Self { after, ..self }
    }

    /// Sets the maximum number of variants of a kernel.
    #[must_use]
    pub fn with_per_kernel(self, per_kernel: usize) -> Self {
        Self { per_kernel, ..self }
    }

    /// Sets the maximum number of variants of a process.
    #[must_use]
    pub fn with_in_process(self, in_process: usize) -> Self {
        Self { in_process, ..self }
    }

    /// Sets the margin, in percent.
    #[must_use]
    pub fn with_margin(self, margin: u32) -> Self {
        Self { margin, ..self }
    }
}
