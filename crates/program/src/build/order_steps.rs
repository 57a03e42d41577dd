//! Orders a segment's steps: a step that frees memory is not delayed.
//!
//! Nodes come in the order of a walk from the results. A training step's results are the updates of its parameters, in
//! the order of the layers, so the gradient of the first layer, which needs all others, would come first, and every
//! activation would live until the end. Here a step runs as soon as its operands are available, if it frees more bytes
//! than it allocates. Other steps keep their order, and if the peak of live values does not fall, all steps do: a
//! program that would not use less memory is unchanged.

use std::collections::BTreeSet;

use super::flow::Flow;

/// The order is changed if that reduces the peak by at least one part in this many.
const LEAST_GAIN: u64 = 16;

/// The steps in the order in which they should run; `None` to leave them as they are. With a budget, the order is also
/// changed if the peak falls only because values are dropped.
pub(super) fn order_for_memory(flow: &Flow, has_budget: bool) -> Option<Vec<usize>> {
    let before: Vec<usize> = (0..flow.steps.len()).collect();
    let order = Orderer::of(flow).run();
    if order.len() != before.len() || order == before {
        return None;
    }
    let (peak, least) = (flow.peak(&before), flow.peak(&order));
    let is_better = match has_budget {
        true => least <= peak,
        false => least < peak - peak / LEAST_GAIN,
    };
    is_better.then_some(order)
}

struct Orderer<'f> {
    flow: &'f Flow,
    /// By step: the number of steps on which it waits, and those that wait for it.
    waits: Vec<usize>,
    next: Vec<Vec<usize>>,
    /// By value: the steps that use it, and how many of them have not run.
    users: Vec<Vec<usize>>,
    left: Vec<usize>,
    is_written: Vec<bool>,
    ready: BTreeSet<usize>,
    /// Ready steps that free more memory than they take.
    freeing: BTreeSet<usize>,
}

impl<'f> Orderer<'f> {
    fn of(flow: &'f Flow) -> Self {
        let mut users = vec![Vec::new(); flow.values.len()];
        for (number, step) in flow.steps.iter().enumerate() {
            for &value in step.reads.iter().chain(&step.writes) {
                if users[value].last() != Some(&number) {
                    users[value].push(number);
                }
            }
        }
        let mut this = Self {
            flow,
            waits: vec![0; flow.steps.len()],
            next: vec![Vec::new(); flow.steps.len()],
            left: users.iter().map(Vec::len).collect(),
            users,
            is_written: vec![false; flow.values.len()],
            ready: BTreeSet::new(),
            freeing: BTreeSet::new(),
        };
        this.add_edges();
        this
    }

    /// A step waits for the steps that wrote its operands, and for readers of the memory that it overwrites.
    fn add_edges(&mut self) {
        let flow = self.flow;
        let mut writers: Vec<Vec<usize>> = vec![Vec::new(); flow.values.len()];
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); flow.values.len()];
        let mut fixed = None;
        for (number, step) in flow.steps.iter().enumerate() {
            let mut before: Vec<usize> = Vec::new();
            for &value in &step.reads {
                before.extend(&writers[value]);
                readers[value].push(number);
            }
            for &value in &step.writes {
                // Parts of one value may be written in any order, but not while it is read.
                if step.reads.binary_search(&value).is_ok() || !readers[value].is_empty() {
                    before.append(&mut readers[value]);
                    before.append(&mut writers[value]);
                }
                before.extend(writers[value].last());
                writers[value].push(number);
            }
            // A parameter's last reader may take its memory for a result.
            let is_last = |&&value: &&usize| {
                let value = &flow.values[value];
                value.is_parameter && value.readers.last() == Some(&number)
            };
            let gives = |&value: &usize| !flow.values[value].is_in_arena;
            if step.writes.iter().any(gives) {
                for &value in step.reads.iter().filter(is_last) {
                    before.extend(&flow.values[value].readers);
                }
            }
            if step.is_fixed {
                before.extend(fixed.replace(number));
            }
            // It may end the segment.
            if step.is_fixed && number + 1 == flow.steps.len() {
                before.extend(0..number);
            }
            before.sort_unstable();
            before.dedup();
            for other in before.into_iter().filter(|&other| other != number) {
                self.next[other].push(number);
                self.waits[number] += 1;
            }
        }
    }

    fn run(mut self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.flow.steps.len());
        for step in 0..self.waits.len() {
            if self.waits[step] == 0 {
                self.make_ready(step);
            }
        }
        loop {
            let freeing = self.freeing.pop_first();
            let Some(step) = freeing.or_else(|| self.ready.first().copied()) else {
                return order;
            };
            self.ready.remove(&step);
            self.freeing.remove(&step);
            order.push(step);
            self.finish(step);
        }
    }

    fn make_ready(&mut self, step: usize) {
        self.ready.insert(step);
        self.judge(step);
    }

    fn judge(&mut self, step: usize) {
        if self.ready.contains(&step) && self.gain(step) > 0 {
            self.freeing.insert(step);
        }
    }

    fn finish(&mut self, step: usize) {
        let flow = self.flow;
        let of_step = &flow.steps[step];
        for &value in &of_step.writes {
            self.is_written[value] = true;
        }
        for (at, &value) in of_step.reads.iter().chain(&of_step.writes).enumerate() {
            let is_again = at >= of_step.reads.len() && of_step.reads.binary_search(&value).is_ok();
            if is_again {
                continue;
            }
            self.left[value] = self.left[value].saturating_sub(1);
            if self.left[value] == 1 {
                // Each value comes here once, so this is linear in the number of uses.
                let waiting: Vec<usize> = self.users[value].clone();
                for user in waiting {
                    self.judge(user);
                }
            }
        }
        for next in std::mem::take(&mut self.next[step]) {
            self.waits[next] = self.waits[next].saturating_sub(1);
            if self.waits[next] == 0 {
                self.make_ready(next);
            }
        }
    }

    /// The bytes that a step frees, less those that it takes.
    fn gain(&self, step: usize) -> i64 {
        let step = &self.flow.steps[step];
        let mut gain = 0;
        for &value in &step.writes {
            let of_value = &self.flow.values[value];
            if !self.is_written[value] {
                gain -= of_value.bytes as i64;
            }
        }
        for &value in &step.reads {
            let of_value = &self.flow.values[value];
            if self.left[value] == 1 && !of_value.is_kept {
                gain += of_value.bytes as i64;
            }
        }
        gain
    }
}
