//! Timing: recorders, their verbosity, and their reports and traces.
//!
//! A model has a recorder ([`Model::timing`](crate::Model::timing)); an [`Observation`](crate::Observation) sets how much
//! it records.

pub use crate::recording::Recording;
pub use kiln_timing::{
    Category, CategoryReport, CounterValues, EventReport, Filter, PartReport, RecordReport, Report,
    SystemClock, Timing, TimingError, TimingOptions, Trace, Verbosity,
};
