//! The range of an index relative to its value at a tile's first point.
//!
//! If the minimum and the maximum are in bounds, so is every index in between, and one test before the loops serves the
//! whole tile.

use super::Dependence;
use crate::form::{AxisId, Kernel, NodeId};

/// The part of an axis that a tile covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisPoints {
    /// One point, whose index is known.
    One,
    /// This many consecutive points.
    Next(i64),
    /// All points: a loop over the axis is inside the tile.
    All,
}

/// The range of an index relative to its value at a tile's first point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The largest decrease.
    pub below: i64,
    /// The largest increase.
    pub above: i64,
    /// The axes that the tile covers completely: their index is 0 at its first point.
    pub inner: Vec<AxisId>,
}

impl Reach {
    /// The reach of an index in a tile. `None` if it does not vary by constants, if an axis that the tile covers
    /// completely has no known bound, or if `points` returns `None` for an axis on which the index depends.
    pub fn of(
        kernel: &Kernel,
        dependence: &Dependence,
        index: NodeId,
        points: impl Fn(AxisId) -> Option<AxisPoints>,
    ) -> Option<Self> {
        let mut reach = Self {
            below: 0,
            above: 0,
            inner: Vec::new(),
        };
        for axis in kernel.axes().keys() {
            if !dependence.depends(index, axis) {
                continue;
            }
            let points = match points(axis)? {
                AxisPoints::One => continue,
                AxisPoints::Next(points) => points,
                AxisPoints::All => {
                    reach.inner.push(axis);
                    kernel
                        .dims()
                        .as_constant(kernel.axis(axis).extent.bound())?
                }
            };
            let step = dependence.step_along(kernel, index, axis)?;
            let moved = step.checked_mul((points - 1).max(0))?;
            if moved < 0 {
                reach.below = reach.below.checked_sub(moved)?;
            } else {
                reach.above = reach.above.checked_add(moved)?;
            }
        }
        Some(reach)
    }
}

#[cfg(test)]
mod tests {
    use super::super::GuardedIndex;
    use super::super::testing::{axis, kernel, stage_value};
    use super::*;

    #[test]
    fn a_window_reach_covers_its_rows_and_taps() {
        let kernel = kernel(
            "kernel @conv(%x: in f32[N], %w: const f32[5], %y: out f32[N, M]) {
               outer n < N, m < M
               s = reduce add[t < 5] (%x[2 * n - 3 * t] if inside else 0.0) * %w[t]
               store %y[n, m] = s
             }",
        );
        let dependence = Dependence::of(&kernel);
        let index = GuardedIndex::below(&kernel, stage_value(&kernel, "s"))[0].index;
        let (n, t) = (axis(&kernel, "n"), axis(&kernel, "t"));
        let reach = |of_n: Option<AxisPoints>| {
            let points = |axis| match axis {
                _ if axis == n => of_n,
                _ if axis == t => Some(AxisPoints::All),
                _ => None,
            };
            Reach::of(&kernel, &dependence, index, points)
        };
        let expected = |above| Reach {
            below: 12,
            above,
            inner: vec![t],
        };
        assert_eq!(reach(Some(AxisPoints::Next(8))), Some(expected(14)));
        assert_eq!(reach(Some(AxisPoints::One)), Some(expected(0)));
        assert_eq!(reach(Some(AxisPoints::All)), None, "N is not known");
        assert_eq!(reach(None), None);
    }
}
