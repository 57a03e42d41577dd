//! Progress of long operations, for progress bars.
//!
//! Logging is done with `tracing` instead. A listener is called on the working thread, between steps, and should return
//! quickly.

use std::fmt;
use std::sync::Arc;

/// The progress of some work.
///
/// ```
/// use kiln::{Observation, Options, Source, Work};
/// use std::sync::{Arc, Mutex};
///
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let listener = Arc::clone(&seen);
/// let observation = Observation::new().on_progress(move |progress| {
///     listener.lock().unwrap().push(progress.work);
/// });
/// let source = Source::text("graph @id(%x: f32[N]) -> f32[N] { return %x }");
/// Options::new().observe(observation).load(source)?;
/// assert!(seen.lock().unwrap().contains(&Work::Optimize));
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// What is being done.
    pub work: Work,
    /// The next step, such as the name of a pass or an op.
    pub step: &'a str,
    /// How many steps are done.
    pub done: usize,
    /// The total number of steps, if known.
    pub total: Option<usize>,
}

/// The long parts of loading and running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Work {
    /// Reading a model and turning it into a graph.
    Import,
    /// The passes over the graph.
    Optimize,
    /// Deciding which ops become one kernel, and laying out the program.
    Plan,
    /// Compiling the kernels that a call needs.
    Compile,
    /// The ops of a call.
    Run,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Import => "import",
            Self::Optimize => "optimize",
            Self::Plan => "plan",
            Self::Compile => "compile",
            Self::Run => "run",
        })
    }
}

/// Called with progress; unset by default.
#[derive(Clone, Default)]
pub(crate) struct Listener(Option<Arc<Callback>>);

type Callback = dyn Fn(Progress<'_>) + Send + Sync;

impl Listener {
    pub(crate) fn new(listener: impl Fn(Progress<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn notify(&self, work: Work, step: &str, done: usize, total: Option<usize>) {
        if let Some(listener) = &self.0 {
            listener(Progress {
                work,
                step,
                done,
                total,
            });
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Listener" } else { "none" })
    }
}
