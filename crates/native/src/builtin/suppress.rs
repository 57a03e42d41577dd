//! Non-maximum suppression: the boxes of each class, best first, without those that overlap a better one too much.
//!
//! Candidates are sorted incrementally, as far as they are needed, and are compared only with the kept boxes, several
//! at once.

use super::interrupt::{Interrupt, PIECE, Stopped};
use super::order::{Item, Ranked};
use super::{expect, reserved};
use crate::error::NativeError;
use kiln_backend::BuiltinOperand;
use kiln_tensor::{DType, TensorError};

/// The sizes, and the thresholds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Suppress {
    n_boxes: usize,
    n_classes: usize,
    /// The maximum number of boxes that are kept of a class.
    k: usize,
    /// The quotient of intersection and union above which boxes overlap too much.
    overlap: f32,
    /// A candidate's score must be above this; if this is NaN, every box is a candidate.
    least: f32,
}

impl Suppress {
    /// Checks the operands (boxes, scores, two thresholds) and the results (the selected, their count).
    pub(crate) fn check(
        [boxes, scores, overlap, least]: [BuiltinOperand<'_>; 4],
        [selected, count]: [BuiltinOperand<'_>; 2],
    ) -> Result<Self, NativeError> {
        let what = "the scores of suppression";
        let &[batch, n_classes, n_boxes] = scores.shape else {
            return Err(NativeError::mismatch(
                what,
                "three axes",
                scores.shape.len(),
            ));
        };
        expect(what, scores, DType::F32, &[batch, n_classes, n_boxes])?;
        expect(
            "the boxes of suppression",
            boxes,
            DType::F32,
            &[batch, n_boxes, 4],
        )?;
        for threshold in [overlap, least] {
            expect("a threshold of suppression", threshold, DType::F32, &[])?;
        }
        let rows = selected.shape.first().copied().unwrap_or(0);
        let k = rows.checked_div(batch * n_classes).unwrap_or(0);
        let shape = [batch * n_classes * k, 3];
        expect("the result of suppression", selected, DType::I64, &shape)?;
        expect("the count of suppression", count, DType::I64, &[])?;
        Ok(Self {
            n_boxes,
            n_classes,
            k,
            overlap: f32::NAN,
            least: f32::NAN,
        })
    }

    /// Sets the thresholds, the values of the last two operands.
    pub(crate) fn with_thresholds(self, overlap: f32, least: f32) -> Self {
        Self {
            overlap,
            least,
            ..self
        }
    }

    /// Writes a row for each box that is kept, followed by zeros; returns their number.
    pub(crate) fn run(
        &self,
        boxes: &[f32],
        scores: &[f32],
        selected: &mut [i64],
        interrupt: Interrupt<'_>,
    ) -> Result<i64, NativeError> {
        let rows = selected.as_chunks_mut::<3>().0;
        if rows.is_empty() || scores.is_empty() {
            rows.fill([0; 3]);
            return Ok(0);
        }
        let found = match u32::try_from(self.n_boxes) {
            Ok(_) => self.select::<u64>(boxes, scores, rows, interrupt)?,
            Err(_) => self.select::<u128>(boxes, scores, rows, interrupt)?,
        };
        // The cause of a stop is reported at the next check of the signal.
        let count = found.unwrap_or(0);
        for piece in rows[count..].chunks_mut(PIECE) {
            if interrupt.check().is_err() {
                break;
            }
            piece.fill([0; 3]);
        }
        Ok(count as i64)
    }

    fn select<I: Item>(
        &self,
        boxes: &[f32],
        scores: &[f32],
        rows: &mut [[i64; 3]],
        interrupt: Interrupt<'_>,
    ) -> Result<Result<usize, Stopped>, TensorError> {
        let mut candidates = reserved::<I>(self.n_boxes)?;
        let mut kept = Kept::new(self.k.min(self.n_boxes))?;
        let boxes = boxes.as_chunks::<4>().0;
        let mut count = 0;
        for (row, scores) in scores.chunks_exact(self.n_boxes).enumerate() {
            let (batch, class) = (row / self.n_classes, row % self.n_classes);
            candidates.clear();
            for (piece, scores) in scores.chunks(PIECE).enumerate() {
                if interrupt.check().is_err() {
                    return Ok(Err(Stopped));
                }
                let scores = (piece * PIECE..).zip(scores);
                let above = scores.filter(|(_, score)| **score > self.least || self.least.is_nan());
                candidates.extend(above.map(|(index, score)| I::new(score.place(true), index)));
            }
            let boxes = &boxes[batch * self.n_boxes..][..self.n_boxes];
            let write = |index: usize| {
                rows[count] = [batch as i64, class as i64, index as i64];
                count += 1;
            };
            if self
                .select_row(boxes, &mut candidates, &mut kept, interrupt, write)
                .is_err()
            {
                return Ok(Err(Stopped));
            }
        }
        Ok(Ok(count))
    }

    /// Calls `write` with each box of a class that is kept.
    fn select_row<I: Item>(
        &self,
        boxes: &[[f32; 4]],
        mut candidates: &mut [I],
        kept: &mut Kept,
        interrupt: Interrupt<'_>,
        mut write: impl FnMut(usize),
    ) -> Result<(), Stopped> {
        let (mut left, mut work) = (self.k, 0);
        kept.clear();
        let mut part = (2 * self.k.min(PIECE)).clamp(2 * LANES, PIECE);
        while !candidates.is_empty() {
            interrupt.check()?;
            if part < candidates.len() {
                candidates.select_nth_unstable(part - 1);
            }
            let (sorted, others) = candidates.split_at_mut(part.min(candidates.len()));
            sorted.sort_unstable();
            candidates = others;
            part = (2 * part).min(PIECE);
            for item in sorted.iter() {
                work += 1 + kept.len();
                if work > PIECE {
                    interrupt.check()?;
                    work = 0;
                }
                let index = item.index();
                if kept.add(Extent::of(boxes[index]), self.overlap) {
                    write(index);
                    left -= 1;
                    if left == 0 {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}

/// A box: where it begins and ends along two axes.
#[derive(Clone, Copy)]
struct Extent {
    low: [f32; 2],
    high: [f32; 2],
}

impl Extent {
    /// From two opposite corners.
    fn of([a, b, c, d]: [f32; 4]) -> Self {
        Self {
            low: [smaller(a, c), smaller(b, d)],
            high: [larger(a, c), larger(b, d)],
        }
    }

    fn area(self) -> f32 {
        (self.high[0] - self.low[0]) * (self.high[1] - self.low[1])
    }
}

/// Boxes in a group.
const LANES: usize = 8;

/// Kept boxes, a member per array. Those that do not exist are empty and overlap nothing.
#[derive(Clone, Copy, Default)]
struct Group {
    low: [[f32; LANES]; 2],
    high: [[f32; LANES]; 2],
    area: [f32; LANES],
}

impl Group {
    /// Whether one of these boxes overlaps a box too much.
    fn overlaps(&self, other: Extent, area: f32, threshold: f32) -> bool {
        let mut found = false;
        for lane in 0..LANES {
            let mut shared = 1.0;
            for axis in 0..2 {
                let low = larger(other.low[axis], self.low[axis][lane]);
                let high = smaller(other.high[axis], self.high[axis][lane]);
                shared *= larger(high - low, 0.0);
            }
            let covered = area + self.area[lane] - shared;
            found |= (shared > 0.0) & (covered > 0.0) & (shared / covered > threshold);
        }
        found
    }
}

/// The kept boxes of a class that have an area.
struct Kept {
    groups: Vec<Group>,
    len: usize,
}

impl Kept {
    fn new(most: usize) -> Result<Self, TensorError> {
        Ok(Self {
            groups: reserved(most.div_ceil(LANES))?,
            len: 0,
        })
    }

    fn clear(&mut self) {
        self.groups.clear();
        self.len = 0;
    }

    fn len(&self) -> usize {
        self.len
    }

    /// Whether no kept box overlaps the new one too much, in which case it is kept. A box without an area does not
    /// overlap any other.
    fn add(&mut self, new: Extent, threshold: f32) -> bool {
        let area = new.area();
        // A NaN is not an area.
        if area > 0.0 {
            let mut groups = self.groups.iter();
            if groups.any(|group| group.overlaps(new, area, threshold)) {
                return false;
            }
            let lane = self.len % LANES;
            if lane == 0 {
                self.groups.push(Group::default());
            }
            if let Some(group) = self.groups.last_mut() {
                for axis in 0..2 {
                    group.low[axis][lane] = new.low[axis];
                    group.high[axis][lane] = new.high[axis];
                }
                group.area[lane] = area;
            }
            self.len += 1;
        }
        true
    }
}

/// The larger of two numbers.
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// The smaller of two numbers.
fn smaller(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}
