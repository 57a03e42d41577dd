//! Interior and edge versions of a window's body: no masks if all accesses are in bounds.
//!
//! Where a load's `inside` depends on the vectorised axis, one test before the loops decides whether every access of
//! the tile is in bounds. The body is emitted twice: without masks for the interior, with masks for the edges. If the
//! test is made per tap, there is a third version, without loads, for taps that are in the padding at every point of
//! the tile.

use std::collections::{BTreeMap, BTreeSet};

use inkwell::IntPredicate;
use kiln_kernel::analysis::{AxisPoints, GuardedIndex, Reach};
use kiln_kernel::seeded::{Fault, is_on};
use kiln_kernel::{AxisId, Item, Node, NodeId, StageOperation};

use super::context::KernelLowering;
use super::reduce::Body;
use super::scope::{Coordinate, Form, Scope};
use crate::emit::Value;
use crate::error::LlvmError;

/// An index that is in bounds if its lowest and highest offset from the tile's first point are.
pub(super) struct Span {
    of: GuardedIndex,
    pub(super) reach: Reach,
}

impl Span {
    /// Whether the scope knows it to be in bounds.
    fn is_inside(&self, scope: &Scope<'_>) -> bool {
        scope.is_inside(self.of.load, self.of.position)
    }
}

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// Runs the body, without masks for windows if the whole tile is in the interior.
    pub(super) fn interior_or_edge(
        &self,
        scope: &Scope<'ctx>,
        axis: AxisId,
        body: &mut dyn FnMut(&Scope<'ctx>) -> Result<(), LlvmError>,
    ) -> Result<(), LlvmError> {
        let unmasked = scope.vectors.is_some_and(|vectors| vectors.left.is_none());
        let spans = if (unmasked || !self.has_products()) && self.nest.loops.peel {
            self.spans(scope, axis)
        } else {
            Vec::new()
        };
        let Some(condition) = self.all_inside(scope, &spans)? else {
            return body(scope);
        };
        let body = &mut |scope: &Scope<'ctx>, _: &[_]| body(scope).map(|()| Vec::new());
        self.in_either(condition, (&with_inside(scope, &spans), scope), body, &[])?;
        Ok(())
    }

    /// Runs the body, without conditions on a window's loads if all rows of the tile are in bounds at one tap, and without
    /// the loads if none is; the tests precede the loop over the window's contents, if there is one.
    pub(super) fn interior_or_edge_of_tap(
        &self,
        scope: &Scope<'ctx>,
        value: NodeId,
        along: Option<AxisId>,
        body: &mut Body<'_, 'ctx>,
        carried: &[Value<'ctx>],
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let lanes = scope.vectors.map(|vectors| vectors.axis);
        let still = [along, lanes];
        let is_tap = scope.rows.is_some_and(|rows| rows.count > 1)
            && still
                .into_iter()
                .flatten()
                .all(|axis| self.is_tap(value, axis));
        if !is_tap {
            return body(scope, carried);
        }
        let open = GuardedIndex::below(self.kernel, value).into_iter();
        let spans: Vec<Span> = open
            .filter(|open| !scope.is_inside(open.load, open.position))
            .filter_map(|open| self.span(scope, open))
            .collect();
        let Some(is_inside) = self.all_inside(scope, &spans)? else {
            return body(scope, carried);
        };
        let mut interior_or_not = |inner: &Scope<'ctx>, carried: &[Value<'ctx>]| {
            let is_interior = spans.iter().all(|span| span.is_inside(inner));
            match is_interior {
                true => body(inner, carried),
                false => self.padding_or_edge(inner, &spans, along.is_none(), body, carried),
            }
        };
        let inside = with_inside(scope, &spans);
        self.in_either(is_inside, (&inside, scope), &mut interior_or_not, carried)
    }

    /// Runs the body, without some loads if they are out of bounds at every point of the tile; otherwise, if the body has no
    /// loop, with the rows of all of them loaded first.
    fn padding_or_edge(
        &self,
        scope: &Scope<'ctx>,
        spans: &[Span],
        is_point: bool,
        body: &mut Body<'_, 'ctx>,
        carried: &[Value<'ctx>],
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let Some(is_outside) = self.all_outside(scope, spans)? else {
            return body(scope, carried);
        };
        let loads: BTreeSet<NodeId> = spans.iter().map(|span| span.of.load).collect();
        let mut padding_or_not = |inner: &Scope<'ctx>, carried: &[Value<'ctx>]| {
            let is_padding = loads.iter().all(|&load| inner.is_outside(load));
            match is_point && !is_padding {
                true => body(&self.with_edge_rows(inner, &loads)?, carried),
                false => body(inner, carried),
            }
        };
        let outside = scope.with_outside(loads.iter().copied());
        self.in_either(is_outside, (&outside, scope), &mut padding_or_not, carried)
    }

    /// Runs the body, without conditions on some indices if they are in bounds at every point of the tile.
    pub(super) fn interior_or_edge_of_spans(
        &self,
        scope: &Scope<'ctx>,
        spans: &[Span],
        body: &mut Body<'_, 'ctx>,
        carried: &[Value<'ctx>],
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let Some(condition) = self.all_inside(scope, spans)? else {
            return body(scope, carried);
        };
        let inside = with_inside(scope, spans);
        self.in_either(condition, (&inside, scope), body, carried)
    }

    /// The values that the kernel's stores write.
    pub(super) fn stored(&self) -> Vec<NodeId> {
        let items = self.kernel.items().iter().flat_map(Item::parts);
        let stored = items.filter_map(|item| match item {
            Item::Store(store) => Some(store.value),
            _ => None,
        });
        stored.collect()
    }

    /// Whether some indices are in bounds at every point of the tile; `None` if there are none.
    fn all_inside(
        &self,
        scope: &Scope<'ctx>,
        spans: &[Span],
    ) -> Result<Option<Value<'ctx>>, LlvmError> {
        let emit = &self.emit;
        let mut condition: Option<Value<'ctx>> = None;
        for span in spans {
            let (low, high, size) = self.bounds(scope, span)?;
            let inside = emit.and(
                emit.icmp(IntPredicate::SGE, low, emit.i64(0)),
                emit.icmp(IntPredicate::SLT, high, size),
            );
            condition = Some(self.both(condition, inside));
        }
        Ok(condition)
    }

    /// Whether each load of some indices has one that is out of bounds at every point of the tile; `None` if there are none.
    fn all_outside(
        &self,
        scope: &Scope<'ctx>,
        spans: &[Span],
    ) -> Result<Option<Value<'ctx>>, LlvmError> {
        let emit = &self.emit;
        let mut loads: BTreeMap<NodeId, Value<'ctx>> = BTreeMap::new();
        for span in spans {
            let (low, high, size) = self.bounds(scope, span)?;
            let least = i64::from(is_on(Fault::WidePadding));
            let outside = emit.or(
                emit.icmp(IntPredicate::SLT, high, emit.i64(least)),
                emit.icmp(IntPredicate::SGE, low, size),
            );
            let load = span.of.load;
            let any = loads
                .get(&load)
                .map_or(outside, |&any| emit.or(any, outside));
            loads.insert(load, any);
        }
        let conditions = loads.into_values();
        Ok(conditions.reduce(|all, outside| emit.and(all, outside)))
    }

    /// The lowest and the highest value of an index at the points of the tile, and the size of its axis.
    fn bounds(
        &self,
        scope: &Scope<'ctx>,
        span: &Span,
    ) -> Result<(Value<'ctx>, Value<'ctx>, Value<'ctx>), LlvmError> {
        let emit = &self.emit;
        let Node::Load(load) = self.kernel.node(span.of.load) else {
            unreachable!("spans are of loads")
        };
        let Some(&size) = self.kernel.buffer(load.buffer).shape.get(span.of.position) else {
            unreachable!("spans are of indices that loads have")
        };
        let at_zero = span.reach.inner.iter().fold(scope.clone(), |scope, &axis| {
            scope.with_axis(axis, emit.i64(0))
        });
        let first = self.value(&at_zero, span.of.index, Coordinate::default(), Form::First)?;
        let low = emit.isub(first, emit.i64(span.reach.below));
        let high = emit.iadd(first, emit.i64(span.reach.above));
        let high = emit.isub(high, self.beyond_end(scope, span.of.index));
        Ok((low, high, self.dim(size)))
    }

    /// How far the lanes past the end of a partial vector reach beyond its last element.
    fn beyond_end(&self, scope: &Scope<'ctx>, index: NodeId) -> Value<'ctx> {
        let emit = &self.emit;
        let none = emit.i64(0);
        let Some((vectors, left)) = scope
            .vectors
            .and_then(|vectors| vectors.left.map(|left| (vectors, left)))
        else {
            return none;
        };
        let step = self.dependence.step_along(self.kernel, index, vectors.axis);
        // If the stride is unknown, or negative, these lanes count as elements.
        let Some(step) = step.filter(|&step| step > 0) else {
            return none;
        };
        let all = emit.i64(i64::from(vectors.count * vectors.lanes));
        let missing = emit.smax(emit.isub(all, left.elements), none);
        emit.imul(missing, emit.i64(step))
    }

    /// Whether the kernel is a sum of products.
    fn has_products(&self) -> bool {
        !self.kernel.classification().contractions.is_empty()
    }

    /// The indices to test for a tile: those along the vectorised axis with constant strides along everything inner. If
    /// windows move along the rows of a full tile, all of the windows' indices, unless they are tested tap by tap, or
    /// belong to products and move along the vectors too.
    fn spans(&self, scope: &Scope<'ctx>, axis: AxisId) -> Vec<Span> {
        let along_rows = scope.rows.filter(|rows| rows.count > 1);
        let by_taps: BTreeSet<NodeId> = self
            .kernel
            .stages()
            .values()
            .filter_map(|stage| match &stage.operation {
                StageOperation::Reduce { axes, .. } if axes.len() > 1 => {
                    let is_tap = axes
                        .last()
                        .is_some_and(|&last| self.is_tap(stage.value, last));
                    is_tap.then(|| GuardedIndex::below(self.kernel, stage.value))
                }
                _ => None,
            })
            .flatten()
            .map(|open| open.load)
            .collect();
        let mut open = GuardedIndex::all(self.kernel);
        if scope.has_choices() {
            let below = self.chosen_below(scope, &self.stored());
            open.retain(|open| below.contains(&open.load));
        }
        let moves = |load: NodeId, axis: AxisId| {
            open.iter()
                .any(|open| open.load == load && self.dependence.depends(open.index, axis))
        };
        open.iter()
            .filter(|open| {
                let load = open.load;
                self.dependence.depends(open.index, axis)
                    || along_rows.is_some_and(|rows| {
                        let is_tested = !self.has_products() || !moves(load, axis);
                        is_tested && moves(load, rows.axis) && !by_taps.contains(&load)
                    })
            })
            .filter_map(|&open| self.span(scope, open))
            .collect()
    }

    /// The range of offsets of an index at the points of the tile; `None` if it is unknown.
    pub(super) fn span(&self, scope: &Scope<'ctx>, of: GuardedIndex) -> Option<Span> {
        let points = |axis: AxisId| {
            if let Some(rows) = scope.rows.filter(|rows| rows.axis == axis) {
                return (!rows.spread).then(|| AxisPoints::Next(rows.count.into()));
            }
            if let Some(vectors) = scope.vectors.filter(|vectors| vectors.axis == axis) {
                return Some(AxisPoints::Next((vectors.count * vectors.lanes).into()));
            }
            match scope.axis(axis) {
                Some(_) => Some(AxisPoints::One),
                None => Some(AxisPoints::All),
            }
        };
        let reach = Reach::of(self.kernel, self.dependence, of.index, points)?;
        Some(Span { of, reach })
    }

    /// Whether the bounds of a value's loads are invariant in the loop along an axis.
    pub(super) fn is_tap(&self, value: NodeId, along: AxisId) -> bool {
        GuardedIndex::are_fixed_along(self.kernel, self.dependence, value, along)
    }
}

/// A scope in which some more indices are known to be in bounds.
fn with_inside<'ctx>(scope: &Scope<'ctx>, spans: &[Span]) -> Scope<'ctx> {
    scope.with_inside(spans.iter().map(|span| (span.of.load, span.of.position)))
}
