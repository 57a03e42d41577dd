//! Seeded faults: mistakes that can be switched on one at a time, to check that tests detect them.
//!
//! They exist with the feature `seeded-faults` alone, which only a test of the tests enables; without it [`is_on`] is
//! always false, and what it guards is not compiled in. Each is a plausible mistake in lowering, planning or code
//! generation.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The first element that fills no vector is left out.
    TailOffByOne,
    /// A mask has one lane too many.
    WideMask,
    /// The largest of nothing is 0.
    WrongIdentity,
    /// The strides of a buffer's first two axes are exchanged.
    SwappedStrides,
    /// An `inside` does not look at the last axis.
    DroppedGuard,
    /// All rows of a tile read and write the first one's place.
    MissingRowOffset,
    /// The row remainder of a tile is not computed.
    SkippedRows,
    /// A tile of more rows than are left repeats the last but one.
    LostLastRow,
    /// Where windows are summed with fewer products, the second of two sums leaves one out.
    LostPlane,
    /// The two copies of what a block carries do not change roles.
    UnswappedCopies,
    /// A block that runs backwards runs forwards.
    ForwardCarry,
    /// Sums that should be kept in `f64` are kept in `f32`.
    NarrowAccumulator,
    /// Unsigned integers are compared as signed ones.
    SignedCompare,
    /// A floored quotient is a truncated one.
    TruncatedQuotient,
    /// Elements within a block of a packed constant change places.
    WrongPackPlace,
    /// Every run of an operand that is copied at the call begins one element late.
    MisplacedCopy,
    /// The last unit of work belongs to no task.
    MissingUnit,
    /// All locals in memory begin at one place.
    OverlappingScratch,
    /// An array keeps its elements as they come, without what should have been made of them first.
    UnfinishedElement,
    /// Vectors across the boundary between two pieces are taken to be in the first.
    CrossedBorder,
    /// What was computed for one row of a tile is used for the next.
    StaleRowValue,
    /// Of equal extremes the other one is found.
    WrongArgTie,
    /// A fault is not reported.
    DroppedReport,
    /// A store that keeps the larger keeps the smaller.
    WrongCombine,
    /// A transposition leaves its last two axes where they are.
    SkippedTranspose,
    /// Every piece of a concatenation begins one element late.
    WrongConcatOffset,
    /// Borders are 0, whatever they should be.
    WrongBorder,
    /// A plan forgets the facts that it rests on.
    ForgottenFact,
    /// Memory is given away after the first use of what is in it.
    EarlyReuse,
    /// A launch plan serves other sizes than it was made for.
    StaleLaunchPlan,
}

impl Fault {
    /// Every one.
    pub const ALL: [Fault; 30] = [
        Fault::TailOffByOne,
        Fault::WideMask,
        Fault::WrongIdentity,
        Fault::SwappedStrides,
        Fault::DroppedGuard,
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

/// Whether a mistake is switched on.
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

    /// Which one is on; 0 is none.
    static ON: AtomicU8 = AtomicU8::new(0);

    /// Whether a mistake is switched on.
    pub fn is_on(fault: Fault) -> bool {
        ON.load(Ordering::Relaxed) == fault as u8 + 1
    }

    /// Switches a mistake on, and any other off; in the whole process.
    pub fn switch(fault: Option<Fault>) {
        ON.store(fault.map_or(0, |fault| fault as u8 + 1), Ordering::Relaxed);
    }
}
