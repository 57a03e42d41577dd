//! The thread that cancels calls while they run: [`Watch`].
//!
//! Compiled code reads a call's stop word and knows neither clocks nor callers. A thread of the runtime polls each
//! cancellable call every few milliseconds, and sets its word. It starts with the first such call, ends when there has
//! been none for a while or the runtime is dropped, and does not keep the runtime alive. A forked child, which lacks
//! this thread, starts its own.
//!
//! Invariants: no lock is held while a caller's callback runs; a call that cannot be cancelled is not listed here.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use std::{process, thread};

use kiln_backend::StopSignal;
use kiln_fork_lock::ForkLock;

use crate::call::CallControl;

/// The interval between two rounds of the thread: a fraction of the time for which a call may continue after its end.
const ROUND: Duration = Duration::from_millis(5);

/// Rounds without a call after which the thread ends. Starting it takes as long as many calls.
const IDLE_ROUNDS: u32 = 400;

/// The cancellable calls of a runtime. Clones share one state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch(Arc<ForkLock<Calls>>);

#[derive(Debug, Default)]
struct Calls {
    watched: Vec<Arc<CallControl>>,
    /// The process in which the thread runs, if it runs.
    process: Option<u32>,
}

/// A call that is watched until this is dropped.
pub(crate) struct Watched<'a> {
    watch: &'a Watch,
    control: &'a Arc<CallControl>,
}

impl Watch {
    /// Sets the call's stop word once it is to end.
    pub(crate) fn over<'a>(&'a self, control: &'a Arc<CallControl>) -> Watched<'a> {
        let mut calls = self.0.lock();
        calls.watched.push(Arc::clone(control));
        let here = process::id();
        if calls.process != Some(here) {
            let watch = self.clone();
            let thread = thread::Builder::new().name("kiln-watch".to_owned());
            match thread.spawn(move || watch.run()) {
                Ok(_) => calls.process = Some(here),
                // The call is still checked between steps and between parts of launches; the next one tries again.
                Err(error) => {
                    tracing::warn!(%error, "cannot start the thread that ends running calls")
                }
            }
        }
        Watched {
            watch: self,
            control,
        }
    }

    fn run(&self) {
        let mut idle = 0;
        loop {
            thread::sleep(ROUND);
            if Arc::strong_count(&self.0) == 1 {
                return;
            }
            let watched = {
                let mut calls = self.0.lock();
                idle = match calls.watched.is_empty() {
                    true => idle + 1,
                    false => 0,
                };
                if idle > IDLE_ROUNDS {
                    calls.process = None;
                    return;
                }
                calls.watched.clone()
            };
            watched.iter().for_each(ask);
        }
    }
}

/// Whether a call is to end, which is also so if its callback panics.
fn ask(control: &Arc<CallControl>) {
    if catch_unwind(AssertUnwindSafe(|| control.is_stopped())).is_err() {
        control.cancel();
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let mut calls = self.watch.0.lock();
        let place = calls
            .watched
            .iter()
            .position(|control| Arc::ptr_eq(control, self.control));
        if let Some(place) = place {
            calls.watched.swap_remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::call::{CallOptions, Cancellation};

    fn word_is_set(control: &CallControl) -> bool {
        control.word().load(Ordering::Relaxed) != 0
    }

    fn control(options: &CallOptions) -> Arc<CallControl> {
        Arc::new(options.control(Arc::new(|| Duration::ZERO)).unwrap())
    }

    fn wait_for(condition: impl Fn() -> bool) {
        while !condition() {
            thread::yield_now();
        }
    }

    #[test]
    fn a_cancelled_call_gets_its_stop_word_set_and_others_do_not() {
        let watch = Watch::default();
        let (first, second) = (Cancellation::new(), Cancellation::new());
        let of = |cancellation| control(&CallOptions::new().with_cancellation(cancellation));
        let (ends, goes_on) = (of(&first), of(&second));
        let watched = (watch.over(&ends), watch.over(&goes_on));
        assert!(!word_is_set(&ends));
        first.cancel();
        wait_for(|| word_is_set(&ends));
        assert!(!word_is_set(&goes_on));
        drop(watched);
        assert!(watch.0.lock().watched.is_empty());
    }

    #[test]
    fn a_panicking_should_stop_ends_only_its_call() {
        let watch = Watch::default();
        let bad = control(&CallOptions::new().with_should_stop(Arc::new(|| panic!("no answer"))));
        let cancellation = Cancellation::new();
        let other = control(&CallOptions::new().with_cancellation(&cancellation));
        let _watched = (watch.over(&bad), watch.over(&other));
        wait_for(|| word_is_set(&bad));
        cancellation.cancel();
        wait_for(|| word_is_set(&other));
    }

    #[test]
    fn the_thread_ends_with_the_runtime() {
        let watch = Watch::default();
        let control = control(&CallOptions::new().with_cancellation(&Cancellation::new()));
        drop(watch.over(&control));
        let calls = Arc::downgrade(&watch.0);
        drop(watch);
        wait_for(|| calls.strong_count() == 0);
    }

    #[test]
    fn a_watch_thread_of_another_process_is_not_reused() {
        let watch = Watch::default();
        watch.0.lock().process = Some(0);
        let cancellation = Cancellation::new();
        let control = control(&CallOptions::new().with_cancellation(&cancellation));
        let _watched = watch.over(&control);
        cancellation.cancel();
        wait_for(|| word_is_set(&control));
    }
}
