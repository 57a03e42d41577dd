//! The figures of the cost model: what each kind of work runs at, and what a launch takes on top.
//!
//! A device brings its own [`Rates`]. Those of CPUs are for one thread: fitted to the steps of four models (a text encoder, a detector, a recogniser, a classifier) on one AVX2 core, each at
//! several sizes, and rounded. `kiln profile MODEL --cases DIR --threads 1 --rates` prints each beside what a machine
//! gives. Only their ratios decide anything, so one table serves all CPUs.

use std::fmt;

/// How fast a device is taken to be: what the cost model orders fusions by.
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
    /// What launching a kernel takes, in nanoseconds.
    pub(super) launch: f64,
    /// What a kernel that sums products takes on top: its phases, the edges of its tiles. In nanoseconds.
    pub(super) tiles: f64,
    /// What each result of a sum of products takes on top of the products, in nanoseconds.
    pub(super) per_sum: f64,
    /// How much of each kind of work is done in a nanosecond, in the order of [`WorkKind::ALL`].
    work: [f64; WorkKind::ALL.len()],
}

impl Rates {
    /// Those of CPUs.
    pub const CPU: Self = Self {
        launch: 600.0,
        tiles: 600.0,
        per_sum: 0.3,
        work: [40.0, 13.0, 38.0, 50.0, 21.0, 9.0, 4.5, 20.0, 6.0],
    };

    /// With launches that take this many nanoseconds.
    #[must_use]
    pub const fn with_launch(mut self, nanoseconds: f64) -> Self {
        self.launch = nanoseconds;
        self
    }

    /// With so many nanoseconds that each kernel which sums products takes on top, and so many that each of its results does.
    #[must_use]
    pub const fn with_sums(mut self, per_kernel: f64, per_result: f64) -> Self {
        self.tiles = per_kernel;
        self.per_sum = per_result;
        self
    }

    /// With so much work of a kind done in a nanosecond.
    #[must_use]
    pub const fn with_rate(mut self, kind: WorkKind, per_nanosecond: f64) -> Self {
        self.work[kind as usize] = per_nanosecond;
        self
    }

    /// How much work of a kind is done in a nanosecond: bytes, operations, multiply-adds.
    pub const fn per_nanosecond(&self, kind: WorkKind) -> f64 {
        self.work[kind as usize]
    }
}

impl Default for Rates {
    fn default() -> Self {
        Self::CPU
    }
}

/// What limits a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum WorkKind {
    /// Bytes that were just written, or are about to be read: they are in a cache.
    Memory,
    /// Bytes of constants, which a call reads once.
    Constants,
    /// Simple operations on elements.
    Simple,
    /// Multiply-adds of matrix products, windows of one element among them.
    Product,
    /// Multiply-adds of windows over all channels.
    Window,
    /// The same where windows step over elements.
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

    /// The words for it.
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

    /// Whether it is products that are summed.
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
