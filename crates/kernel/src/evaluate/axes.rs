//! Iteration over the points of nested axes.

use super::{EvaluateError, Evaluator};
use crate::form::{AxisId, Extent};

/// The function called at a point, and its result.
pub(super) type Visit<'a, E, T = ()> =
    dyn FnMut(&mut E, Option<AxisId>) -> Result<T, EvaluateError> + 'a;

impl Evaluator<'_> {
    /// Calls `visit` at every point of the axes, the last axis fastest. The extent of an axis may depend on those before
    /// it.
    ///
    /// `visit` gets the last axis if no other axis has moved since the previous point, otherwise `None`.
    pub(super) fn for_each_point(
        &mut self,
        axes: &[AxisId],
        visit: &mut Visit<'_, Self>,
    ) -> Result<(), EvaluateError> {
        let result = self.walk(axes, visit);
        for &axis in axes {
            self.positions[axis] = None;
        }
        result
    }

    fn walk(&mut self, axes: &[AxisId], visit: &mut Visit<'_, Self>) -> Result<(), EvaluateError> {
        let mut moved = None;
        // The axes that have a position, with their extents.
        let mut extents: Vec<i64> = Vec::with_capacity(axes.len());
        loop {
            match axes.get(extents.len()) {
                Some(&axis) => {
                    extents.push(self.extent(axis)?);
                    self.positions[axis] = Some(0);
                    moved = None;
                }
                None => {
                    visit(self, moved)?;
                    self.advance(axes, extents.len());
                    moved = axes.last().copied();
                }
            }
            // Exhausted axes advance the surrounding ones.
            while let (Some(&extent), Some(&axis)) =
                (extents.last(), axes.get(extents.len().wrapping_sub(1)))
            {
                if self.positions[axis].is_some_and(|at| at < extent) {
                    break;
                }
                extents.pop();
                self.positions[axis] = None;
                self.advance(axes, extents.len());
            }
            if extents.is_empty() {
                return Ok(());
            }
        }
    }

    /// Advances the last of `count` axes.
    fn advance(&mut self, axes: &[AxisId], count: usize) {
        if let Some(&axis) = count.checked_sub(1).and_then(|last| axes.get(last)) {
            self.positions[axis] = self.positions[axis].map(|at| at + 1);
        }
    }

    pub(super) fn extent(&mut self, axis: AxisId) -> Result<i64, EvaluateError> {
        match self.kernel.axis(axis).extent {
            Extent::Size(size) => self.size(size),
            Extent::Clamped { value, bound } => {
                let value = self.integer(value)?;
                Ok(value.max(0).min(self.size(bound)?))
            }
        }
    }
}
