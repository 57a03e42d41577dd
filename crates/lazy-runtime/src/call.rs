//! The limits of one call, and its cancellation: [`CallOptions`], [`Cancellation`], [`CallControl`].
//!
//! A cancelled call ends between two steps or two iterations of a loop, within a launch or an interpreted op, or while
//! it waits for code; its resources are released as at the end of any call. Running code polls the call's stop word;
//! [`Watch`](crate::watch::Watch) sets it. A call that cannot be cancelled has no stop word.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use kiln_backend::StopSignal;
use kiln_interpreter::InterpretError;

use crate::clock::Clock;
use crate::error::RuntimeError;

/// A handle that cancels calls from any thread; its clones share one state.
///
/// ```
/// use kiln_lazy_runtime::{CallOptions, Cancellation};
///
/// let cancellation = Cancellation::new();
/// let options = CallOptions::new().with_cancellation(&cancellation);
/// assert!(!cancellation.is_cancelled());
/// // From another thread, while `run_with(inputs, &options)` is under way:
/// cancellation.cancel();
/// assert!(cancellation.is_cancelled());
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// A handle that has not been cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the calls that use this handle, now and later.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

type Question = Arc<dyn Fn() -> bool + Send + Sync>;

/// The limits of a call, and its cancellation; by default none.
#[derive(Clone, Default)]
pub struct CallOptions {
    cancellation: Option<Cancellation>,
    should_stop: Option<Question>,
    time_limit: Option<Duration>,
}

impl CallOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancelled by this handle, with `E0835`.
    #[must_use]
    pub fn with_cancellation(mut self, cancellation: &Cancellation) -> Self {
        self.cancellation = Some(cancellation.clone());
        self
    }

    /// Cancelled once the callback returns true, with `E0835`. It is called often, on any thread that works for the call
    /// and on one that watches all calls of a runtime, so it should return immediately.
    #[must_use]
    pub fn with_should_stop(mut self, should_stop: Arc<dyn Fn() -> bool + Send + Sync>) -> Self {
        self.should_stop = Some(should_stop);
        self
    }

    /// With a time limit, including waits for compilers; exceeding it is `E0894`.
    #[must_use]
    pub fn with_time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// The control of a call that begins now; `None` if nothing can end it.
    pub fn control(&self, clock: Arc<dyn Clock>) -> Option<CallControl> {
        if self.cancellation.is_none() && self.should_stop.is_none() && self.time_limit.is_none() {
            return None;
        }
        let until = self
            .time_limit
            .map(|limit| clock.now().saturating_add(limit));
        Some(CallControl {
            options: self.clone(),
            until,
            clock,
            stopped: AtomicU32::new(GOES_ON),
        })
    }
}

impl fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallOptions")
            .field("cancellation", &self.cancellation)
            .field("should_stop", &self.should_stop.is_some())
            .field("time_limit", &self.time_limit)
            .finish()
    }
}

const GOES_ON: u32 = 0;
const CANCELLED: u32 = 1;
const LATE: u32 = 2;

/// Controls one call. Once the call is to end, this is permanent.
pub struct CallControl {
    options: CallOptions,
    until: Option<Duration>,
    clock: Arc<dyn Clock>,
    /// The stop word that compiled code reads.
    stopped: AtomicU32,
}

impl CallControl {
    /// Returns an error once the call is to end.
    ///
    /// # Errors
    /// `E0835` when it was cancelled, `E0894` when it took too long.
    pub fn check(&self) -> Result<(), RuntimeError> {
        match self.look() {
            GOES_ON => Ok(()),
            LATE => Err(RuntimeError::CallTimeout {
                limit: self.options.time_limit.unwrap_or_default(),
            }),
            _ => Err(InterpretError::Cancelled.into()),
        }
    }

    /// Cancels the call, if nothing ended it before.
    pub(crate) fn cancel(&self) {
        let relaxed = Ordering::Relaxed;
        let _ended_before = self
            .stopped
            .compare_exchange(GOES_ON, CANCELLED, relaxed, relaxed);
    }

    /// The time left until the call's limit.
    pub(crate) fn left(&self) -> Option<Duration> {
        let until = self.until?;
        Some(until.saturating_sub(self.clock.now()))
    }

    fn look(&self) -> u32 {
        let known = self.stopped.load(Ordering::Relaxed);
        if known != GOES_ON {
            return known;
        }
        let CallOptions {
            cancellation,
            should_stop,
            ..
        } = &self.options;
        let is_cancelled = cancellation
            .as_ref()
            .is_some_and(Cancellation::is_cancelled)
            || should_stop
                .as_ref()
                .is_some_and(|should_stop| should_stop());
        let found = if is_cancelled {
            CANCELLED
        } else if self.until.is_some_and(|until| self.clock.now() >= until) {
            LATE
        } else {
            return GOES_ON;
        };
        // The first cause is kept.
        let relaxed = Ordering::Relaxed;
        match self
            .stopped
            .compare_exchange(GOES_ON, found, relaxed, relaxed)
        {
            Ok(_) => found,
            Err(before) => before,
        }
    }
}

impl StopSignal for CallControl {
    fn is_stopped(&self) -> bool {
        self.look() != GOES_ON
    }

    fn word(&self) -> &AtomicU32 {
        &self.stopped
    }
}

impl fmt::Debug for CallControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallControl")
            .field("options", &self.options)
            .field("stopped", &self.stopped)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_call_reports_what_ended_it_first() {
        let now = Arc::new(AtomicU64::new(0));
        let ticks = Arc::clone(&now);
        let clock: Arc<dyn Clock> =
            Arc::new(move || Duration::from_secs(ticks.load(Ordering::Relaxed)));
        assert!(CallOptions::new().control(Arc::clone(&clock)).is_none());
        let cancellation = Cancellation::new();
        let options = CallOptions::new()
            .with_cancellation(&cancellation)
            .with_time_limit(Duration::from_secs(5));
        let control = options.control(clock).unwrap();
        assert!(control.check().is_ok() && !control.is_stopped());
        now.store(5, Ordering::Relaxed);
        assert_eq!(control.check().unwrap_err().code(), "E0894");
        cancellation.cancel();
        now.store(0, Ordering::Relaxed);
        let error = control.check().unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected the call to end within 5s, found it still running"
        );
        assert!(control.is_stopped());
        assert!(format!("{control:?}").contains("stopped: 2"));
    }

    #[test]
    fn should_stop_ends_the_call_even_if_it_later_answers_no() {
        let yes = Arc::new(AtomicBool::new(true));
        let answer = Arc::clone(&yes);
        let options = CallOptions::new()
            .with_should_stop(Arc::new(move || answer.swap(false, Ordering::Relaxed)));
        let control = options.control(Arc::new(|| Duration::ZERO)).unwrap();
        assert_eq!(control.check().unwrap_err().code(), "E0835");
        assert_eq!(control.check().unwrap_err().code(), "E0835");
    }
}
