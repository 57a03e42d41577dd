//! The timing of a model, and the summary after its first call.
//!
//! A recorder is created when a model is loaded, one per model unless the options supply one. The events are defined
//! elsewhere: every layer opens its own spans.

use crate::options::Options;
use kiln_fork_lock::ForkLazy;
use kiln_timing::{Category, Report, Span, SystemClock, Timing, TimingOptions, Verbosity};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The recorder of a model.
#[derive(Debug)]
pub(crate) struct Recorder {
    timing: Timing,
    listener: Listener,
    /// Whether the first call was reported.
    is_reported: AtomicBool,
}

/// The recorder of a model's times: its own, or one that several models share.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Recording {
    /// Its own, created with these options when the model is loaded.
    Own(TimingOptions),
    /// The caller's, with its verbosity, filter and records.
    Shared(Timing),
}

impl Default for Recording {
    fn default() -> Self {
        Self::Own(TimingOptions::default())
    }
}

impl From<Verbosity> for Recording {
    fn from(verbosity: Verbosity) -> Self {
        Self::Own(TimingOptions::new().verbosity(verbosity))
    }
}

impl From<TimingOptions> for Recording {
    fn from(options: TimingOptions) -> Self {
        Self::Own(options)
    }
}

impl From<Timing> for Recording {
    fn from(timing: Timing) -> Self {
        Self::Shared(timing)
    }
}

impl Options {
    /// The same options with a recorder, for a model that is about to be loaded.
    pub(crate) fn started(mut self) -> Self {
        let timing = match &self.observation.recording {
            Recording::Shared(timing) => timing.clone(),
            Recording::Own(options) => Timing::new(Arc::new(SystemClock::new()), options.clone()),
        };
        self.recorder = Some(Arc::new(Recorder {
            timing,
            listener: self.observation.on_timing.clone(),
            is_reported: AtomicBool::new(false),
        }));
        self
    }

    /// The same options with one recorder for all models that are loaded with them.
    pub(crate) fn with_one_recorder(self) -> Self {
        let mut started = self.started();
        started.observation.recording = started.timing().clone().into();
        started
    }

    /// The recorder of the model loaded with these options; a disabled one before it is loaded.
    pub(crate) fn timing(&self) -> &Timing {
        static OFF: ForkLazy<Timing> = ForkLazy::new(Timing::off);
        let recorder = self.recorder.as_ref();
        recorder.map_or(&*OFF, |recorder| &recorder.timing)
    }

    /// Runs the wall clock for a call until the first one is reported; later calls time themselves.
    pub(crate) fn enter_first_call(&self) -> Option<Span<'_>> {
        let recorder = self.recorder.as_ref()?;
        let is_reported = recorder.is_reported.load(Ordering::Relaxed);
        (!is_reported).then(|| recorder.timing.enter())
    }

    /// Reports the first call, once.
    pub(crate) fn report_first_call(&self) {
        let Some(recorder) = &self.recorder else {
            return;
        };
        if recorder.is_reported.load(Ordering::Relaxed)
            || recorder.is_reported.swap(true, Ordering::Relaxed)
            || !recorder.timing.is_at(Verbosity::Default)
        {
            return;
        }
        let report = recorder.timing.report();
        let ms = |category| report.category(category).wall_ns as f64 / 1e6;
        tracing::info!(
            wall_ms = report.wall_ns as f64 / 1e6,
            build_ms = ms(Category::Build),
            codegen_ms = ms(Category::Codegen),
            compile_ms = ms(Category::Compile),
            runtime_ms = ms(Category::Runtime),
            unattributed_ms = report.unattributed_ns as f64 / 1e6,
            counted = %report.counters,
            "kiln.timing: the first call"
        );
        if let Listener(Some(listener)) = &recorder.listener {
            listener(&report);
        }
    }
}

/// Begins an event of building a model, registered under its name.
pub(crate) fn building<'a>(timing: &'a Timing, name: &str, description: &str) -> Span<'a> {
    timing.begin(timing.named_exactly(Category::Build, name, description))
}

/// Called with the report after the first call; unset by default.
#[derive(Clone, Default)]
pub(crate) struct Listener(Option<Arc<Callback>>);

type Callback = dyn Fn(&Report) + Send + Sync;

impl Listener {
    pub(crate) fn new(listener: impl Fn(&Report) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Listener" } else { "none" })
    }
}
