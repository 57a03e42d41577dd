//! The benefit of fusing ops: memory traffic and launches saved.

use std::fmt;

/// The estimated benefit of doing some ops in one kernel rather than one kernel each.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FusionBenefit {
    /// The estimated time as separate kernels divided by that as one kernel; 0 for a node of one op.
    pub estimated_speedup: f64,
    /// Bytes of memory traffic saved, at likely sizes.
    pub bytes_saved: u64,
    /// Bytes that the kernel reads and writes, at likely sizes.
    pub bytes_moved: u64,
    /// The number of kernels saved.
    pub kernels_removed: usize,
    /// The complexity of the kernel: primitive operations per point, with stages weighing more.
    pub complexity: u64,
    /// Estimated nanoseconds of the ops as separate kernels.
    pub nanoseconds_apart: f64,
    /// Estimated nanoseconds of the kernel.
    pub nanoseconds: f64,
}

impl FusionBenefit {
    /// Whether the estimated speed-up reaches `threshold` (1 is break-even) and something is saved.
    pub fn should_fuse(&self, threshold: f64) -> bool {
        self.kernels_removed > 0 && self.estimated_speedup >= threshold
    }
}

impl fmt::Display for FusionBenefit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.2}x, {} bytes and {} kernels saved, complexity {}",
            self.estimated_speedup, self.bytes_saved, self.kernels_removed, self.complexity
        )
    }
}
