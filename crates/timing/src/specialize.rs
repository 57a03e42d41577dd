//! Compiles, timed once per specialisation of a function.
//!
//! A specialisation is anything that yields different code of the same function: dtype, variant, options. Its first compile
//! is the function's event; so is the first one after [invalidation](Timing::invalidate). Failed compiles, and unwanted
//! repeats (code that a cache had dropped), count to `other_compile`, so that no time is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::MutexGuard;

use kiln_fork_lock::ForkLock;

use crate::category::Category;
use crate::counters::Counter;
use crate::event::FunctionEvents;
use crate::registry::Registry;
use crate::span::Span;
use crate::timing::Timing;
use crate::verbosity::Verbosity;

/// The maximum number of functions that are distinguished; further ones have the events of their categories.
const MAX_FUNCTIONS: usize = 1 << 14;

/// The maximum number of specialisations that are distinguished; further ones count to `other_compile`.
const MAX_SPECIALIZATIONS: usize = 1 << 16;

/// The timed specialisations, by the compile event of each function.
#[derive(Debug, Default)]
pub(crate) struct Specializations(ForkLock<Known>);

#[derive(Debug, Default)]
struct Known {
    by_function: BTreeMap<u32, BTreeSet<Box<str>>>,
    total: usize,
    /// The events of the distinguished functions.
    functions: BTreeMap<Box<str>, FunctionEvents>,
    /// The number of functions per name.
    names: BTreeMap<Box<str>, u32>,
}

impl Specializations {
    /// Whether a specialisation is timed for the first time; from then on it is known.
    fn claim(&self, function: u32, specialization: &str) -> bool {
        let mut known = self.lock();
        if known.total >= MAX_SPECIALIZATIONS {
            return false;
        }
        let of_function = known.by_function.entry(function).or_default();
        let is_new = of_function.insert(specialization.into());
        known.total += usize::from(is_new);
        is_new
    }

    /// Withdraws a claim.
    fn forget(&self, function: u32, specialization: &str) {
        let mut known = self.lock();
        let of_function = known.by_function.get_mut(&function);
        if of_function.is_some_and(|of_function| of_function.remove(specialization)) {
            known.total -= 1;
        }
    }

    fn forget_function(&self, function: u32) {
        let mut known = self.lock();
        let gone = known
            .by_function
            .remove(&function)
            .map_or(0, |gone| gone.len());
        known.total -= gone;
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock()
    }
}

impl Timing {
    /// The events of a function, registered if they are new. If that is not possible (too many events, or names that
    /// are taken), those of the categories.
    pub fn function(&self, function: &str) -> FunctionEvents {
        FunctionEvents {
            codegen: self.named(
                Category::Codegen,
                "codegen_",
                function,
                "Code generation time for ",
            ),
            compile: self.named(
                Category::Compile,
                "compile_",
                function,
                "Compilation time for ",
            ),
        }
    }

    /// The events of one of several functions that may have the same name, distinguished by `identity`: the second one
    /// called `f` has `compile_f#2`. Nothing is registered while timing is off.
    pub fn function_of(&self, function: &str, identity: &str) -> FunctionEvents {
        let known = |known: &Known| known.functions.get(identity).copied();
        let of_categories = || FunctionEvents {
            codegen: self.category_event(Category::Codegen),
            compile: self.category_event(Category::Compile),
        };
        if !self.is_at(Verbosity::Default) {
            return of_categories();
        }
        let mut all = self.inner().specializations.lock();
        if let Some(events) = known(&all) {
            return events;
        }
        if all.functions.len() >= MAX_FUNCTIONS {
            return of_categories();
        }
        let number = all.names.entry(function.into()).or_default();
        *number += 1;
        let events = match *number {
            1 => self.function(function),
            number => self.function(&format!("{function}#{number}")),
        };
        all.functions.insert(identity.into(), events);
        events
    }

    /// Compiles, and times it as the function's event if this specialisation was not timed before. A compile includes
    /// everything until the function can be launched; call this only for an actual compile, never for cached code.
    /// Counts [`Counter::CompileOk`] or [`Counter::CompileErr`].
    ///
    /// ```
    /// use kiln_timing::{Category, Timing, TimingError};
    ///
    /// let timing = Timing::default();
    /// let function = timing.function("dxdt");
    /// for specialization in ["f32", "f64", "f32"] {
    ///     timing.specialize_and_compile(&function, specialization, || Ok::<_, TimingError>(()))?;
    /// }
    /// timing.set_verbosity(kiln_timing::Verbosity::Verbose);
    /// let report = timing.report();
    /// let event = report.event("compile_dxdt").ok_or("not timed")?;
    /// assert_eq!((event.count, event.description.as_str()), (2, "Compilation time for dxdt"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of `compile`.
    pub fn specialize_and_compile<R, E>(
        &self,
        function: &FunctionEvents,
        specialization: &str,
        compile: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        let mut attempt = Attempt::begin(self, function, specialization);
        let result = compile();
        attempt.succeeded = result.is_ok();
        result
    }

    /// The code of a function is invalid: each specialisation is timed again, once, when it is next compiled.
    pub fn invalidate(&self, function: &FunctionEvents) {
        self.inner()
            .specializations
            .forget_function(function.compile.index);
    }
}

/// A compile in progress; one that is dropped without success failed or panicked.
struct Attempt<'a> {
    timing: &'a Timing,
    span: Span<'a>,
    /// The function, if this compile is timed.
    claim: Option<u32>,
    specialization: &'a str,
    succeeded: bool,
}

impl<'a> Attempt<'a> {
    fn begin(timing: &'a Timing, function: &FunctionEvents, specialization: &'a str) -> Self {
        let is_on = timing.is_at(Verbosity::Default);
        let index = function.compile.index;
        let claim =
            (is_on && timing.inner().specializations.claim(index, specialization)).then_some(index);
        let event = match claim {
            Some(_) => function.compile,
            None => timing.category_event(Category::Compile),
        };
        let span = timing.begin(event);
        timing.describe(|| match claim {
            Some(_) => specialization.to_owned(),
            None => {
                let name = timing
                    .inner()
                    .registry
                    .with(index, |event| event.name.to_string());
                format!("{}, again: {specialization}", name.unwrap_or_default())
            }
        });
        Self {
            timing,
            span,
            claim,
            specialization,
            succeeded: false,
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let counter = if self.succeeded {
            Counter::CompileOk
        } else {
            Counter::CompileErr
        };
        self.timing.counters().count(counter);
        if let (false, Some(function)) = (self.succeeded, self.claim) {
            self.timing
                .inner()
                .specializations
                .forget(function, self.specialization);
            self.span
                .become_event(Registry::of_category(Category::Compile));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::clock::ManualClock;
    use crate::options::TimingOptions;

    fn recorder() -> (Timing, ManualClock) {
        let clock = ManualClock::new();
        let options = TimingOptions::new().verbosity(Verbosity::Verbose);
        (Timing::new(Arc::new(clock.clone()), options), clock)
    }

    /// Compiles for a millisecond.
    fn compile(timing: &Timing, clock: &ManualClock, specialization: &str, works: bool) {
        let function = timing.function("f");
        let result = timing.specialize_and_compile(&function, specialization, || {
            clock.advance(Duration::from_millis(1));
            works.then_some(()).ok_or(())
        });
        assert_eq!(result.is_ok(), works);
    }

    /// How often the function's own event, and the event for other specialisations, were timed.
    fn counts(timing: &Timing) -> (u64, u64) {
        let report = timing.report();
        let count = |name| report.event(name).map_or(0, |event| event.count);
        assert_eq!(report.sum(), report.wall());
        (count("compile_f"), count("other_compile"))
    }

    #[test]
    fn each_specialisation_is_timed_once_and_once_again_after_invalidation() {
        let (timing, clock) = recorder();
        let function = timing.function("f");
        assert_eq!(timing.function("f"), function);
        compile(&timing, &clock, "f32", true);
        compile(&timing, &clock, "f64", true);
        assert_eq!(counts(&timing), (2, 0));
        compile(&timing, &clock, "f32", true);
        assert_eq!(counts(&timing), (2, 1));
        timing.invalidate(&function);
        compile(&timing, &clock, "f32", true);
        compile(&timing, &clock, "f32", true);
        assert_eq!(counts(&timing), (3, 2));
        assert_eq!(timing.counters().values().compile_ok, 5);
    }

    #[test]
    fn a_failed_compile_does_not_count_as_the_specialization() {
        let (timing, clock) = recorder();
        compile(&timing, &clock, "f32", false);
        assert_eq!(counts(&timing), (0, 1));
        let function = timing.function("f");
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            timing.specialize_and_compile(&function, "f32", || -> Result<(), ()> {
                panic!("in the backend")
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(counts(&timing), (0, 2));
        compile(&timing, &clock, "f32", true);
        assert_eq!(counts(&timing), (1, 2));
        let values = timing.counters().values();
        assert_eq!((values.compile_ok, values.compile_err), (1, 2));
    }

    #[test]
    fn with_timing_off_nothing_is_timed_or_remembered() {
        let (timing, clock) = recorder();
        timing.set_verbosity(Verbosity::Off);
        compile(&timing, &clock, "f32", true);
        timing.set_verbosity(Verbosity::Verbose);
        assert_eq!(counts(&timing), (0, 0));
        compile(&timing, &clock, "f32", true);
        assert_eq!(
            (counts(&timing), timing.counters().values().compile_ok),
            ((1, 0), 2)
        );
    }

    #[test]
    fn the_number_of_specializations_is_bounded() {
        let known = Specializations::default();
        for number in 0..MAX_SPECIALIZATIONS {
            assert!(known.claim(9, &number.to_string()));
        }
        assert!(!known.claim(9, "one more"));
        known.forget_function(9);
        assert!(known.claim(9, "one more"));
    }

    #[test]
    fn functions_of_one_name_are_distinguished() {
        let (timing, _) = recorder();
        let first = timing.function_of("f", "one");
        let second = timing.function_of("f", "two");
        assert_ne!(first, second);
        assert_eq!(timing.function_of("f", "one"), first);
        assert_eq!(timing.event("compile_f#2").unwrap(), second.compile);
        timing.set_verbosity(Verbosity::Off);
        let compile = timing.category_event(Category::Compile);
        assert_eq!(timing.function_of("f", "three").compile, compile);
        timing.set_verbosity(Verbosity::Default);
        for number in 2..MAX_FUNCTIONS {
            timing.function_of("g", &number.to_string());
        }
        assert_eq!(timing.function_of("h", "one too many").compile, compile);
        assert_eq!(timing.function_of("f", "two"), second);
    }

    #[test]
    fn a_function_with_a_taken_name_counts_under_its_category() {
        let (timing, _) = recorder();
        timing
            .register(Category::Runtime, "compile_odd", "Something else")
            .unwrap();
        let function = timing.function("odd");
        assert_eq!(function.compile, timing.category_event(Category::Compile));
        let event = timing.event("codegen_odd").unwrap();
        assert_eq!(event, function.codegen);
    }
}
