//! Counters of a store: [`RemoteStats`].

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
        }

        /// The statistics of a store since it was opened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct RemoteStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> RemoteStats {
                RemoteStats {
                    $($name: self.$name.load(Ordering::Relaxed),)*
                }
            }
        }

        impl RemoteStats {
            /// Every counter with its name, in order of declaration.
            pub fn counters(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counters! {
    /// Entries read and accepted.
    hits,
    /// Bytes of them.
    bytes_read,
    /// Entries that the store does not have.
    absent,
    /// Entries not requested because they were absent a short while ago.
    believed_absent,
    /// Entries read and rejected: unsigned, damaged, of another key or version.
    rejected,
    /// Reads that took too long.
    timed_out,
    /// Requests that failed otherwise.
    failed,
    /// Requests not made because the circuit breaker was open.
    left_alone,
    /// Times that the circuit breaker opened.
    opened,
    /// Entries written.
    written,
    /// Bytes of them.
    bytes_written,
    /// Entries not written since too many waited.
    dropped,
    /// Entries whose write failed.
    not_written,
    /// Compiles claimed.
    claimed,
    /// Times that another machine held the claim.
    busy,
    /// Claims taken over from machines that did not finish.
    taken_over,
}

pub(crate) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}
