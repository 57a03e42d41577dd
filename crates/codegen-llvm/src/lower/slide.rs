//! Windows that slide along the rows of a tile: neighbouring rows read the same elements, at different taps.
//!
//! Five taps at each of eight neighbouring pixels are forty products of twelve elements. With the taps of a row of the
//! window written out, each element is loaded once for all of them.

use std::collections::{BTreeMap, BTreeSet};

use kiln_kernel::analysis::Dependence;
use kiln_kernel::{AxisId, Kernel, Node, NodeId};

use super::context::Lowering;
use super::interior::Span;
use super::reduce::Reduce;
use super::scope::{Coordinate, Form, Scope};
use crate::emit::Value;
use crate::error::LlvmError;

/// Taps that are written out: their weights, the sums and an element fit the registers of every level.
const MOST_TAPS: i64 = 7;

/// How a load moves along the rows of a tile, and along the taps of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slide {
    load: NodeId,
    /// Which of its indices does.
    position: usize,
    per_row: i64,
    per_tap: i64,
    taps: i64,
}

impl Slide {
    /// That of a value which is reduced over `taps`, if one load moves along rows, and along one axis of its buffer.
    pub(crate) fn of(
        kernel: &Kernel,
        dependence: &Dependence,
        value: NodeId,
        rows: AxisId,
        taps: AxisId,
    ) -> Option<Self> {
        let kiln_kernel::Extent::Size(size) = kernel.axis(taps).extent else {
            return None;
        };
        let n_taps = kernel.dims().as_constant(size)?;
        if !(2..=MOST_TAPS).contains(&n_taps) {
            return None;
        }
        let mut moving = None;
        let mut pending = vec![value];
        let mut seen = BTreeSet::new();
        while let Some(node) = pending.pop() {
            if !seen.insert(node) || !dependence.depends(node, rows) {
                continue;
            }
            match kernel.node(node) {
                Node::Load(load) if moving.is_none() => moving = Some((node, load)),
                Node::Apply { operands, .. } => pending.extend(operands.iter().copied()),
                _ => return None,
            }
        }
        let (load, Node::Load(of)) = moving.map(|(node, _)| (node, kernel.node(node)))? else {
            return None;
        };
        let when = of.guard.as_ref().and_then(|guard| guard.when);
        // What is there instead, outside of the picture, is taken for the same at all places too.
        let moves_outside = of.guard.as_ref().is_some_and(|guard| {
            let depends = |axis| dependence.depends(guard.otherwise, axis);
            depends(rows) || depends(taps)
        });
        if moves_outside {
            return None;
        }
        let moves = |&(_, &index): &(usize, &NodeId)| {
            dependence.depends(index, rows) || dependence.depends(index, taps)
        };
        let mut indices = of.indices.iter().enumerate().filter(moves);
        let (Some((position, &index)), None, None) = (indices.next(), indices.next(), when) else {
            return None;
        };
        Some(Self {
            load,
            position,
            per_row: dependence.step_along(kernel, index, rows)?,
            per_tap: dependence.step_along(kernel, index, taps)?,
            taps: n_taps,
        })
    }

    /// Whether so many rows read a good part of their elements more than once.
    pub(crate) fn is_shared(&self, rows: u32) -> bool {
        let places: BTreeSet<i64> = self.in_order(rows).into_keys().collect();
        3 * i64::from(rows) * self.taps >= 4 * places.len() as i64
            && self.per_row > 0
            && self.per_tap > 0
    }

    /// Whether its elements differ along an axis.
    pub(crate) fn differs_along(&self, dependence: &Dependence, axis: AxisId) -> bool {
        dependence.depends(self.load, axis)
    }

    /// Which rows read an element at which tap, per element in the order in which they lie.
    fn in_order(&self, rows: u32) -> BTreeMap<i64, Vec<(u32, i64)>> {
        let mut places = BTreeMap::new();
        for row in 0..rows {
            for tap in 0..self.taps {
                let place = i64::from(row) * self.per_row + tap * self.per_tap;
                let readers: &mut Vec<(u32, i64)> = places.entry(place).or_default();
                readers.push((row, tap));
            }
        }
        places
    }
}

impl<'ctx> Lowering<'_, '_, 'ctx> {
    /// How a reduction's window slides along the rows of the tile, where that is worth writing out.
    pub(super) fn slide(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
        taps: AxisId,
        points: &[Coordinate],
    ) -> Option<Slide> {
        let rows = scope.rows.filter(|rows| rows.count > 1 && !rows.spread)?;
        if rows.repeats.is_some() {
            return None;
        }
        let slide = Slide::of(self.kernel, self.dependence, reduce.value, rows.axis, taps)?;
        let is_fitting = points.len() == rows.count as usize && !reduce.reduction.is_arg();
        let is_plain = self.varies(scope, slide.load) && slide.is_shared(rows.count);
        (is_fitting && is_plain).then_some(slide)
    }

    /// What is to be tested so that all taps of a row of the window are inside in all rows of the tile: the index that
    /// they move. The others are the same for all.
    pub(super) fn spans_of_taps(&self, scope: &Scope<'ctx>, slide: &Slide) -> Vec<Span> {
        let open = self.open_below(slide.load).into_iter();
        open.filter(|&(_, position, _)| position == slide.position)
            .filter(|&(load, position, _)| !scope.is_inside(load, position))
            .filter_map(|(load, position, index)| self.span(scope, load, position, index))
            .collect()
    }

    /// Every tap of a row of the window, one element after the other.
    pub(super) fn slid(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
        (slide, taps): (&Slide, AxisId),
        points: &[Coordinate],
        carried: &[Value<'ctx>],
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        // What is known at a tap, its weight above all, is known for all rows.
        let at_taps: Vec<Scope<'ctx>> = (0..slide.taps)
            .map(|tap| scope.with_axis(taps, self.emit.i64(tap)))
            .collect();
        let mut sums = carried.to_vec();
        for readers in slide.in_order(points.len() as u32).into_values() {
            let mut element = None;
            for (row, tap) in readers {
                let (Some(here), Some(&point), Some(sum)) = (
                    usize::try_from(tap).ok().and_then(|tap| at_taps.get(tap)),
                    points.get(row as usize),
                    sums.get_mut(row as usize),
                ) else {
                    unreachable!("rows and taps were counted")
                };
                let element = match element {
                    Some(element) => element,
                    None => *element.insert(self.value(here, slide.load, point, Form::Lanes)?),
                };
                self.assume(here, slide.load, point, element);
                for next in self.accumulate(here, reduce, &[point], &[*sum])? {
                    *sum = next;
                }
            }
        }
        Ok(sums)
    }
}
