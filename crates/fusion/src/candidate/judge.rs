//! Decides whether a walked candidate can be one kernel without losing its class, repeating work or keeping long rows.

use std::collections::BTreeSet;

use kiln_ir::{Definition, Op, OpId, ValueId};
use kiln_kernel::Class;
use kiln_symbolic_shape::Predicate;

use super::index::{AxisSet, Index, axes_of, is_plain};
use super::refusal::Refusal;
use super::walk::{Demand, Stage, Walk};
use crate::op_kind::{OpKind, is_index_map, is_widening, unit_cost};

/// The maximum number of simple operations that may be repeated for each point.
const REPEAT_LIMIT: u64 = 12;

/// The maximum number of simple operations on an operand of a contraction.
const PROLOGUE_LIMIT: u64 = 2;

/// The maximum number of simple operations that turn stored weights into an operand of a contraction. They are repeated
/// for every few rows, but otherwise the operand, which is larger than the stored weights, would be written and read in
/// each call.
const WEIGHTS_LIMIT: u64 = 16;

/// The maximum number of simple operations that a row may repeat in each of its passes: a softmax computes its `exp` twice.
const PASS_LIMIT: u64 = 40;

/// The maximum number of elements of a row that a thread keeps, or that a kernel of one row has.
const ROW_LIMIT: i64 = 65_536;

/// The maximum number of products that are summed one after another before the op that combines their sums, which are
/// kept meanwhile.
const PRODUCTS_LIMIT: usize = 4;

/// The maximum head size of an attention, in elements: one thread keeps that many sums.
const HEAD_LIMIT: i64 = 1024;

/// The class of the candidate.
pub(crate) fn judge(walk: &Walk<'_>) -> Result<Class, Refusal> {
    let judge = Judge {
        domain: walk
            .stores
            .iter()
            .fold(0, |axes, store| axes | axes_of(&store.indices)),
        walk,
    };
    let heavy: BTreeSet<OpId> = judge.ops_of(|stage| stage.kind.is_heavy());
    let rows: BTreeSet<OpId> = judge.ops_of(|stage| stage.kind == OpKind::Reduction);
    let mut heavies = heavy.iter().copied();
    match (heavies.next(), heavies.next(), rows.first()) {
        (None, _, None) => judge.map(),
        (None, _, Some(_)) => judge.row(),
        (Some(op), None, None) => judge.heavy(op),
        (Some(heavy), None, Some(&reduction)) => Err(Refusal::Reduced { heavy, reduction }),
        (Some(first), Some(second), Some(_)) if heavy.len() == 2 => judge.attention(first, second),
        (Some(first), Some(second), None) => judge.products(&heavy, (first, second)),
        (Some(first), Some(second), _) => Err(Refusal::Heavy { first, second }),
    }
}

struct Judge<'w, 'a> {
    walk: &'w Walk<'a>,
    /// The axes of the stored points.
    domain: AxisSet,
}

impl Judge<'_, '_> {
    fn ops_of(&self, wanted: impl Fn(&Stage) -> bool) -> BTreeSet<OpId> {
        let stages = self.walk.stages.iter().filter(|stage| wanted(stage));
        stages.map(|stage| stage.op).collect()
    }

    fn kind_at(&self, stage: usize) -> Option<OpKind> {
        self.walk.stages.get(stage).map(|stage| stage.kind)
    }

    /// Every point must store every result.
    fn same_points(&self) -> Result<(), Refusal> {
        let stores = &self.walk.stores;
        match stores
            .iter()
            .find(|store| axes_of(&store.indices) != self.domain)
        {
            None => Ok(()),
            Some(odd) => {
                let full = stores
                    .iter()
                    .find(|store| axes_of(&store.indices) == self.domain);
                let other = full
                    .or(stores.first())
                    .map_or(odd.value, |store| store.value);
                Err(Refusal::Domains {
                    left: other,
                    right: odd.value,
                })
            }
        }
    }

    fn map(&self) -> Result<Class, Refusal> {
        self.same_points()?;
        self.limit_repeats(REPEAT_LIMIT, &|demand| {
            demand.repeated || self.domain & !axes_of(&demand.indices) != 0
        })?;
        Ok(Class::Map)
    }

    fn row(&self) -> Result<Class, Refusal> {
        let mut stages = self.walk.stages.iter();
        let Some(first) = stages.next() else {
            return Ok(Class::Row);
        };
        let points = first.axes();
        if let Some(other) = stages.find(|stage| stage.axes() != points) {
            return Err(Refusal::Rows {
                first: first.op,
                second: other.op,
            });
        }
        for store in &self.walk.stores {
            if points & !axes_of(&store.indices) != 0 {
                return Err(Refusal::Domains {
                    left: store.value,
                    right: self.result_of(first.op).unwrap_or(store.value),
                });
            }
        }
        if points == 0 && self.domain != 0 && !self.is_short(self.domain) {
            return Err(Refusal::OneRow {
                reduction: first.op,
            });
        }
        self.no_taps_of_rows()?;
        // Values that depend only on the points are computed once for each row.
        self.limit_repeats(REPEAT_LIMIT, &|demand| {
            let axes = axes_of(&demand.indices);
            demand.repeated || (axes & !points != 0 && demand.scope & points & !axes != 0)
        })?;
        self.limit_passes()?;
        Ok(Class::Row)
    }

    /// Rejects reductions that are read by the taps of a resize: each tap has a separate condition, under which the
    /// reduction would be computed, tap by tap and point by point.
    fn no_taps_of_rows(&self) -> Result<(), Refusal> {
        let graph = self.walk.graph;
        let is_resize = |op: &&OpId| matches!(graph.op(**op).op, Op::Resize { .. });
        let resized: BTreeSet<ValueId> = self
            .walk
            .ops
            .iter()
            .filter(is_resize)
            .flat_map(|&op| graph.op(op).operands.iter().copied())
            .collect();
        let mut reductions = self.ops_of(|stage| stage.kind == OpKind::Reduction);
        reductions.retain(|&op| !self.results_after(op).is_disjoint(&resized));
        match reductions.first() {
            Some(&op) => Err(Refusal::Moved { op }),
            None => Ok(()),
        }
    }

    fn heavy(&self, op: OpId) -> Result<Class, Refusal> {
        let mut places = self.walk.stages.iter().filter(|stage| stage.op == op);
        let (Some(stage), None) = (places.next(), places.next()) else {
            return Err(Refusal::Moved { op });
        };
        if stage.axes() != self.domain || !is_plain(&stage.indices) {
            return Err(Refusal::Moved { op });
        }
        self.same_points()?;
        let (class, prologue) = match stage.kind {
            OpKind::Contraction => (Class::Contraction, PROLOGUE_LIMIT),
            OpKind::Window => (Class::Window, 0),
            OpKind::Scan => (Class::Scan, u64::MAX),
            _ => {
                // A scatter is stored directly.
                let stored = self
                    .walk
                    .stores
                    .iter()
                    .all(|store| Some(store.value) == self.result_of(op));
                return if stored {
                    Ok(Class::Map)
                } else {
                    Err(Refusal::Moved { op })
                };
            }
        };
        if stage.kind != OpKind::Scan {
            self.readable_operands(op, &|demand| !demand.stored)?;
            let of_weights = |value| self.walk.is_constant(value);
            let is_operand = |demand: &Demand| demand.repeated && !demand.stored;
            let is_free = |value| stage.kind == OpKind::Window && self.is_widened_in_windows(value);
            let counts = |value| !of_weights(value) && !is_free(value);
            self.limit_repeats_of(prologue, &counts, &is_operand)?;
            self.limit_repeats_of(WEIGHTS_LIMIT.max(prologue), &of_weights, &is_operand)?;
        }
        self.limit_repeats(REPEAT_LIMIT, &|demand| {
            demand.stored && (demand.repeated || self.domain & !axes_of(&demand.indices) != 0)
        })?;
        Ok(class)
    }

    /// Whether a value is a widening that the device's windows perform when they load.
    fn is_widened_in_windows(&self, value: ValueId) -> bool {
        let graph = self.walk.graph;
        self.walk.sizes.widens_in_windows()
            && match graph.value(value).definition {
                Definition::Result { op, .. } => is_widening(graph, op),
                _ => false,
            }
    }

    /// Products of one operand with several others, at the same points, and the ops that join their sums.
    fn products(
        &self,
        heavy: &BTreeSet<OpId>,
        (first, second): (OpId, OpId),
    ) -> Result<Class, Refusal> {
        let refusal = || Refusal::Heavy { first, second };
        if heavy.len() > PRODUCTS_LIMIT {
            return Err(refusal());
        }
        let left_of = |op: OpId| self.walk.graph.op(op).operands.first();
        for &op in heavy {
            let mut places = self.walk.stages.iter().filter(|stage| stage.op == op);
            let (Some(stage), None) = (places.next(), places.next()) else {
                return Err(refusal());
            };
            let is_like_the_first = stage.kind == OpKind::Contraction
                && left_of(op) == left_of(first)
                && stage.axes() == self.domain
                && is_plain(&stage.indices);
            let demands = self
                .result_of(op)
                .and_then(|value| self.walk.demands.get(&value));
            let is_joined = demands
                .into_iter()
                .flatten()
                .all(|demand| demand.stages.is_empty());
            if !is_like_the_first || !is_joined {
                return Err(refusal());
            }
        }
        self.same_points()?;
        for &op in heavy {
            self.readable_operands(op, &|demand| !demand.stored)?;
        }
        self.limit_repeats(PROLOGUE_LIMIT, &|demand| demand.repeated && !demand.stored)?;
        self.limit_repeats(REPEAT_LIMIT, &|demand| {
            demand.stored && (demand.repeated || self.domain & !axes_of(&demand.indices) != 0)
        })?;
        Ok(Class::Contraction)
    }

    /// Scores, a softmax (or similar) along their last axis, and a contraction over it.
    fn attention(&self, scores: OpId, mix: OpId) -> Result<Class, Refusal> {
        let refusal = Refusal::Heavy {
            first: scores,
            second: mix,
        };
        let of = |op: OpId| self.walk.stages.iter().filter(move |stage| stage.op == op);
        let mut mixes = of(mix);
        let (Some(last), None) = (mixes.next(), mixes.next()) else {
            return Err(refusal);
        };
        let contraction = |op| of(op).all(|stage| stage.kind == OpKind::Contraction);
        if !contraction(scores) || !contraction(mix) || last.axes() != self.domain {
            return Err(refusal);
        }
        self.same_points()?;
        // The rows: points of the reductions, the same for all, except the mixed axis.
        let mut rows = self
            .walk
            .stages
            .iter()
            .filter(|stage| stage.kind == OpKind::Reduction);
        let Some(row) = rows.next() else {
            return Err(refusal);
        };
        let points = row.axes();
        let mixed = self.domain & !points;
        if rows.any(|stage| stage.axes() != points)
            || points & !self.domain != 0
            || mixed.count_ones() > 1
        {
            return Err(refusal);
        }
        for axis in axes_in(mixed) {
            let Some(info) = self.walk.axes.get(axis) else {
                continue;
            };
            if !self.is_at_most(info.extent, HEAD_LIMIT) {
                return Err(Refusal::LongRow {
                    op: mix,
                    extent: info.extent,
                });
            }
        }
        // Every row of scores is read along one axis: the axis of the weighted sum, or that of a reduction.
        for stage in of(scores) {
            let inner = stage.axes() & !points;
            if points & !stage.axes() != 0 || inner.count_ones() > 1 || inner & self.domain != 0 {
                return Err(refusal);
            }
            let axes = axes_in(inner).filter_map(|axis| self.walk.axes.get(axis));
            let last_axes = axes_in(last.reduced).filter_map(|axis| self.walk.axes.get(axis));
            for (axis, mixed_over) in axes.zip(last_axes) {
                let equal = Predicate::Equal(axis.extent, mixed_over.extent);
                if !self.walk.holds(&equal) {
                    return Err(refusal);
                }
            }
        }
        let below = self.results_after(scores);
        let operand = |demand: &Demand| {
            demand
                .stages
                .iter()
                .any(|&stage| self.kind_at(stage) == Some(OpKind::Contraction))
        };
        self.readable_operands(scores, &operand)?;
        self.limit_repeats_of(
            4 * PROLOGUE_LIMIT,
            &|value| !below.contains(&value),
            &|demand| demand.repeated && operand(demand),
        )?;
        Ok(Class::Attention)
    }

    /// The results that need an op's result.
    fn results_after(&self, op: OpId) -> BTreeSet<ValueId> {
        let graph = self.walk.graph;
        let mut after: BTreeSet<ValueId> = graph.op(op).results.iter().copied().collect();
        for &op in self.walk.ops {
            let data = graph.op(op);
            if data.operands.iter().any(|operand| after.contains(operand)) {
                after.extend(data.results.iter().copied());
            }
        }
        after
    }

    /// Only ops that keep each index of an operand in place may precede a schedule's operand.
    fn readable_operands(
        &self,
        heavy: OpId,
        is_operand: &dyn Fn(&Demand) -> bool,
    ) -> Result<(), Refusal> {
        for &op in self.walk.ops {
            let data = self.walk.graph.op(op);
            let Some(demands) = self
                .result_of(op)
                .and_then(|value| self.walk.demands.get(&value))
            else {
                continue;
            };
            let mut operands = demands.iter().filter(|demand| is_operand(demand));
            let readable = match OpKind::of(&data.op) {
                OpKind::Movement if is_index_map(&data.op) => operands.all(|demand| {
                    data.operands
                        .iter()
                        .all(|value| self.reads_plainly(*value, demand))
                }),
                OpKind::Movement | OpKind::Lookup => operands.next().is_none(),
                _ => true,
            };
            if !readable {
                return Err(Refusal::Operand { heavy, op });
            }
        }
        Ok(())
    }

    /// Whether the indices of an index map's operand are no more complex than those of its result.
    fn reads_plainly(&self, value: ValueId, result: &Demand) -> bool {
        let involved = |indices: &[Index]| {
            let all = indices.iter();
            all.filter(|index| matches!(index, Index::Computed(_)) || index.axes().count_ones() > 1)
                .count()
        };
        let allowed = involved(&result.indices);
        let demands = self.walk.demands.get(&value).into_iter().flatten();
        demands
            .filter(|demand| !demand.stages.is_disjoint(&result.stages))
            .all(|demand| involved(&demand.indices) <= allowed)
    }

    fn limit_repeats(
        &self,
        limit: u64,
        is_repeated: &dyn Fn(&Demand) -> bool,
    ) -> Result<(), Refusal> {
        self.limit_repeats_of(limit, &|_| true, is_repeated)
    }

    /// Limits the cost of the work that is repeated for each element.
    fn limit_repeats_of(
        &self,
        limit: u64,
        counts: &dyn Fn(ValueId) -> bool,
        is_repeated: &dyn Fn(&Demand) -> bool,
    ) -> Result<(), Refusal> {
        let mut total: u64 = 0;
        let mut most = None;
        for &op in self.walk.ops {
            let data = self.walk.graph.op(op);
            let cost = unit_cost(&data.op);
            let inline = matches!(
                OpKind::of(&data.op),
                OpKind::Pointwise | OpKind::Movement | OpKind::Lookup
            );
            let Some(value) = self.result_of(op).filter(|&value| inline && counts(value)) else {
                continue;
            };
            let demands = self.walk.demands.get(&value).into_iter().flatten();
            let times = demands.filter(|demand| is_repeated(demand)).count() as u64;
            let cost = cost.saturating_mul(times);
            total = total.saturating_add(cost);
            if cost > 0 && most.is_none_or(|(_, other)| cost > other) {
                most = Some((value, cost));
            }
        }
        match most {
            // A single op must be allowed, regardless of its cost.
            Some((value, _)) if total > limit && self.walk.ops.len() > 1 => {
                Err(Refusal::Recomputed {
                    value,
                    cost: total,
                    limit,
                })
            }
            _ => Ok(()),
        }
    }

    /// Limits the work repeated by several passes over a row.
    fn limit_passes(&self) -> Result<(), Refusal> {
        let mut total: u64 = 0;
        let mut most = None;
        for &op in self.walk.ops {
            let data = self.walk.graph.op(op);
            if OpKind::of(&data.op) == OpKind::Reduction {
                continue;
            }
            let Some(value) = self.result_of(op) else {
                continue;
            };
            let places = self.walk.demands.get(&value).map_or(0, Vec::len) as u64;
            let cost = unit_cost(&data.op).saturating_mul(places.saturating_sub(1));
            total = total.saturating_add(cost);
            if cost > 0 && most.is_none_or(|(_, other)| cost > other) {
                most = Some((value, cost));
            }
        }
        match most {
            Some((value, _)) if total > PASS_LIMIT => Err(Refusal::Recomputed {
                value,
                cost: total,
                limit: PASS_LIMIT,
            }),
            _ => Ok(()),
        }
    }

    fn result_of(&self, op: OpId) -> Option<ValueId> {
        self.walk.graph.op(op).results.first().copied()
    }

    /// Whether the product of these axes' extents is small, for all sizes.
    fn is_short(&self, axes: AxisSet) -> bool {
        let mut product: i64 = 1;
        for axis in axes_in(axes) {
            let extent = self.walk.axes.get(axis).map(|info| info.extent);
            let max = extent.and_then(|extent| self.walk.sizes.table().range(extent).max);
            let Some(larger) = max.and_then(|max| product.checked_mul(max)) else {
                return false;
            };
            product = larger;
        }
        product <= ROW_LIMIT
    }

    fn is_at_most(&self, extent: kiln_symbolic_shape::DimId, limit: i64) -> bool {
        let max = self.walk.sizes.table().range(extent).max;
        max.is_some_and(|max| max <= limit)
    }
}

/// The numbers of the axes in a set.
fn axes_in(axes: AxisSet) -> impl Iterator<Item = usize> {
    (0..super::index::AXIS_LIMIT).filter(move |axis| axes & (1 << axis) != 0)
}
