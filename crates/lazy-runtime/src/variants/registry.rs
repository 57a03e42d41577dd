//! The variants of a process: their stages, and how many more are allowed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use kiln_backend::Schedule;
use kiln_fork_lock::ForkLock;
use kiln_ir::Digest;

use super::heat::Stale;
use super::options::VariantOptions;
use super::record::{VariantFate, VariantReason, VariantRecord};
use super::trial::{Trial, Verdict};

/// The maximum number of refusals kept for reports; all are counted.
const REFUSALS: usize = 64;

/// Every variant, by kernel.
#[derive(Debug)]
pub(crate) struct Variants {
    /// `None` if variants are disabled.
    options: Option<VariantOptions>,
    /// The number of variants: 0 spares plans a lookup.
    count: AtomicUsize,
    refused: AtomicU64,
    state: ForkLock<State>,
}

#[derive(Debug, Default)]
struct State {
    of_kernel: HashMap<Digest, Vec<Arc<Variant>>>,
    /// In the order in which they were requested.
    all: Vec<Arc<Variant>>,
    refusals: Vec<VariantRecord>,
}

/// One variant of one kernel.
#[derive(Debug)]
pub(crate) struct Variant {
    kernel: String,
    /// The values of the kernel's symbols.
    pub(crate) symbols: Vec<i64>,
    facts: String,
    reason: VariantReason,
    progress: ForkLock<Progress>,
}

#[derive(Debug)]
struct Progress {
    stage: Stage,
    schedule: Schedule,
    /// Schedules that were not tried yet.
    tries: Option<VecDeque<Schedule>>,
    /// Plans that wait for another stage.
    watchers: Vec<Stale>,
}

/// The stage of a variant.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// To be compiled.
    Queued,
    /// Calls alternate.
    OnTrial(Arc<Trial>),
    /// It won.
    Kept(Arc<Trial>, Verdict),
    /// It did not win.
    Lost(Verdict),
    /// There is no code for it.
    Impossible(String),
}

/// The result of requesting a variant.
#[derive(Clone, Debug)]
pub(crate) enum Begun {
    /// The caller requests it.
    New(Arc<Variant>),
    /// It was requested before.
    Known(Arc<Variant>),
    /// The limit is reached.
    Refused,
}

/// The kernel and sizes of a variant.
#[derive(Clone, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) digest: Digest,
    pub(crate) kernel: &'a str,
    pub(crate) symbols: &'a [i64],
    pub(crate) facts: String,
    pub(crate) schedule: &'a Schedule,
    pub(crate) reason: VariantReason,
}

impl Variants {
    pub(crate) fn new(options: Option<VariantOptions>) -> Self {
        Self {
            options: options.filter(|options| options.per_kernel > 0 && options.in_process > 0),
            count: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            state: ForkLock::default(),
        }
    }

    /// When and how many; `None` if variants are disabled.
    pub(crate) fn options(&self) -> Option<&VariantOptions> {
        self.options.as_ref()
    }

    /// The variant of a kernel for these values of its symbols.
    pub(crate) fn find(&self, kernel: Digest, symbols: &[i64]) -> Option<Arc<Variant>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let state = self.state.lock();
        find_in(&state, kernel, symbols)
    }

    /// Records a request for a variant, if another is allowed.
    pub(crate) fn begin(&self, asked: Asked<'_>) -> Begun {
        let Some(options) = &self.options else {
            return Begun::Refused;
        };
        let mut state = self.state.lock();
        if let Some(known) = find_in(&state, asked.digest, asked.symbols) {
            return Begun::Known(known);
        }
        let of_kernel = state.of_kernel.get(&asked.digest).map_or(0, Vec::len);
        let full = if of_kernel >= options.per_kernel {
            Some((options.per_kernel, false))
        } else {
            let is_full = state.all.len() >= options.in_process;
            is_full.then_some((options.in_process, true))
        };
        if let Some((limit, in_process)) = full {
            if self.refused.fetch_add(1, Ordering::Relaxed) < REFUSALS as u64 {
                let record = VariantRecord {
                    kernel: asked.kernel.to_owned(),
                    facts: asked.facts,
                    schedule: asked.schedule.clone(),
                    reason: asked.reason,
                    fate: VariantFate::Refused { limit, in_process },
                };
                state.refusals.push(record);
            }
            drop(state);
            tracing::info!(kernel = asked.kernel, limit, in_process, "no more variants");
            return Begun::Refused;
        }
        let schedule = asked.schedule.clone();
        let variant = Arc::new(Variant {
            kernel: asked.kernel.to_owned(),
            symbols: asked.symbols.to_vec(),
            facts: asked.facts,
            reason: asked.reason,
            progress: ForkLock::new(move || Progress {
                stage: Stage::Queued,
                schedule: schedule.clone(),
                tries: None,
                watchers: Vec::new(),
            }),
        });
        let of_kernel = state.of_kernel.entry(asked.digest).or_default();
        of_kernel.push(Arc::clone(&variant));
        state.all.push(Arc::clone(&variant));
        self.count.store(state.all.len(), Ordering::Release);
        Begun::New(variant)
    }

    /// The record of each, in the order in which they were requested; refusals last.
    pub(crate) fn records(&self) -> Vec<VariantRecord> {
        let state = self.state.lock();
        let (all, refusals) = (state.all.clone(), state.refusals.clone());
        drop(state);
        all.iter()
            .map(|variant| variant.record())
            .chain(refusals)
            .collect()
    }

    /// The numbers of requested, winning, losing and refused variants.
    pub(crate) fn counts(&self) -> [u64; 4] {
        let all = self.state.lock().all.clone();
        let of = |is: fn(&Stage) -> bool| {
            all.iter().filter(|variant| is(&variant.stage())).count() as u64
        };
        [
            all.len() as u64,
            of(|stage| matches!(stage, Stage::Kept(..))),
            of(|stage| matches!(stage, Stage::Lost(_) | Stage::Impossible(_))),
            self.refused.load(Ordering::Relaxed),
        ]
    }

    /// Clears all variants. Plans that use one keep it until they are rebuilt.
    pub(crate) fn clear(&self) {
        let state = std::mem::take(&mut *self.state.lock());
        self.count.store(0, Ordering::Release);
        drop(state);
    }
}

fn find_in(state: &State, kernel: Digest, symbols: &[i64]) -> Option<Arc<Variant>> {
    let of_kernel = state.of_kernel.get(&kernel)?;
    of_kernel
        .iter()
        .find(|variant| variant.symbols == symbols)
        .cloned()
}

impl Variant {
    /// Its stage.
    pub(crate) fn stage(&self) -> Stage {
        self.progress.lock().stage.clone()
    }

    /// Sets a plan's flag at the next stage, or now if the current stage is not the expected one.
    pub(crate) fn watch(&self, seen: &Stage, stale: &Stale) {
        let mut progress = self.progress.lock();
        match (&progress.stage, seen) {
            (Stage::Queued, Stage::Queued) => progress.watchers.push(stale.clone()),
            (Stage::OnTrial(trial), Stage::OnTrial(seen)) if Arc::ptr_eq(trial, seen) => {
                progress.watchers.push(stale.clone());
            }
            (Stage::Kept(..), Stage::Kept(..))
            | (Stage::Lost(_), Stage::Lost(_))
            | (Stage::Impossible(_), Stage::Impossible(_)) => {}
            _ => stale.raise(),
        }
    }

    /// Sets the flag of a plan that does not use the variant yet, once the variant's stage changes.
    pub(crate) fn watch_queued(&self, stale: &Stale) {
        self.watch(&Stage::Queued, stale);
    }

    /// Whether the schedules to try are still unset.
    pub(crate) fn is_new(&self) -> bool {
        self.progress.lock().tries.is_none()
    }

    /// The schedules to try, best first.
    pub(crate) fn offer(&self, schedules: impl IntoIterator<Item = Schedule>) {
        self.progress.lock().tries = Some(schedules.into_iter().collect());
    }

    /// The next schedule to try.
    pub(crate) fn next_try(&self) -> Option<Schedule> {
        let mut progress = self.progress.lock();
        let schedule = progress.tries.as_mut()?.pop_front()?;
        progress.schedule = schedule.clone();
        Some(schedule)
    }

    /// Moves to another stage, and notifies the plans that wait for it.
    pub(crate) fn set(&self, stage: Stage) {
        let mut progress = self.progress.lock();
        progress.stage = stage;
        let watchers = std::mem::take(&mut progress.watchers);
        drop(progress);
        let record = self.record();
        tracing::info!(kernel = record.kernel, facts = record.facts, fate = %record.fate, "variant");
        watchers.iter().for_each(Stale::raise);
    }

    /// Ends a trial. Returns whether another schedule is to be compiled now.
    pub(crate) fn settle(&self, trial: &Arc<Trial>, verdict: Verdict) -> bool {
        let has_more = self
            .progress
            .lock()
            .tries
            .as_ref()
            .is_some_and(|tries| !tries.is_empty());
        match (verdict.is_kept, has_more) {
            (true, _) => self.set(Stage::Kept(Arc::clone(trial), verdict)),
            (false, true) => self.set(Stage::Queued),
            (false, false) => self.set(Stage::Lost(verdict)),
        }
        !verdict.is_kept && has_more
    }

    fn record(&self) -> VariantRecord {
        let progress = self.progress.lock();
        let times =
            |verdict: &Verdict| -> (Duration, Duration) { (verdict.generic, verdict.variant) };
        let fate = match &progress.stage {
            Stage::Queued => VariantFate::Queued,
            Stage::OnTrial(_) => VariantFate::OnTrial,
            Stage::Kept(_, verdict) => {
                let (generic, variant) = times(verdict);
                VariantFate::Kept { generic, variant }
            }
            Stage::Lost(verdict) => {
                let (generic, variant) = times(verdict);
                VariantFate::Lost { generic, variant }
            }
            Stage::Impossible(reason) => VariantFate::Impossible(reason.clone()),
        };
        VariantRecord {
            kernel: self.kernel.clone(),
            facts: self.facts.clone(),
            schedule: progress.schedule.clone(),
            reason: self.reason,
            fate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask<'a>(kernel: &'a str, symbols: &'a [i64], schedule: &'a Schedule) -> Asked<'a> {
        Asked {
            digest: Digest::of_text(kernel),
            kernel,
            symbols,
            facts: format!("{symbols:?}"),
            schedule,
            reason: VariantReason::Likely,
        }
    }

    fn variants(per_kernel: usize, in_process: usize) -> Variants {
        let options = VariantOptions::new()
            .with_per_kernel(per_kernel)
            .with_in_process(in_process);
        Variants::new(Some(options))
    }

    #[test]
    fn variants_are_limited_per_kernel_and_per_process() {
        let schedule = Schedule::new("s");
        let variants = variants(2, 3);
        let begin = |kernel, symbols: &[i64]| variants.begin(ask(kernel, symbols, &schedule));
        assert!(matches!(begin("a", &[1]), Begun::New(_)));
        assert!(matches!(begin("a", &[1]), Begun::Known(_)));
        assert!(matches!(begin("a", &[2]), Begun::New(_)));
        assert!(matches!(begin("a", &[3]), Begun::Refused));
        assert!(matches!(begin("b", &[1]), Begun::New(_)));
        assert!(matches!(begin("c", &[1]), Begun::Refused));
        assert_eq!(variants.counts(), [3, 0, 0, 2]);
        let fates: Vec<String> = variants
            .records()
            .iter()
            .map(|record| record.fate.to_string())
            .collect();
        assert_eq!(
            fates,
            [
                "queued",
                "queued",
                "queued",
                "refused: the kernel has 2, which is its limit",
                "refused: the process has 3, which is its limit",
            ]
        );
        assert!(variants.find(Digest::of_text("a"), &[2]).is_some());
        assert!(variants.find(Digest::of_text("a"), &[3]).is_none());
        variants.clear();
        assert_eq!(variants.records().len(), 0);
        assert!(variants.find(Digest::of_text("a"), &[2]).is_none());
    }

    #[test]
    fn watchers_are_notified_of_the_next_stage() {
        let schedule = Schedule::new("s");
        let variants = variants(1, 1);
        let Begun::New(variant) = variants.begin(ask("a", &[1], &schedule)) else {
            panic!("it is the first");
        };
        let (early, late) = (Stale::default(), Stale::default());
        variant.watch(&Stage::Queued, &early);
        assert!(!early.is_raised());
        variant.set(Stage::Impossible("no".to_owned()));
        assert!(early.is_raised());
        // It has seen an older stage.
        variant.watch(&Stage::Queued, &late);
        assert!(late.is_raised());
        assert_eq!(variants.counts(), [1, 0, 1, 0]);
    }

    #[test]
    fn without_options_no_variant_begins() {
        let schedule = Schedule::new("s");
        for variants in [Variants::new(None), variants(0, 9)] {
            assert!(variants.options().is_none());
            assert!(matches!(
                variants.begin(ask("a", &[1], &schedule)),
                Begun::Refused
            ));
        }
    }
}
