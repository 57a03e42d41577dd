//! Timing: events by category, reports that add up to the wall clock, traces, counters.
//!
//! A [`Timing`] is a recorder. Code whose time matters opens a [`Span`] of a registered event; time outside of spans is
//! shown as unattributed, so that a report is complete: events + unattributed = wall clock. It also has the [`Clock`] that
//! everything above the backends reads. It prints nothing, writes no files, and knows no kernels: a runtime reports events
//! to it.
//!
//! | you want to | use |
//! |---|---|
//! | time something | [`Timing::register`], [`Timing::begin`] |
//! | time a sample of short calls | [`Timing::begin_sampled`], [`Sampler`] |
//! | time a thread's waits | [`Timing::wait`] |
//! | control when the wall clock runs | [`Timing::enter`] |
//! | time compiles, once per specialisation | [`Timing::specialize_and_compile`] |
//! | count | [`Timing::counters`], [`Counter`] |
//! | read it | [`Timing::report`], [`Report::to_text`], [`Report::to_json`], [`Timing::trace`] |
//! | select what is shown | [`Verbosity`], [`Filter`] |
//! | control time in tests | [`ManualClock`] |
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use kiln_timing::{Category, ManualClock, Timing, TimingOptions, Verbosity};
//!
//! let clock = ManualClock::new();
//! let options = TimingOptions::new().verbosity(Verbosity::Verbose);
//! let timing = Timing::new(Arc::new(clock.clone()), options);
//! let passes = timing.register(Category::Build, "passes", "Passes over the graph")?;
//! {
//!     let _inside = timing.enter();
//!     clock.advance(Duration::from_millis(1));
//!     let _span = timing.begin(passes);
//!     clock.advance(Duration::from_millis(9));
//! }
//! let report = timing.report();
//! assert_eq!((report.wall(), report.unattributed()), (Duration::from_millis(10), Duration::from_millis(1)));
//! assert_eq!(report.events[0].name, "passes");
//! # Ok::<(), kiln_timing::TimingError>(())
//! ```
//!
//! # The wall clock
//!
//! It runs while at least one thread is inside: in a span, or in a scope of [`Timing::enter`]. Time during which some
//! threads are in spans is divided equally between their innermost spans; if all of these threads are waiting, it is
//! attributed to the wait events; if no thread is in a span, it is unattributed. So all time is counted exactly once,
//! whatever the number of threads, and the shares add up to the wall clock. Thread times are recorded too: the time
//! that each thread spent in an event, excluding and including the events nested in it.

#![forbid(unsafe_code)]

mod clock;

mod category;
mod event;
mod filter;
mod verbosity;

mod account;
mod counters;
mod inner;
mod lane;
mod options;
mod record;
mod registry;
mod sampler;
mod span;
mod specialize;
mod timing;

mod report;
mod trace;

mod error;

pub use category::Category;
pub use clock::{Clock, ManualClock, SystemClock};
pub use counters::{Counter, CounterValues, Counters};
pub use error::TimingError;
pub use event::{EventId, FunctionEvents};
pub use filter::Filter;
pub use options::TimingOptions;
pub use report::{CategoryReport, EventReport, PartReport, RecordReport, Report};
pub use sampler::Sampler;
pub use span::{Part, Pending, Span};
pub use timing::Timing;
pub use trace::Trace;
pub use verbosity::Verbosity;
