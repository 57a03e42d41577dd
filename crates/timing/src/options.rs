//! Options of a recorder: what it times and keeps.

use crate::filter::Filter;
use crate::verbosity::Verbosity;

/// The default number of records kept at [`Verbosity::Debug`].
const DEBUG_RECORDS: usize = 1 << 16;

/// Options of a recorder: what it times and keeps.
#[derive(Clone, Debug, Default)]
pub struct TimingOptions {
    pub(crate) verbosity: Verbosity,
    pub(crate) filter: Filter,
    records: Option<usize>,
}

impl TimingOptions {
    /// The default verbosity, with everything shown.
    pub fn new() -> Self {
        Self::default()
    }

    /// How much is timed and shown.
    #[must_use]
    pub fn verbosity(self, verbosity: Verbosity) -> Self {
        Self { verbosity, ..self }
    }

    /// Which events reports and traces show. All are timed, so that a report still adds up.
    #[must_use]
    pub fn filter(self, filter: Filter) -> Self {
        Self { filter, ..self }
    }

    /// How many spans are kept one by one, for traces: the first ones; later ones are counted. The default is 65,536 for a
    /// recorder that begins at [`Verbosity::Debug`], and none otherwise.
    #[must_use]
    pub fn records(self, records: usize) -> Self {
        Self {
            records: Some(records),
            ..self
        }
    }

    /// How many spans are kept one by one.
    pub(crate) fn record_limit(&self) -> usize {
        let of_verbosity = match self.verbosity {
            Verbosity::Debug => DEBUG_RECORDS,
            _ => 0,
        };
        self.records.unwrap_or(of_verbosity)
    }
}
