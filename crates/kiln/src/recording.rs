//! What a model times, and the summary after its first call.
//!
//! A recorder is made when a model is loaded, one per model unless the options bring one. Not here: what is timed;
//! every layer opens its own spans.

use crate::options::Options;
use kiln_fork_lock::ForkLazy;
use kiln_timing::{Category, Filter, Report, Span, SystemClock, Timing, TimingOptions, Verbosity};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How to time; and, in the options of a model that was loaded, its recorder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recording {
    options: TimingOptions,
    given: Option<Timing>,
    listener: Listener,
    recorder: Option<Arc<Recorder>>,
}

/// The recorder of a model.
#[derive(Debug)]
struct Recorder {
    timing: Timing,
    listener: Listener,
    /// Whether the first call was told of.
    is_told: AtomicBool,
}

impl Options {
    /// How much is timed; [`Verbosity::Default`] without this. What it costs is in the book's chapter
    /// "Reading a timing report".
    ///
    /// ```
    /// use kiln::timing::{Category, Verbosity};
    /// use kiln::{Model, Options, Tensor};
    ///
    /// let text = "graph @id(%x: f32[N]) -> f32[N] { return %x }";
    /// let model = Model::from_text_with(text, Options::new().timing(Verbosity::Verbose))?;
    /// model.run([("x", &Tensor::full(&[3], 1.5f32)?)])?;
    /// let report = model.timing().report();
    /// assert!(report.event("passes").is_some());
    /// assert!(report.sum().abs_diff(report.wall()).as_nanos() <= 100);
    /// println!("{report}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn timing(mut self, verbosity: Verbosity) -> Self {
        self.recording.options = self.recording.options.verbosity(verbosity);
        self
    }

    /// Which events reports and traces show; all of them without this.
    #[must_use]
    pub fn timing_filter(mut self, filter: Filter) -> Self {
        self.recording.options = self.recording.options.filter(filter);
        self
    }

    /// How many spans are kept one by one, for [`Timing::trace`]; none without this, unless at [`Verbosity::Debug`].
    #[must_use]
    pub fn timing_records(mut self, records: usize) -> Self {
        self.recording.options = self.recording.options.records(records);
        self
    }

    /// Times into a recorder of one's own, which several models may share; verbosity, filter and records are then the
    /// recorder's.
    #[must_use]
    pub fn recorder(mut self, timing: Timing) -> Self {
        self.recording.given = Some(timing);
        self
    }

    /// Calls `listener` with the report after the model's first call, unless timing is off. The same goes to `tracing`
    /// as one event.
    #[must_use]
    pub fn on_timing(mut self, listener: impl Fn(&Report) + Send + Sync + 'static) -> Self {
        self.recording.listener = Listener(Some(Arc::new(listener)));
        self
    }

    /// The same with a recorder, for a model that is about to be loaded.
    pub(crate) fn started(mut self) -> Self {
        let Recording {
            options,
            given,
            listener,
            recorder,
        } = &mut self.recording;
        let timing = match given {
            Some(timing) => timing.clone(),
            None => Timing::new(Arc::new(SystemClock::new()), options.clone()),
        };
        *recorder = Some(Arc::new(Recorder {
            timing,
            listener: listener.clone(),
            is_told: AtomicBool::new(false),
        }));
        self
    }

    /// The same with one recorder for all models that are loaded with them.
    pub(crate) fn with_one_recorder(self) -> Self {
        let started = self.started();
        let timing = started.clockwork().clone();
        started.recorder(timing)
    }

    /// The recorder of the model that these options are of; one that is off for options of none.
    pub(crate) fn clockwork(&self) -> &Timing {
        static OFF: ForkLazy<Timing> = ForkLazy::new(Timing::off);
        let recorder = self.recording.recorder.as_ref();
        recorder.map_or(&*OFF, |recorder| &recorder.timing)
    }

    /// Lets the wall clock run for a call, as long as the first one was not told of; later ones time themselves.
    pub(crate) fn enter_first_call(&self) -> Option<Span<'_>> {
        let recorder = self.recording.recorder.as_ref()?;
        let is_told = recorder.is_told.load(Ordering::Relaxed);
        (!is_told).then(|| recorder.timing.enter())
    }

    /// Tells of the first call, once.
    pub(crate) fn tell_first_call(&self) {
        let Some(recorder) = &self.recording.recorder else {
            return;
        };
        if recorder.is_told.load(Ordering::Relaxed)
            || recorder.is_told.swap(true, Ordering::Relaxed)
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

/// Whoever wants the report; nobody by default.
#[derive(Clone, Default)]
struct Listener(Option<Arc<Callback>>);

type Callback = dyn Fn(&Report) + Send + Sync;

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Listener" } else { "none" })
    }
}
