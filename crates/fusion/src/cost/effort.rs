//! The resource that bounds a kernel (its bytes, or one kind of work), and the kernel's duration.
//!
//! Memory transfers overlap with computation, so the longer of the two counts; kinds of work are summed.

use std::collections::{BTreeMap, BTreeSet};

use kiln_ir::{Graph, OpId};

use super::rates::{Rates, WorkKind};
use super::traffic::Traffic;
use super::work::Work;
use crate::sizes::SizeQueries;

/// The bound of a kernel, and the estimated durations of it and of the rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// The kind of work that takes most of the time.
    pub kind: WorkKind,
    /// The amount of it: bytes, operations, multiply-adds.
    pub amount: f64,
    /// Its duration in nanoseconds.
    pub nanoseconds: f64,
    /// Additional nanoseconds.
    pub overhead: f64,
}

impl Effort {
    /// The effort of these ops as one kernel.
    pub(super) fn of(
        graph: &Graph,
        sizes: &SizeQueries<'_>,
        ops: &BTreeSet<OpId>,
        traffic: Traffic,
    ) -> Self {
        let rates = sizes.rates();
        let works: Vec<Work> = ops.iter().map(|&op| Work::of(graph, sizes, op)).collect();
        let sums = works.iter().any(|work| work.kind.sums_products());
        // Parts with the same bound add up; memory time and arithmetic time overlap.
        let arithmetic = works.iter().map(|work| {
            let is_sum = work.kind.sums_products();
            let more = if is_sum {
                work.results * rates.per_sum
            } else {
                0.0
            };
            (work.kind, work.amount, more)
        });
        let memory = [
            (WorkKind::Memory, traffic.memory as f64, 0.0),
            (WorkKind::Constants, traffic.constants as f64, 0.0),
        ];
        let arithmetic = Limit::of(rates, arithmetic);
        let memory = Limit::of(rates, memory.into_iter());
        let limit = if arithmetic.nanoseconds > memory.nanoseconds {
            arithmetic
        } else {
            memory
        };
        let tiles = if sums { rates.tiles } else { 0.0 };
        let main = limit.amount / rates.per_nanosecond(limit.kind);
        Effort {
            kind: limit.kind,
            amount: limit.amount,
            nanoseconds: main,
            overhead: rates.launch + tiles + (limit.nanoseconds - main),
        }
    }
}

/// Sequential parts of work, and the kind that takes most of the time.
struct Limit {
    kind: WorkKind,
    amount: f64,
    nanoseconds: f64,
}

impl Limit {
    /// Of each part: the kind, the amount, and additional nanoseconds.
    fn of(rates: &Rates, parts: impl Iterator<Item = (WorkKind, f64, f64)>) -> Self {
        let mut amounts = BTreeMap::<WorkKind, f64>::new();
        let mut nanoseconds = 0.0;
        for (kind, amount, more) in parts {
            *amounts.entry(kind).or_default() += amount;
            nanoseconds += amount / rates.per_nanosecond(kind) + more;
        }
        let time = |&(kind, amount): &(WorkKind, f64)| amount / rates.per_nanosecond(kind);
        let longest = amounts
            .into_iter()
            .max_by(|a, b| time(a).total_cmp(&time(b)));
        let (kind, amount) = longest.unwrap_or((WorkKind::Simple, 0.0));
        Self {
            kind,
            amount,
            nanoseconds,
        }
    }
}
