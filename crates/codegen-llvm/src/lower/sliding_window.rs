//! Sliding-window (register-blocked) depthwise convolution: neighbouring rows of a tile share the elements they read.
//!
//! Five taps at each of eight neighbouring pixels are forty products of only twelve elements. With the taps of a
//! window's row unrolled, each element is loaded once for all its products.

use kiln_kernel::AxisId;
use kiln_kernel::analysis::{GuardedIndex, SlidingWindow};
use kiln_schedule_cpu::sliding_window;

use super::context::KernelLowering;
use super::interior::Span;
use super::reduce::Reduce;
use super::scope::{Coordinate, Form, Scope};
use crate::emit::Value;
use crate::error::LlvmError;

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// How a reduction's window slides along the rows of the tile, if unrolling it pays.
    pub(super) fn sliding_window(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
        taps: AxisId,
        points: &[Coordinate],
    ) -> Option<SlidingWindow> {
        let rows = scope.rows.filter(|rows| rows.count > 1 && !rows.spread)?;
        if rows.repeats.is_some() {
            return None;
        }
        let slide = sliding_window(self.kernel, self.dependence, reduce.value, rows.axis, taps)?;
        let is_fitting = points.len() == rows.count as usize && !reduce.reduction.is_arg();
        let is_plain = self.varies(scope, slide.load) && slide.is_shared(rows.count);
        (is_fitting && is_plain).then_some(slide)
    }

    /// The index to test so that all taps of a window's row are in bounds in all rows of the tile: the one that taps move.
    /// The others are the same for all.
    pub(super) fn spans_of_taps(&self, scope: &Scope<'ctx>, slide: &SlidingWindow) -> Vec<Span> {
        let open = GuardedIndex::below(self.kernel, slide.load).into_iter();
        open.filter(|open| open.position == slide.position)
            .filter(|open| !scope.is_inside(open.load, open.position))
            .filter_map(|open| self.span(scope, open))
            .collect()
    }

    /// Accumulates every tap of a row of the window, element by element.
    pub(super) fn sliding_sums(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
        (slide, taps): (&SlidingWindow, AxisId),
        points: &[Coordinate],
        carried: &[Value<'ctx>],
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        // Values known at a tap, such as its weight, are known for all rows.
        let at_taps: Vec<Scope<'ctx>> = (0..slide.n_taps)
            .map(|tap| scope.with_axis(taps, self.emit.i64(tap)))
            .collect();
        let mut sums = carried.to_vec();
        for readers in slide.readers(points.len() as u32).into_values() {
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
