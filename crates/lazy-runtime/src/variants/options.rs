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
    /// The same for all kernels of a process together.
    pub in_process: usize,
    /// By how many hundredths of the generic kernel's time a variant must be faster to be kept.
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

    /// With another time.
    #[must_use]
    pub fn with_after(self, after: Duration) -> Self {
        Self { after, ..self }
    }

    /// With another maximum number of variants of a kernel.
    #[must_use]
    pub fn with_per_kernel(self, per_kernel: usize) -> Self {
        Self { per_kernel, ..self }
    }

    /// With another maximum number of variants of a process.
    #[must_use]
    pub fn with_in_process(self, in_process: usize) -> Self {
        Self { in_process, ..self }
    }

    /// With another margin, in hundredths.
    #[must_use]
    pub fn with_margin(self, margin: u32) -> Self {
        Self { margin, ..self }
    }
}
