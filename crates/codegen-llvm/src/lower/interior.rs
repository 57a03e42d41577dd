//! Windows that lie wholly inside their operand need no masks.
//!
//! Where a load's `inside` depends on the vectors' axis, whether all of a tile's accesses are in bounds is tested once,
//! before the loops, and the body is there twice: without masks for the interior, with them for the edges.

use std::collections::BTreeSet;

use inkwell::IntPredicate;
use kiln_kernel::{AxisId, IndexClass, Item, Node, NodeId, StageOperation};

use super::context::Lowering;
use super::reduce::Body;
use super::scope::{Coordinate, Form, Scope};
use crate::emit::Value;
use crate::error::LlvmError;

/// An index that is in bounds if two numbers are: how far below and above its value at the tile's first point it gets.
pub(super) struct Span {
    load: NodeId,
    position: usize,
    pub(super) below: i64,
    pub(super) above: i64,
    /// The axes to be bound to 0 for the value at the first point.
    pub(super) inner: Vec<AxisId>,
}

impl<'ctx> Lowering<'_, '_, 'ctx> {
    /// Runs the body, without masks for windows if the whole tile is in the interior.
    pub(super) fn inside_or_not(
        &self,
        scope: &Scope<'ctx>,
        axis: AxisId,
        body: &mut dyn FnMut(&Scope<'ctx>) -> Result<(), LlvmError>,
    ) -> Result<(), LlvmError> {
        let unmasked = scope.vectors.is_some_and(|vectors| vectors.left.is_none());
        let spans = if unmasked {
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

    /// Runs the body, without conditions on what a window loads where all rows of the tile are in bounds: for one tap of
    /// a window, before the loop over what lies at it, if there is one.
    pub(super) fn tap_inside_or_not(
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
        let spans: Vec<Span> = self
            .open_below(value)
            .into_iter()
            .filter(|&(id, position, _)| !scope.is_inside(id, position))
            .filter_map(|(id, position, index)| self.span(scope, id, position, index))
            .collect();
        self.spans_inside_or_not(scope, &spans, body, carried)
    }

    /// Runs the body, without conditions on some indices where they are in bounds at every point of the tile.
    pub(super) fn spans_inside_or_not(
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

    /// Whether the loads of a value that may be out of bounds are so or not however far the loop along an axis is.
    pub(super) fn is_tap(&self, value: NodeId, along: AxisId) -> bool {
        let open = self.open_below(value);
        let still = |&(.., index): &(NodeId, usize, NodeId)| !self.dependence.depends(index, along);
        !open.is_empty() && open.iter().all(still)
    }

    /// Whether a value has loads that may be out of bounds.
    pub(super) fn is_windowed(&self, value: NodeId) -> bool {
        !self.open_below(value).is_empty()
    }

    /// The indices of loads below a value that are in bounds only where a guard says so.
    pub(super) fn open_below(&self, value: NodeId) -> Vec<(NodeId, usize, NodeId)> {
        let below: BTreeSet<NodeId> = self.below(value).into_iter().collect();
        let mut open = self.open_indices();
        open.retain(|(id, ..)| below.contains(id));
        open
    }

    /// The indices of loads that are in bounds only where a guard says so.
    fn open_indices(&self) -> Vec<(NodeId, usize, NodeId)> {
        let mut open = Vec::new();
        for (id, data) in self.kernel.nodes() {
            let Node::Load(load) = &data.node else {
                continue;
            };
            if !load.guard.as_ref().is_some_and(|guard| guard.inside) {
                continue;
            }
            let classes = &self.kernel.info().loads[id];
            for (position, &index) in load.indices.iter().enumerate() {
                if classes.get(position) == Some(&IndexClass::Inside) {
                    open.push((id, position, index));
                }
            }
        }
        open
    }

    /// The values that the kernel's stores write.
    fn stored(&self) -> Vec<NodeId> {
        let items = self.kernel.items().iter().flat_map(Item::parts);
        let stored = items.filter_map(|item| match item {
            Item::Store(store) => Some(store.value),
            _ => None,
        });
        stored.collect()
    }

    /// Whether some indices are in bounds at every point of the tile; none if there are no indices.
    fn all_inside(
        &self,
        scope: &Scope<'ctx>,
        spans: &[Span],
    ) -> Result<Option<Value<'ctx>>, LlvmError> {
        let emit = &self.emit;
        let mut condition: Option<Value<'ctx>> = None;
        for span in spans {
            let Node::Load(load) = self.kernel.node(span.load) else {
                unreachable!("spans are of loads")
            };
            let (Some(&index), Some(&size)) = (
                load.indices.get(span.position),
                self.kernel.buffer(load.buffer).shape.get(span.position),
            ) else {
                unreachable!("spans are of indices that loads have")
            };
            let at_zero = span.inner.iter().fold(scope.clone(), |scope, &axis| {
                scope.with_axis(axis, emit.i64(0))
            });
            let first = self.value(&at_zero, index, Coordinate::default(), Form::First)?;
            let low = emit.isub(first, emit.i64(span.below));
            let high = emit.iadd(first, emit.i64(span.above));
            let inside = emit.and(
                emit.icmp(IntPredicate::SGE, low, emit.i64(0)),
                emit.icmp(IntPredicate::SLT, high, self.dim(size)),
            );
            condition = Some(match condition {
                Some(condition) => emit.and(condition, inside),
                None => inside,
            });
        }
        Ok(condition)
    }

    /// The indices to test for a tile: those along the vectors' axis that move evenly along everything inner. Where
    /// windows move along the rows of a full tile instead, all of theirs, unless they are tested tap by tap.
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
                    is_tap.then(|| self.open_below(stage.value))
                }
                _ => None,
            })
            .flatten()
            .map(|(id, ..)| id)
            .collect();
        let mut open = self.open_indices();
        if scope.has_choices() {
            let below = self.chosen_below(scope, &self.stored());
            open.retain(|(id, ..)| below.contains(id));
        }
        let moves = |load: NodeId, axis: AxisId| {
            open.iter()
                .any(|&(id, _, index)| id == load && self.dependence.depends(index, axis))
        };
        open.iter()
            .filter(|&&(id, _, index)| {
                self.dependence.depends(index, axis)
                    || along_rows.is_some_and(|rows| {
                        !moves(id, axis) && moves(id, rows.axis) && !by_taps.contains(&id)
                    })
            })
            .filter_map(|&(id, position, index)| self.span(scope, id, position, index))
            .collect()
    }

    pub(super) fn span(
        &self,
        scope: &Scope<'ctx>,
        load: NodeId,
        position: usize,
        index: NodeId,
    ) -> Option<Span> {
        let (mut below, mut above) = (0_i64, 0_i64);
        let mut inner = Vec::new();
        for other in self.kernel.axes().keys() {
            if !self.dependence.depends(index, other) {
                continue;
            }
            let points = if let Some(rows) = scope.rows.filter(|rows| rows.axis == other) {
                if rows.spread {
                    return None;
                }
                i64::from(rows.count)
            } else if let Some(vectors) = scope.vectors.filter(|vectors| vectors.axis == other) {
                i64::from(vectors.count * vectors.lanes)
            } else if scope.axis(other).is_some() {
                continue;
            } else {
                inner.push(other);
                self.bound(other).as_constant()?
            };
            let step = self.dependence.step_along(self.kernel, index, other)?;
            let reach = step.checked_mul((points - 1).max(0))?;
            if reach < 0 {
                below = below.checked_sub(reach)?;
            } else {
                above = above.checked_add(reach)?;
            }
        }
        Some(Span {
            load,
            position,
            below,
            above,
            inner,
        })
    }
}

/// A scope where some indices are known to be in bounds, those that were known too.
fn with_inside<'ctx>(scope: &Scope<'ctx>, spans: &[Span]) -> Scope<'ctx> {
    scope.with_inside(spans.iter().map(|span| (span.load, span.position)))
}
