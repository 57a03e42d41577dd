//! Sliding-window depthwise convolution: windows whose taps along the tile's rows are unrolled to share loads.

use kiln_kernel::analysis::{Dependence, SlidingWindow};
use kiln_kernel::{AxisId, NodeId, VerifiedKernel};

/// The maximum number of taps that are unrolled: their weights, the sums and an element fit the registers of every
/// level.
const MAX_TAPS: i64 = 7;

/// How a value reduced over `taps` slides along rows, if there are few enough taps.
pub fn sliding_window(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    value: NodeId,
    rows: AxisId,
    taps: AxisId,
) -> Option<SlidingWindow> {
    let window = SlidingWindow::of(kernel, dependence, value, rows, taps)?;
    (2..=MAX_TAPS).contains(&window.n_taps).then_some(window)
}
