//! Windows that lie wholly inside their operand need no masks.
//!
//! Where a load's `inside` depends on the vectors' axis, whether all of a tile's accesses are in bounds is tested once,
//! before the loops, and the body is there twice: without masks for the interior, with them for the edges.

use inkwell::IntPredicate;
use kiln_kernel::{AxisId, IndexClass, Node, NodeId};

use super::context::Lowering;
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
        let unmasked = scope.vectors.is_some_and(|vectors| vectors.mask.is_none());
        let spans = if unmasked {
            self.spans(scope, axis)
        } else {
            Vec::new()
        };
        if spans.is_empty() {
            return body(scope);
        }
        let emit = &self.emit;
        let mut condition: Option<Value<'ctx>> = None;
        for span in &spans {
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
        let Some(condition) = condition else {
            return body(scope);
        };
        let inside = spans
            .iter()
            .map(|span| (span.load, span.position))
            .collect();
        let body = std::cell::RefCell::new(body);
        let (mut interior, mut edge) = (Ok(()), Ok(()));
        emit.branch(
            condition,
            || {
                interior = body.borrow_mut()(&scope.with_inside(inside));
                Vec::new()
            },
            || {
                edge = body.borrow_mut()(scope);
                Vec::new()
            },
        );
        interior.and(edge)
    }

    /// The indices to test: those along the vectors' axis that move evenly along everything inner.
    fn spans(&self, scope: &Scope<'ctx>, axis: AxisId) -> Vec<Span> {
        let mut spans = Vec::new();
        for (id, data) in self.kernel.nodes() {
            let Node::Load(load) = &data.node else {
                continue;
            };
            if !load.guard.as_ref().is_some_and(|guard| guard.inside) {
                continue;
            }
            let classes = &self.kernel.info().loads[id];
            for (position, &index) in load.indices.iter().enumerate() {
                let open = classes.get(position) == Some(&IndexClass::Inside);
                if open && self.dependence.depends(index, axis) {
                    spans.extend(self.span(scope, id, position, index));
                }
            }
        }
        spans
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
