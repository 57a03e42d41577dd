//! The first elements of each lane when sorted; of equal ones the lower index first.
//!
//! A lane is not sorted: its elements are compared, a chunk at a time, with the last of the best elements so far, and
//! few of them precede it.

use super::few_of_lanes::{self, FewOfLanes, LANES};
use super::interrupt::{Interrupt, PIECE, Stopped};
use super::order::{Item, Ranked};
use super::parallel::{map_parts, n_parts};
use super::{expect, reserved};
use crate::error::NativeError;
use kiln_backend::{BuiltinOperand, TaskPool};
use kiln_tensor::{DType, TensorError};

/// The number of elements that are compared at once.
const CHUNK: usize = 32;
/// Up to this many best elements are kept in order, instead of being selected periodically.
const FEW: usize = 24;

/// The sizes of a search: lanes of `size` elements, `stride` elements apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TopK {
    size: usize,
    stride: usize,
    k: usize,
    largest: bool,
}

impl TopK {
    /// Checks the operands: results have the shape of `x` with `k` elements along the axis.
    pub(crate) fn check(
        x: BuiltinOperand<'_>,
        values: BuiltinOperand<'_>,
        indices: BuiltinOperand<'_>,
        axis: usize,
        largest: bool,
    ) -> Result<Self, NativeError> {
        let (Some(&size), Some(&k)) = (x.shape.get(axis), values.shape.get(axis)) else {
            let expected = format_args!("an axis below {}", x.shape.len()).to_string();
            return Err(NativeError::mismatch("top-k", expected, axis));
        };
        if k > size {
            let expected = format_args!("at most {size} elements").to_string();
            return Err(NativeError::mismatch("top-k", expected, k));
        }
        let mut shape = x.shape.to_vec();
        shape[axis] = k;
        expect("the values of top-k", values, x.dtype, &shape)?;
        expect("the indices of top-k", indices, DType::I64, &shape)?;
        let stride = x.shape[axis + 1..].iter().product();
        Ok(Self {
            size,
            stride,
            k,
            largest,
        })
    }

    /// Searches every lane, groups of lanes in parallel.
    pub(crate) fn run<T: Ranked>(
        &self,
        x: &[T],
        values: &mut [T],
        indices: &mut [i64],
        (interrupt, pool): (Interrupt<'_>, &dyn TaskPool),
    ) -> Result<(), NativeError> {
        if values.is_empty() {
            return Ok(());
        }
        let (block, found) = (self.size * self.stride, self.k * self.stride);
        let blocks = (x.len() / block).div_ceil(n_parts(pool, x.len()));
        let parts = x
            .chunks(blocks * block)
            .zip(values.chunks_mut(blocks * found))
            .zip(indices.chunks_mut(blocks * found));
        let is_wide = T::IS_WIDE || u32::try_from(self.size).is_err();
        let searched = map_parts(
            pool,
            parts.collect(),
            |((x, values), indices)| match is_wide {
                true => self.search::<T, u128>(x, values, indices, interrupt),
                false => self.search::<T, u64>(x, values, indices, interrupt),
            },
        );
        // The cause of a stop is reported at the next check of the signal.
        let _stopped: Vec<Result<(), Stopped>> = searched.into_iter().collect::<Result<_, _>>()?;
        Ok(())
    }

    /// The inner result is whether the search was stopped.
    fn search<T: Ranked, I: Item>(
        &self,
        x: &[T],
        values: &mut [T],
        indices: &mut [i64],
        interrupt: Interrupt<'_>,
    ) -> Result<Result<(), Stopped>, TensorError> {
        let Self {
            size,
            stride,
            k,
            largest,
        } = *self;
        let are_short = !T::IS_WIDE && u32::try_from(size).is_ok();
        let is_few = are_short && stride > 1 && k <= few_of_lanes::MOST;
        let mut first = FirstOf::<I>::new(self)?;
        let mut lanes = reserved(if stride > 1 {
            size * stride.min(LANES)
        } else {
            0
        })?;
        // Sorting a lane's first elements costs this many comparisons, in addition to those of its elements.
        let sorting = k * k.checked_ilog2().unwrap_or(0) as usize;
        let mut done = 0;
        let blocks = x.chunks_exact(size * stride);
        let results = values
            .chunks_exact_mut(k * stride)
            .zip(indices.chunks_exact_mut(k * stride));
        for (x, (values, indices)) in blocks.zip(results) {
            for from in (0..stride).step_by(LANES) {
                let n_lanes = LANES.min(stride - from);
                if is_few && n_lanes == LANES {
                    let (x, few) = (&x[from..], &mut FewOfLanes::default());
                    if few.search(interrupt, x, stride, (k, largest)).is_err() {
                        return Ok(Err(Stopped));
                    }
                    for (place, lane) in
                        (0..k).flat_map(|place| (0..LANES).map(move |lane| (place, lane)))
                    {
                        let index = few.index(place, lane);
                        values[place * stride + from + lane] = x[index * stride + lane];
                        indices[place * stride + from + lane] = index as i64;
                    }
                    continue;
                }
                let contiguous = match stride {
                    1 => x,
                    _ => {
                        if copy_lanes(interrupt, &x[from..], stride, n_lanes, &mut lanes).is_err() {
                            return Ok(Err(Stopped));
                        }
                        &lanes
                    }
                };
                for (lane, elements) in contiguous.chunks_exact(size).enumerate() {
                    done += size + sorting;
                    if done > PIECE {
                        done = 0;
                        if interrupt.check().is_err() {
                            return Ok(Err(Stopped));
                        }
                    }
                    let Ok(found) = first.of(interrupt, elements) else {
                        return Ok(Err(Stopped));
                    };
                    for (place, index) in found.iter().map(|item| item.index()).enumerate() {
                        values[place * stride + from + lane] = elements[index];
                        indices[place * stride + from + lane] = index as i64;
                    }
                }
            }
        }
        Ok(Ok(()))
    }
}

/// A search in lanes of one size, and its memory.
struct FirstOf<I> {
    k: usize,
    largest: bool,
    /// The best items so far, with some of the following ones.
    items: Vec<I>,
    /// The memory in which long lists are merged.
    room: Vec<I>,
}

impl<I: Item> FirstOf<I> {
    fn new(sizes: &TopK) -> Result<Self, TensorError> {
        let TopK { size, k, .. } = *sizes;
        let is_long = k > PIECE;
        Ok(Self {
            k,
            largest: sizes.largest,
            items: reserved(if is_long {
                size
            } else {
                Self::limit(k) + CHUNK
            })?,
            // Long lists are sorted by merging, if more than a piece of them is requested.
            room: reserved(if is_long { size } else { 0 })?,
        })
    }

    /// The number of items from which on all but the best are dropped.
    fn limit(k: usize) -> usize {
        2 * k.max(CHUNK)
    }

    /// The first `k` items of a lane, in order.
    fn of<T: Ranked>(&mut self, interrupt: Interrupt<'_>, lane: &[T]) -> Result<&[I], Stopped> {
        let (k, largest) = (self.k, self.largest);
        let items = &mut self.items;
        items.clear();
        let item = |(index, &element): (usize, &T)| I::new(element.place(largest), index);
        if k > PIECE {
            items.extend(lane.iter().enumerate().map(item));
            interrupt.sort(items, &mut self.room, I::cmp)?;
            return Ok(&items[..k]);
        }
        // If few items are requested, the best are kept in order from the start, and `last` is the last of them.
        // Otherwise, `last` is the last of the best when they were last selected.
        let is_few = k <= FEW;
        let first = if is_few { k } else { 0 };
        items.extend(lane[..first].iter().enumerate().map(item));
        items.sort_unstable();
        let mut last = items.last().map(|item| lane[item.index()]);
        for (piece, elements) in lane[first..].chunks(PIECE).enumerate() {
            if piece > 0 {
                interrupt.check()?;
            }
            for (chunk, elements) in elements.chunks(CHUNK).enumerate() {
                let from = first + piece * PIECE + chunk * CHUNK;
                // Without branches, so that it is vectorised.
                let any = last.is_none_or(|last| {
                    let found = |any, x: &T| any | x.may_precede(last, largest);
                    elements.iter().fold(false, found)
                });
                if !any {
                    continue;
                }
                for (index, x) in (from..).zip(elements) {
                    if last.is_some_and(|last| !x.may_precede(last, largest)) {
                        continue;
                    }
                    let item = I::new(x.place(largest), index);
                    if is_few {
                        insert(items, item);
                        last = Some(lane[items[k - 1].index()]);
                    } else {
                        items.push(item);
                    }
                }
                if items.len() >= Self::limit(k) {
                    let (_, worst, _) = items.select_nth_unstable(k - 1);
                    last = Some(lane[worst.index()]);
                    items.truncate(k);
                }
            }
        }
        if k < items.len() {
            items.select_nth_unstable(k - 1);
            items.truncate(k);
        }
        items.sort_unstable();
        Ok(items)
    }
}

/// Replaces the last of some sorted items by another one, in order, if that is not after all of them.
fn insert<I: Item>(items: &mut [I], new: I) {
    let Some((last, before)) = items.split_last_mut().filter(|(last, _)| new < **last) else {
        return;
    };
    *last = new;
    let mut place = before.len();
    while place > 0 && items[place] < items[place - 1] {
        items.swap(place, place - 1);
        place -= 1;
    }
}

/// Copies the first lanes of a block, whose elements are `stride` apart, one after the other.
fn copy_lanes<T: Copy>(
    interrupt: Interrupt<'_>,
    x: &[T],
    stride: usize,
    n_lanes: usize,
    lanes: &mut Vec<T>,
) -> Result<(), Stopped> {
    let size = x.len().div_ceil(stride);
    lanes.clear();
    if let Some(&first) = x.first() {
        lanes.resize(size * n_lanes, first);
    }
    // Row by row, so that reads are contiguous.
    for (number, rows) in x.chunks(stride * (PIECE / LANES)).enumerate() {
        interrupt.check()?;
        let from = number * (PIECE / LANES);
        for (row, elements) in (from..).zip(rows.chunks(stride)) {
            let places = lanes[row..].iter_mut().step_by(size);
            for (place, &element) in places.zip(&elements[..n_lanes]) {
                *place = element;
            }
        }
    }
    Ok(())
}
