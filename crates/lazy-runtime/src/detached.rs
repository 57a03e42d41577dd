//! Uninterruptible work of calls that may be cancelled: planning, reading weights, packing them.
//!
//! The work runs on its own thread, and the call waits for it unless the call is cancelled. The work then continues,
//! and its result is kept for the next call, so it is neither lost nor done twice.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use kiln_fork_lock::ForkLock;
use kiln_tensor::Tensor;

use crate::call::CallControl;
use crate::error::RuntimeError;

/// The interval at which a waiting call checks whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(5);

impl CallControl {
    /// The result of `work`; an error once the call is to end, while the work continues. A panic of the work is propagated
    /// to the caller, if it still waits.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn wait_for<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RuntimeError> {
        self.check()?;
        let (sender, receiver) = sync_channel(1);
        start(move || {
            let done = catch_unwind(AssertUnwindSafe(work));
            give(&sender, done);
        });
        loop {
            match receiver.recv_timeout(LOOK_EVERY) {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(panic)) => resume_unwind(panic),
                Err(RecvTimeoutError::Timeout) => self.check()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(RuntimeError::malformed(
                        "a thread that ended without a result",
                    ));
                }
            }
        }
    }

    /// Loads the elements of a tensor in the background, if they are deferred. A failure is reported when the tensor is
    /// read.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn load(&self, tensor: &Tensor) -> Result<(), RuntimeError> {
        if tensor.is_loaded() {
            return Ok(());
        }
        let tensor = tensor.clone();
        self.wait_for(move || drop(tensor.as_bytes()))
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Runs a job on a new thread, or here if none can be started.
pub(crate) fn start(job: impl FnOnce() + Send + 'static) {
    let dispatch = tracing::dispatcher::get_default(Clone::clone);
    let job = move || tracing::dispatcher::with_default(&dispatch, job);
    let place: Arc<ForkLock<Option<Job>>> = Arc::default();
    *place.lock() = Some(Box::new(job));
    let there = Arc::clone(&place);
    let thread = thread::Builder::new().name("kiln-detached".to_owned());
    let started = thread.spawn(move || take(&there));
    if let Err(error) = started {
        tracing::warn!(%error, "cannot start a thread for work that a call waits for: it cannot be interrupted");
        take(&place);
    }
}

/// Runs the job, unless that was done.
fn take(place: &ForkLock<Option<Job>>) {
    let job = place.lock().take();
    if let Some(job) = job {
        job();
    }
}

/// Passes on the result of the work, if the call still waits.
fn give<T>(sender: &SyncSender<thread::Result<T>>, done: thread::Result<T>) {
    let has_panicked = done.is_err();
    if sender.try_send(done).is_err() && has_panicked {
        tracing::error!("work panicked after the call that needed it had ended");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::call::{CallOptions, Cancellation};

    fn cancellable() -> (Cancellation, CallControl) {
        let cancellation = Cancellation::new();
        let options = CallOptions::new().with_cancellation(&cancellation);
        let control = options.control(Arc::new(|| Duration::ZERO)).unwrap();
        (cancellation, control)
    }

    #[test]
    fn a_call_returns_the_result_of_its_detached_work() {
        let (_, control) = cancellable();
        assert_eq!(control.wait_for(|| 7).unwrap(), 7);
    }

    #[test]
    fn detached_work_continues_after_its_call_ends() {
        let (cancellation, control) = cancellable();
        let (release, released) = sync_channel::<()>(1);
        let over = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&over);
        let work = move || {
            cancellation.cancel();
            let _ = released.recv();
            done.store(true, Ordering::Release);
        };
        assert_eq!(control.wait_for(work).unwrap_err().code(), "E0835");
        assert!(!over.load(Ordering::Acquire));
        release.send(()).unwrap();
        while !over.load(Ordering::Acquire) {
            thread::yield_now();
        }
        // A call that is to end starts no work.
        let error = control.wait_for(|| panic!("it began")).unwrap_err();
        assert_eq!(error.code(), "E0835");
    }

    #[test]
    fn a_panic_in_detached_work_reaches_the_call() {
        let (_, control) = cancellable();
        let call = AssertUnwindSafe(|| control.wait_for(|| panic!("at work")));
        let panic = catch_unwind(call).map(drop).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"at work"));
    }

    #[test]
    fn weights_are_loaded_while_the_call_waits() {
        let (cancellation, control) = cancellable();
        let load = || Tensor::full(&[2], 1.5f32);
        let tensor = Tensor::deferred(kiln_tensor::DType::F32, &[2], load).unwrap();
        assert!(!tensor.is_loaded());
        control.load(&tensor).unwrap();
        assert!(tensor.is_loaded());
        cancellation.cancel();
        control.load(&tensor).unwrap();
    }
}
