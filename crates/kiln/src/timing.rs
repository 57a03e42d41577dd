//! Where the time went: recorders, how much they record, and their reports and traces.
//!
//! A model has a recorder ([`Model::timing`](crate::Model::timing)); how much it records, an
//! [`Observation`](crate::Observation) says.

pub use crate::recording::Recording;
pub use kiln_timing::{
    Category, CategoryReport, CounterValues, EventReport, Filter, PartReport, RecordReport, Report,
    SystemClock, Timing, TimingError, TimingOptions, Trace, Verbosity,
};
