//! Settings for timing, and the callbacks that report progress.

use crate::notice::{Notice, Notices};
use crate::progress::{self, Progress};
use crate::recording::{self, Recording};
use kiln_timing::Report;

/// Settings for timing, and the callbacks that report progress.
///
/// ```
/// use kiln::timing::Verbosity;
/// use kiln::{Observation, Options, Source, Tensor};
///
/// let observation = Observation::new().timing(Verbosity::Verbose);
/// let text = "graph @id(%x: f32[N]) -> f32[N] { return %x }";
/// let model = Options::new().observe(observation).load(Source::text(text))?;
/// model.run([("x", &Tensor::full(&[3], 1.5f32)?)])?;
/// let report = model.timing().report();
/// assert!(report.event("passes").is_some());
/// assert!(report.sum().abs_diff(report.wall()).as_nanos() <= 100);
/// println!("{report}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Observation {
    pub(crate) recording: Recording,
    pub(crate) on_timing: recording::Listener,
    pub(crate) on_progress: progress::Listener,
    pub(crate) on_notice: Notices,
}

impl Observation {
    /// The defaults: timed at [`Verbosity::Default`](kiln_timing::Verbosity::Default), without callbacks.
    pub fn new() -> Self {
        Self::default()
    }

    /// How much is timed: a verbosity, options with a filter and a number of individually kept spans, or a recorder that
    /// several models share. The book's chapter "Reading a timing report" states the overhead.
    #[must_use]
    pub fn timing(self, recording: impl Into<Recording>) -> Self {
        Self {
            recording: recording.into(),
            ..self
        }
    }

    /// Calls `listener` with the report after the model's first call, unless timing is off. The report also goes to
    /// `tracing` as one event.
    #[must_use]
    pub fn on_timing(self, listener: impl Fn(&Report) + Send + Sync + 'static) -> Self {
        Self {
            on_timing: recording::Listener::new(listener),
            ..self
        }
    }

    /// Calls `listener` during long work, on the thread that does it; kernels are compiled on separate threads.
    #[must_use]
    pub fn on_progress(self, listener: impl Fn(Progress<'_>) + Send + Sync + 'static) -> Self {
        Self {
            on_progress: progress::Listener::new(listener),
            ..self
        }
    }

    /// Calls `listener` when a model runs differently than requested, for example interpreted because this is a debug
    /// build. The notice also goes to `tracing`.
    #[must_use]
    pub fn on_notice(self, listener: impl Fn(&Notice) + Send + Sync + 'static) -> Self {
        Self {
            on_notice: Notices::new(listener),
            ..self
        }
    }
}
