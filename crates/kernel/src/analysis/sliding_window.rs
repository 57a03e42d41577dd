//! Sliding windows along an axis: neighbouring points read the same elements at different taps.
//!
//! Five taps at each of eight neighbouring pixels are forty products of twelve elements.

use std::collections::{BTreeMap, BTreeSet};

use super::Dependence;
use crate::form::{AxisId, Extent, Kernel, Node, NodeId};

/// How a load moves along an outer axis (the *rows* of a tile), and along the taps of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    /// The load.
    pub load: NodeId,
    /// The index that moves.
    pub position: usize,
    /// The number of taps along the reduced axis.
    pub n_taps: i64,
    per_row: i64,
    per_tap: i64,
}

impl SlidingWindow {
    /// The window of a value that is reduced over `taps`, if one load moves along rows, and along one axis of its buffer,
    /// by constants, and nothing else of the value does.
    pub fn of(
        kernel: &Kernel,
        dependence: &Dependence,
        value: NodeId,
        rows: AxisId,
        taps: AxisId,
    ) -> Option<Self> {
        let Extent::Size(size) = kernel.axis(taps).extent else {
            return None;
        };
        let n_taps = kernel.dims().as_constant(size)?;
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
        let (load, of) = moving?;
        let when = of.guard.as_ref().and_then(|guard| guard.when);
        // The value in the padding is assumed to be the same everywhere.
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
            n_taps,
            per_row: dependence.step_along(kernel, index, rows)?,
            per_tap: dependence.step_along(kernel, index, taps)?,
        })
    }

    /// Whether enough of the reads of this many rows are repeated: a quarter of all reads.
    pub fn is_shared(&self, rows: u32) -> bool {
        let places: BTreeSet<i64> = self.readers(rows).into_keys().collect();
        3 * i64::from(rows) * self.n_taps >= 4 * places.len() as i64
            && self.per_row > 0
            && self.per_tap > 0
    }

    /// Which rows read an element, and at which tap, per element in memory order.
    pub fn readers(&self, rows: u32) -> BTreeMap<i64, Vec<(u32, i64)>> {
        let mut places = BTreeMap::new();
        for row in 0..rows {
            for tap in 0..self.n_taps {
                let place = i64::from(row) * self.per_row + tap * self.per_tap;
                let readers: &mut Vec<(u32, i64)> = places.entry(place).or_default();
                readers.push((row, tap));
            }
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{axis, kernel, stage_value};
    use super::*;

    fn window(index: &str) -> Option<SlidingWindow> {
        let kernel = kernel(&format!(
            "kernel @conv(%x: in f32[N, C], %w: const f32[5, C], %y: out f32[N, C]) {{
               outer n < N, c < C
               s = reduce add[t < 5] (%x[{index}] if inside else 0.0) * %w[t, c]
               store %y[n, c] = s
             }}"
        ));
        let dependence = Dependence::of(&kernel);
        let (rows, taps) = (axis(&kernel, "n"), axis(&kernel, "t"));
        let value = stage_value(&kernel, "s");
        SlidingWindow::of(&kernel, &dependence, value, rows, taps)
    }

    #[test]
    fn eight_rows_of_five_taps_read_twelve_elements() {
        let window = window("n + t - 2, c").unwrap();
        assert_eq!((window.position, window.n_taps), (0, 5));
        let readers = window.readers(8);
        assert_eq!(readers.len(), 12);
        assert_eq!(readers[&4], [(0, 4), (1, 3), (2, 2), (3, 1), (4, 0)]);
        assert!(window.is_shared(8));
    }

    #[test]
    fn windows_with_stride_equal_to_width_share_nothing() {
        assert!(!window("5 * n + t, c").unwrap().is_shared(8));
    }

    #[test]
    fn an_uneven_index_is_not_a_sliding_window() {
        assert_eq!(window("n * t, c"), None);
        assert_eq!(window("n + t, c + n"), None, "two indices move");
    }
}
