//! The figures of the cost model: what each kind of work runs at on one thread.
//!
//! Fitted to the steps of four models (a text encoder, a detector, a recogniser, a classifier) on one AVX2 core, each at
//! several sizes, and rounded. `kiln profile MODEL --cases DIR --threads 1 --rates` prints each beside what a machine
//! gives. Only their ratios decide anything, so one table serves all machines.

use std::fmt;

/// What launching a kernel takes, in nanoseconds.
pub(super) const LAUNCH: f64 = 600.0;
/// What a kernel that sums products takes on top: its phases, the edges of its tiles.
pub(super) const TILES: f64 = 600.0;
/// What each result of a sum of products takes on top of the products, in nanoseconds.
pub(super) const PER_SUM: f64 = 0.3;

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

    /// How much of it is done in a nanosecond: bytes, operations, multiply-adds.
    pub const fn per_nanosecond(self) -> f64 {
        match self {
            WorkKind::Memory => 40.0,
            WorkKind::Constants => 13.0,
            WorkKind::Simple => 38.0,
            WorkKind::Product => 50.0,
            WorkKind::Window => 21.0,
            WorkKind::StridedWindow => 9.0,
            WorkKind::Depthwise => 4.5,
            WorkKind::Transposed => 20.0,
            WorkKind::Pool => 6.0,
        }
    }

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
