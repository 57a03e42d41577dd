//! How long the kernels of a launch plan take: sampled, so that a call that is not sampled pays for one counter, which
//! no other thread contends for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::per_thread::PerThread;

/// One out of this many runs of a plan by one thread is timed, step by step.
const ONE_IN: u32 = 16;

/// For likely sizes, this many runs are timed, after a thread's first, before variants are requested.
const EAGER_RUNS: u32 = 3;

/// For likely sizes, kernels that take less than this percentage of the plan's time get no variant.
const EAGER_SHARE: u64 = 2;

/// No group.
const NONE: u32 = u32::MAX;

/// A flag that is set once a plan is worth rebuilding: a variant of one of its kernels is on trial, kept or dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stale(Arc<AtomicBool>);

impl Stale {
    pub(crate) fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The times of a plan's kernels.
#[derive(Debug)]
pub(crate) struct Heat {
    runs: PerThread<AtomicU32>,
    groups: Vec<Group>,
    /// The group of each step.
    of_step: Vec<u32>,
    is_eager: AtomicBool,
    stale: Stale,
}

/// Steps with the same kernel and the same sizes.
#[derive(Debug)]
struct Group {
    /// One of the steps.
    step: usize,
    /// The time in the timed runs.
    nanoseconds: AtomicU64,
    is_asked_for: AtomicBool,
}

/// A group that is worth a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hot {
    /// One of its steps.
    pub(crate) step: usize,
    /// The total time of all runs so far, estimated from samples.
    pub(crate) spent: Duration,
    pub(crate) is_likely: bool,
}

/// Puts the steps of a plan into groups.
#[derive(Debug, Default)]
pub(crate) struct HeatGroups {
    /// By the group's number in the plan's maker.
    known: Vec<u32>,
    groups: Vec<Group>,
    of_step: Vec<u32>,
}

impl HeatGroups {
    /// The next step, which has no kernel, or one that must not get a variant.
    pub(crate) fn skip(&mut self) {
        self.of_step.push(NONE);
    }

    /// The next step, one of a group of equal launches, which have a number.
    pub(crate) fn add(&mut self, number: usize) {
        if self.known.len() <= number {
            self.known.resize(number + 1, NONE);
        }
        let step = self.of_step.len();
        let next = u32::try_from(self.groups.len()).unwrap_or(NONE);
        let Some(group) = self.known.get_mut(number) else {
            return self.skip();
        };
        if *group == NONE {
            *group = next;
            self.groups.push(Group {
                step,
                nanoseconds: AtomicU64::new(0),
                is_asked_for: AtomicBool::new(false),
            });
        }
        self.of_step.push(*group);
    }

    /// The heat of a plan of these steps; `None` if no step is watched.
    pub(crate) fn finish(self, is_eager: bool, stale: Stale) -> Option<Heat> {
        (!self.groups.is_empty()).then(|| Heat {
            runs: PerThread::default(),
            groups: self.groups,
            of_step: self.of_step,
            is_eager: AtomicBool::new(is_eager),
            stale,
        })
    }
}

impl Heat {
    /// Counts a run; returns whether its steps are to be timed.
    pub(crate) fn begin(&self) -> bool {
        let run = self.runs.own().fetch_add(1, Ordering::Relaxed);
        run % ONE_IN == ONE_IN - 1 || ((1..=EAGER_RUNS).contains(&run) && self.is_eager())
    }

    /// Whether variants do not wait until kernels are hot.
    pub(crate) fn is_eager(&self) -> bool {
        self.is_eager.load(Ordering::Relaxed)
    }

    /// Marks calls with these sizes as known to take much time.
    pub(crate) fn hasten(&self) {
        self.is_eager.store(true, Ordering::Relaxed);
    }

    /// Whether a step's time is needed.
    pub(crate) fn watches(&self, step: usize) -> bool {
        self.of_step.get(step).is_some_and(|&group| group != NONE)
    }

    /// Records the duration of a step in a timed run.
    pub(crate) fn add(&self, step: usize, time: Duration) {
        let group = self.of_step.get(step).copied().unwrap_or(NONE);
        if let Some(group) = self.groups.get(group as usize) {
            let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            group.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        }
    }

    /// Calls `ask` once with each group that has become worth a variant.
    pub(crate) fn each_hot(&self, after: Duration, mut ask: impl FnMut(Hot)) {
        let runs: u64 = self
            .runs
            .all()
            .map(|runs| u64::from(runs.load(Ordering::Relaxed)))
            .sum();
        let load = |group: &Group| group.nanoseconds.load(Ordering::Relaxed);
        let is_eager = runs > EAGER_RUNS.into() && self.is_eager();
        let total = match is_eager {
            true => self.groups.iter().map(load).fold(0, u64::saturating_add),
            false => 0,
        };
        for group in &self.groups {
            let sampled = load(group);
            let spent = Duration::from_nanos(sampled.saturating_mul(u64::from(ONE_IN)));
            let is_likely =
                is_eager && sampled.saturating_mul(100) >= total.saturating_mul(EAGER_SHARE);
            let is_hot = sampled > 0 && (is_likely || spent >= after);
            if is_hot && !group.is_asked_for.swap(true, Ordering::Relaxed) {
                ask(Hot {
                    step: group.step,
                    spent,
                    is_likely,
                });
            }
        }
    }

    /// The flag that is set when the plan is worth rebuilding.
    pub(crate) fn stale(&self) -> &Stale {
        &self.stale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heat(is_eager: bool) -> Heat {
        let mut groups = HeatGroups::default();
        groups.add(0);
        groups.skip();
        groups.add(7);
        groups.add(0);
        groups.add(1);
        groups.finish(is_eager, Stale::default()).unwrap()
    }

    fn hot(heat: &Heat, after: Duration) -> Vec<usize> {
        let mut steps = Vec::new();
        heat.each_hot(after, |hot| steps.push(hot.step));
        steps
    }

    #[test]
    fn one_run_of_sixteen_is_timed() {
        let heat = heat(false);
        let timed: Vec<usize> = (0..40).filter(|_| heat.begin()).collect();
        assert_eq!(timed, [15, 31]);
    }

    #[test]
    fn steps_with_equal_kernel_and_sizes_are_counted_together_and_reported_once() {
        let heat = heat(false);
        assert!(heat.watches(0) && !heat.watches(1) && !heat.watches(9));
        let ms = Duration::from_millis;
        heat.add(0, ms(1));
        heat.add(3, ms(1));
        heat.add(4, ms(1));
        assert!(hot(&heat, ms(40)).is_empty());
        assert_eq!(hot(&heat, ms(32)), [0]);
        assert!(hot(&heat, ms(32)).is_empty());
        assert_eq!(hot(&heat, ms(16)), [4]);
    }

    #[test]
    fn likely_sizes_are_hot_at_once() {
        let heat = heat(true);
        let timed: Vec<usize> = (0..16).filter(|_| heat.begin()).collect();
        assert_eq!(timed, [1, 2, 3, 15]);
        let us = Duration::from_micros;
        heat.add(0, us(100));
        heat.add(2, us(50));
        heat.add(4, us(1));
        // Step 4 takes too small a share.
        assert_eq!(hot(&heat, Duration::from_secs(9)), [0, 2]);
    }

    #[test]
    fn a_plan_without_kernels_to_watch_has_no_heat() {
        let mut groups = HeatGroups::default();
        groups.skip();
        assert!(groups.finish(true, Stale::default()).is_none());
    }
}
