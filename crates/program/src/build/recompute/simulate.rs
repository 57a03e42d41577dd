//! Simulates a run of a segment within a byte budget: which values are dropped, and which steps are repeated.
//!
//! This is dynamic tensor rematerialisation (Kirisame et al., "Dynamic Tensor Rematerialization", 2021), but with the
//! future known. Steps run in order. If the results of a step do not fit, values that a later step reads are dropped:
//! those that are cheapest to recompute, per byte and per step for which the byte is free, as weighted by [`Weights`].
//! If an operand of a step was dropped, it is recomputed first, recursively.
//!
//! Invariant: a dropped value can be recomputed until its last use. Each value has a deadline, after which an operand
//! needed to recompute it, directly or indirectly, may be gone for good; a value that is needed after its deadline is
//! never dropped.

use super::super::flow::{Flow, FlowValue};

/// The maximum number of repeated steps per step: with a budget far too small for a program, repetition would not end.
const MOST_REPEATS: usize = 3;

/// The maximum number of dropped ancestors that are counted for the cost of a value.
const ANCESTORS: usize = 48;

/// The weights by which the value to drop is chosen: exponents of a product.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights {
    /// The exponent of the work to recompute it.
    work: f64,
    /// The exponent of the bytes that dropping it frees.
    bytes: f64,
    /// The exponent of the number of steps for which they are free.
    distance: f64,
}

impl Weights {
    /// The weights that are tried, the best for most programs first.
    pub(super) const ALL: [Self; 6] = [
        Self::of(1.0, 1.0, 1.0),
        Self::of(1.0, 1.0, 0.0),
        Self::of(2.0, 1.0, 0.5),
        Self::of(1.0, 0.5, 0.5),
        Self::of(1.0, 0.0, 1.0),
        Self::of(0.0, 1.0, 1.0),
    ];

    const fn of(work: f64, bytes: f64, distance: f64) -> Self {
        Self {
            work,
            bytes,
            distance,
        }
    }

    /// The cost of dropping a value.
    fn cost(self, work: f64, bytes: u64, distance: usize) -> f64 {
        work.powf(self.work)
            / ((bytes as f64).powf(self.bytes) * (distance as f64).powf(self.distance))
    }
}

/// A run: the steps, in order.
pub(super) struct Run {
    pub(super) steps: Vec<RunStep>,
    /// The peak of live bytes.
    pub(super) peak: u64,
    /// The work of the steps that run again.
    pub(super) repeated: f64,
}

/// One step of a run.
pub(super) struct RunStep {
    /// The step, by position.
    pub(super) step: usize,
    /// Of a repeated step, the results that are read from now on in place of the first ones.
    pub(super) again: Option<Vec<usize>>,
}

/// A run in which live values take no more than these bytes, as far as possible.
pub(super) fn within(flow: &Flow, budget: u64, weights: Weights) -> Run {
    let n_values = flow.values.len();
    let deadlines = deadlines(flow);
    let may_drop = |(value, deadline): (&FlowValue, &Option<usize>)| {
        deadline.is_some_and(|deadline| value.last_use().is_some_and(|last| last <= deadline))
            && !value.is_kept
            && value.bytes > 0
    };
    let mut simulation = Simulation {
        flow,
        budget,
        weights,
        may_drop: flow.values.iter().zip(&deadlines).map(may_drop).collect(),
        n_read: vec![0; n_values],
        is_live: vec![false; n_values],
        droppable: Vec::new(),
        locks: vec![0; n_values],
        live: 0,
        n_repeats: 0,
        run: Run {
            steps: Vec::with_capacity(flow.steps.len()),
            peak: 0,
            repeated: 0.0,
        },
    };
    for position in 0..flow.steps.len() {
        simulation.advance(position);
    }
    simulation.run
}

/// For each value that a step may recompute, the last step before which it still can.
fn deadlines(flow: &Flow) -> Vec<Option<usize>> {
    let mut deadlines: Vec<Option<usize>> = vec![None; flow.values.len()];
    for step in &flow.steps {
        if !step.may_repeat {
            continue;
        }
        let until = |&value: &usize| {
            let of_value = &flow.values[value];
            let last = of_value.last_use().unwrap_or(0);
            if of_value.is_permanent || of_value.is_kept || keeps_its_memory(flow, of_value) {
                return usize::MAX;
            }
            deadlines[value].map_or(last, |deadline| deadline.max(last))
        };
        let deadline = step.reads.iter().map(until).min();
        for &value in &step.writes {
            deadlines[value] = Some(deadline.unwrap_or(usize::MAX));
        }
    }
    deadlines
}

/// Whether a value is a parameter whose last reader has no result that could take its memory.
fn keeps_its_memory(flow: &Flow, value: &FlowValue) -> bool {
    let is_taken = |&step: &usize| {
        let mut writes = flow.steps[step].writes.iter();
        writes.any(|&other| !flow.values[other].is_in_arena)
    };
    value.is_parameter && !value.readers.last().is_some_and(is_taken)
}

struct Simulation<'f> {
    flow: &'f Flow,
    budget: u64,
    weights: Weights,
    may_drop: Vec<bool>,
    /// By value: how many of its readers have run.
    n_read: Vec<usize>,
    is_live: Vec<bool>,
    /// Live values that may be dropped.
    droppable: Vec<usize>,
    /// By value: the waiting steps that read it.
    locks: Vec<usize>,
    live: u64,
    n_repeats: usize,
    run: Run,
}

impl Simulation<'_> {
    /// Runs a step, and before it what has to run again for it.
    fn advance(&mut self, position: usize) {
        let mut waiting = vec![position];
        self.lock(position);
        while let Some(&step) = waiting.last() {
            if let Some(again) = self.missing(step) {
                self.lock(again);
                waiting.push(again);
                continue;
            }
            waiting.pop();
            if waiting.is_empty() {
                self.run_first(step);
            } else {
                self.run_again(step, position);
            }
        }
    }

    /// A step that has to run before this one, for an operand that is not in memory.
    fn missing(&self, step: usize) -> Option<usize> {
        let mut reads = self.flow.steps[step].reads.iter();
        let missing = reads.find(|&&value| {
            let of_value = &self.flow.values[value];
            // Values that no step of this segment writes already existed.
            of_value.is_in_arena && !self.is_live[value] && !of_value.writers.is_empty()
        });
        self.flow.values[*missing?].writers.first().copied()
    }

    fn lock(&mut self, step: usize) {
        for &value in &self.flow.steps[step].reads {
            self.locks[value] += 1;
        }
    }

    fn unlock(&mut self, step: usize) {
        for &value in &self.flow.steps[step].reads {
            self.locks[value] = self.locks[value].saturating_sub(1);
        }
    }

    /// A step in its place.
    fn run_first(&mut self, step: usize) {
        let flow = self.flow;
        let writes = &flow.steps[step].writes;
        let new = writes.iter().filter(|&&value| !self.is_live[value]);
        let bytes = new.map(|&value| flow.values[value].bytes).sum();
        self.make_room(bytes, step);
        self.run.steps.push(RunStep { step, again: None });
        for &value in writes {
            self.begin(value);
        }
        for &value in &flow.steps[step].reads {
            self.n_read[value] += 1;
        }
        self.unlock(step);
        self.release(step, step);
    }

    /// A step that runs again, for a step at `position`.
    fn run_again(&mut self, step: usize, position: usize) {
        let flow = self.flow;
        let writes = &flow.steps[step].writes;
        // All results are written, although some may still exist, or no longer be read.
        let bytes = writes.iter().map(|&value| flow.values[value].bytes).sum();
        self.make_room(bytes, position);
        self.n_repeats += 1;
        self.run.repeated += flow.steps[step].work;
        let is_read = |value: &usize| {
            let n_readers = flow.values[*value].readers.len();
            !self.is_live[*value] && (self.n_read[*value] < n_readers || self.locks[*value] > 0)
        };
        let again: Vec<usize> = writes.iter().copied().filter(is_read).collect();
        for &value in &again {
            self.begin(value);
        }
        self.run.steps.push(RunStep {
            step,
            again: Some(again),
        });
        self.unlock(step);
        self.release(step, position);
    }

    fn begin(&mut self, value: usize) {
        if std::mem::replace(&mut self.is_live[value], true) {
            return;
        }
        self.live += self.flow.values[value].bytes;
        if self.may_drop[value] {
            self.droppable.push(value);
        }
    }

    fn end(&mut self, value: usize) {
        if std::mem::replace(&mut self.is_live[value], false) {
            self.live -= self.flow.values[value].bytes;
            self.droppable.retain(|&other| other != value);
        }
    }

    /// Frees the values that are not needed after a step.
    fn release(&mut self, step: usize, position: usize) {
        let flow = self.flow;
        for &value in flow.steps[step]
            .reads
            .iter()
            .chain(&flow.steps[step].writes)
        {
            let of_value = &flow.values[value];
            let is_last_writer = of_value.writers.last().is_none_or(|&last| last <= position);
            let is_read = self.n_read[value] < of_value.readers.len() || self.locks[value] > 0;
            if !is_read && is_last_writer && !of_value.is_kept {
                self.end(value);
            }
        }
    }

    /// Drops values until these bytes fit.
    fn make_room(&mut self, bytes: u64, position: usize) {
        while self.live + bytes > self.budget
            && self.n_repeats < MOST_REPEATS * self.flow.steps.len()
        {
            let candidates = self.droppable.iter().copied();
            let scored = candidates.filter_map(|value| Some((self.score(value, position)?, value)));
            let Some((_, value)) = scored.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
            else {
                break;
            };
            self.end(value);
        }
        self.run.peak = self.run.peak.max(self.live + bytes);
    }

    /// The cost of dropping a value that is needed again.
    fn score(&self, value: usize, position: usize) -> Option<f64> {
        let of_value = &self.flow.values[value];
        if self.locks[value] > 0 {
            return None;
        }
        let next = *of_value.readers.get(self.n_read[value])?;
        let distance = next.checked_sub(position).filter(|&steps| steps > 0)?;
        let work = self.work_again(value);
        Some(self.weights.cost(work, of_value.bytes, distance))
    }

    /// The work of recomputing a value, including those of its ancestors that are not in memory.
    fn work_again(&self, value: usize) -> f64 {
        let mut steps: Vec<usize> = self.flow.values[value].writers.clone();
        let mut work = 0.0;
        let mut next = 0;
        while let Some(&step) = steps.get(next) {
            next += 1;
            let of_step = &self.flow.steps[step];
            work += of_step.work;
            for &operand in &of_step.reads {
                let of_operand = &self.flow.values[operand];
                if of_operand.is_in_arena && !self.is_live[operand] && steps.len() < ANCESTORS {
                    let new = of_operand
                        .writers
                        .iter()
                        .filter(|step| !steps.contains(step));
                    let new: Vec<usize> = new.copied().collect();
                    steps.extend(new);
                }
            }
        }
        work
    }
}
