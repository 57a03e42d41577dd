//! Seeded faults: mistakes that can be enabled one at a time, to check that tests detect them.
//!
//! They exist only with the feature `seeded-faults`, which is enabled only by a test of the tests; without it [`is_on`] is
//! always false, and the guarded code is not compiled in. Each is a plausible mistake in lowering, planning or code
//! generation.

/// A seeded bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The first element of the remainder that does not fill a vector is omitted.
    TailOffByOne,
    /// A mask has one lane too many.
    WideMask,
    /// The maximum of an empty axis is 0.
    WrongIdentity,
    /// The strides of a buffer's first two axes are swapped.
    SwappedStrides,
    /// An `inside` ignores the last axis.
    DroppedGuard,
    /// A tile that reaches one element into an operand counts as padding.
    WidePadding,
    /// All rows of a tile read and write at the first row's position.
    MissingRowOffset,
    /// The row remainder of a tile is not computed.
    SkippedRows,
    /// A tile with more rows than remain repeats the second to last one.
    LostLastRow,
    /// In a Winograd convolution, the second of two sums omits one term.
    LostPlane,
    /// The two copies of a block's carried value do not alternate.
    UnswappedCopies,
    /// A reversed block runs forwards.
    ForwardCarry,
    /// Sums that should be accumulated in `f64` are accumulated in `f32`.
    NarrowAccumulator,
    /// Unsigned integers are compared as signed ones.
    SignedCompare,
    /// A floored quotient is a truncated one.
    TruncatedQuotient,
    /// Elements within a block of a packed constant are swapped.
    WrongPackPlace,
    /// Every run of an operand that is packed at the call begins one element late.
    MisplacedCopy,
    /// The last unit of work belongs to no task.
    MissingUnit,
    /// All locals in memory begin at one address.
    OverlappingScratch,
    /// A map fused into an array's producer is not applied.
    UnfinishedElement,
    /// Vectors across a boundary between two parts are treated as part of the first.
    CrossedBorder,
    /// A value computed for one row of a tile is used for the next.
    StaleRowValue,
    /// Of equal extrema, the wrong one is found.
    WrongArgTie,
    /// A fault is not reported.
    DroppedReport,
    /// A store that keeps the maximum keeps the minimum.
    WrongCombine,
    /// A transposition does not swap its last two axes.
    SkippedTranspose,
    /// Every part of a concatenation begins one element late.
    WrongConcatOffset,
    /// Borders are 0, regardless of the value they should have.
    WrongBorder,
    /// A plan omits the facts on which it depends.
    ForgottenFact,
    /// Memory is freed after the first use of its contents.
    EarlyReuse,
    /// A launch plan is used for sizes other than those for which it was made.
    StaleLaunchPlan,
}

impl Fault {
    /// Every seeded bug.
    pub const ALL: [Fault; 31] = [
        Fault::TailOffByOne,
        Fault::WideMask,
        Fault::WrongIdentity,
        Fault::SwappedStrides,
        Fault::DroppedGuard,
        Fault::WidePadding,
        Fault::MissingRowOffset,
        Fault::SkippedRows,
        Fault::LostLastRow,
        Fault::LostPlane,
        Fault::UnswappedCopies,
        Fault::ForwardCarry,
        Fault::NarrowAccumulator,
        Fault::SignedCompare,
        Fault::TruncatedQuotient,
        Fault::WrongPackPlace,
        Fault::MisplacedCopy,
        Fault::MissingUnit,
        Fault::OverlappingScratch,
        Fault::UnfinishedElement,
        Fault::CrossedBorder,
        Fault::StaleRowValue,
        Fault::WrongArgTie,
        Fault::DroppedReport,
        Fault::WrongCombine,
        Fault::SkippedTranspose,
        Fault::WrongConcatOffset,
        Fault::WrongBorder,
        Fault::ForgottenFact,
        Fault::EarlyReuse,
        Fault::StaleLaunchPlan,
    ];
}

/// Whether a bug is enabled.
#[cfg(not(feature = "seeded-faults"))]
#[inline(always)]
pub const fn is_on(_fault: Fault) -> bool {
    false
}

#[cfg(feature = "seeded-faults")]
pub use switch::{is_on, switch};

#[cfg(feature = "seeded-faults")]
mod switch {
    use super::Fault;
    use std::sync::atomic::{AtomicU8, Ordering};

    /// The active bug; 0 is none.
    static ON: AtomicU8 = AtomicU8::new(0);

    /// Whether a bug is enabled.
    pub fn is_on(fault: Fault) -> bool {
        ON.load(Ordering::Relaxed) == fault as u8 + 1
    }

    /// Enables a bug, and disables all others, in the whole process.
    pub fn switch(fault: Option<Fault>) {
        ON.store(fault.map_or(0, |fault| fault as u8 + 1), Ordering::Relaxed);
    }
}
