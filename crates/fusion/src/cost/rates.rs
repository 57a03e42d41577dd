//! The parameters of the cost model: the rate of each kind of work, and the overhead of a launch.
//!
//! A device provides its own [`Rates`]. Those of CPUs are for one thread: fitted to the steps of four models (a text
//! encoder, a detector, a recogniser, a classifier) on one AVX2 core, each at several sizes, and rounded. `kiln profile
//! MODEL --cases DIR --threads 1 --rates` prints each next to the machine's measured rate. Only their ratios matter, so
//! one table serves all CPUs.

use std::fmt;

/// The assumed speed of a device, by which the cost model orders fusions.
///
/// ```
/// use kiln_fusion::{Rates, WorkKind};
///
/// // A device whose launches are dear and whose memory is fast.
/// let rates = Rates::CPU.with_launch(3000.0).with_rate(WorkKind::Memory, 2000.0);
/// assert_eq!(rates.per_nanosecond(WorkKind::Product), Rates::CPU.per_nanosecond(WorkKind::Product));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// The cost of launching a kernel, in nanoseconds.
    pub(super) launch: f64,
    /// The overhead of a kernel that sums products: its phases, the edges of its tiles. In nanoseconds.
    pub(super) tiles: f64,
    /// The overhead of each result of a sum of products, in nanoseconds.
    pub(super) per_sum: f64,
    /// The amount of each kind of work done in a nanosecond, in the order of [`WorkKind::ALL`].
    work: [f64; WorkKind::ALL.len()],
}

impl Rates {
    /// The rates of CPUs.
    pub const CPU: Self = Self {
        launch: 600.0,
        tiles: 600.0,
        per_sum: 0.3,
        work: [40.0, 13.0, 38.0, 50.0, 21.0, 9.0, 4.5, 20.0, 6.0],
    };

    /// Sets the cost of a launch in nanoseconds.
    #[must_use]
    pub const fn with_launch(mut self, nanoseconds: f64) -> Self {
        self.launch = nanoseconds;
        self
    }

    /// Sets the overheads in nanoseconds of each kernel that sums products, and of each of its results.
    #[must_use]
    pub const fn with_sums(mut self, per_kernel: f64, per_result: f64) -> Self {
        self.tiles = per_kernel;
        self.per_sum = per_result;
        self
    }

    /// Sets the amount of a kind of work done in a nanosecond.
    #[must_use]
    pub const fn with_rate(mut self, kind: WorkKind, per_nanosecond: f64) -> Self {
        self.work[kind as usize] = per_nanosecond;
        self
    }

    /// The amount of a kind of work done in a nanosecond: bytes, operations, multiply-adds.
    pub const fn per_nanosecond(&self, kind: WorkKind) -> f64 {
        self.work[kind as usize]
    }
}

impl Default for Rates {
    fn default() -> Self {
        Self::CPU
    }
}

/// The bound of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum WorkKind {
    /// Bytes that were just written, or are read again soon, and so are in a cache.
    Memory,
    /// Bytes of constants, which a call reads once.
    Constants,
    /// Simple operations on elements.
    Simple,
    /// Multiply-adds of matrix products, including windows of one element.
    Product,
    /// Multiply-adds of windows over all channels.
    Window,
    /// The same with a stride above 1.
    StridedWindow,
    /// Multiply-adds of windows over one channel each.
    Depthwise,
    /// Multiply-adds of transposed windows.
    Transposed,
    /// Elements of windows that are not multiplied.
    Pool,
}

impl WorkKind {
    /// Every kind.
    pub const ALL: [WorkKind; 9] = [
        WorkKind::Memory,
        WorkKind::Constants,
        WorkKind::Simple,
        WorkKind::Product,
        WorkKind::Window,
        WorkKind::StridedWindow,
        WorkKind::Depthwise,
        WorkKind::Transposed,
        WorkKind::Pool,
    ];

    /// Its display name.
    pub const fn as_words(self) -> &'static str {
        match self {
            WorkKind::Memory => "memory",
            WorkKind::Constants => "constants",
            WorkKind::Simple => "simple",
            WorkKind::Product => "product",
            WorkKind::Window => "window",
            WorkKind::StridedWindow => "strided window",
            WorkKind::Depthwise => "depthwise",
            WorkKind::Transposed => "transposed",
            WorkKind::Pool => "pool",
        }
    }

    /// Whether products are summed.
    pub(super) fn sums_products(self) -> bool {
        match self {
            WorkKind::Product
            | WorkKind::Window
            | WorkKind::StridedWindow
            | WorkKind::Depthwise
            | WorkKind::Transposed => true,
            WorkKind::Memory | WorkKind::Constants | WorkKind::Simple | WorkKind::Pool => false,
        }
    }
}

impl fmt::Display for WorkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_words())
    }
}
