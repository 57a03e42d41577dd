//! Proves that the plain stores to a buffer write each of its elements exactly once.
//!
//! Each store's indices are mixed-radix numbers of its axes (see [`super::digits`]), every axis used whole and once, so
//! a store writes each element of a box once. The boxes of all stores must tile the buffer: side by side along an axis,
//! or interleaved with stride k, recursively.

use std::collections::{BTreeMap, BTreeSet};

use kiln_symbolic_shape::{DimId, Predicate};

use super::budget::Budget;
use super::digits::{Digit, Form, Interval, form};
use super::sizes::SizeProver;
use super::{Report, combining};
use crate::error::KernelError;
use crate::form::{AxisId, BufferId, Extent, Item, Kernel, NodeId, Role, Store};
use crate::verified::{IndexClass, StoreInfo};

/// A store with every axis over which it runs: the outer ones, the steps of its block, its own.
pub(super) struct Placed<'k> {
    pub(super) store: &'k Store,
    pub(super) axes: Vec<AxisId>,
}

/// The region of its buffer that a store covers, along each axis.
type Reach = Vec<Interval>;

/// The properties of each store, in the order of the items.
pub(super) fn check(
    kernel: &Kernel,
    used: &BTreeSet<NodeId>,
    budget: &mut Budget,
    report: &mut Report,
) -> Vec<StoreInfo> {
    let placed = placed(kernel);
    let mut sizes = SizeProver::new(kernel);
    let mut by_buffer: BTreeMap<BufferId, Vec<Reach>> = BTreeMap::new();
    let mut infos = Vec::new();
    for at in &placed {
        if at.store.combine.is_some() {
            infos.push(combining::info(
                kernel, used, &placed, at, &mut sizes, budget,
            ));
            continue;
        }
        infos.push(StoreInfo {
            indices: vec![IndexClass::Proved; at.store.indices.len()],
            serial: Vec::new(),
        });
        match reach(kernel, at, &mut sizes, budget) {
            Ok(reach) => by_buffer.entry(at.store.buffer).or_default().push(reach),
            Err(reason) => report.push(KernelError::Coverage {
                buffer: kernel.buffer(at.store.buffer).name.clone(),
                reason,
            }),
        }
    }
    for (id, buffer) in kernel.buffers() {
        if buffer.role != Role::Out {
            continue;
        }
        let reaches = by_buffer.remove(&id).unwrap_or_default();
        let n_stores = placed.iter().filter(|at| at.store.buffer == id).count();
        let is_empty = buffer
            .shape
            .iter()
            .any(|&dim| sizes.table.range(dim).at_most(0));
        if n_stores == 0 && !is_empty {
            report.push(KernelError::Coverage {
                buffer: buffer.name.clone(),
                reason: "no store to it".to_string(),
            });
        } else if n_stores > 0
            && reaches.len() == n_stores
            && !(is_empty && writes_nothing(kernel, &placed, id, &sizes))
            && !tiles(reaches, &buffer.shape, &mut sizes, budget)
        {
            report.push(KernelError::Coverage {
                buffer: buffer.name.clone(),
                reason: format!(
                    "{n_stores} stores that are not proved to cover {} side by side",
                    kernel.dims().display_shape(&buffer.shape)
                ),
            });
        }
    }
    infos
}

fn placed(kernel: &Kernel) -> Vec<Placed<'_>> {
    let mut found = Vec::new();
    let axes = |store: &Store, steps: Option<AxisId>| {
        let around = kernel.outer().iter().copied().chain(steps);
        around.chain(store.axes.iter().copied()).collect::<Vec<_>>()
    };
    for item in kernel.items() {
        match item {
            Item::Store(store) => found.push(Placed {
                store,
                axes: axes(store, None),
            }),
            Item::Carry(carry) => {
                for item in &carry.items {
                    if let Item::Store(store) = item {
                        found.push(Placed {
                            store,
                            axes: axes(store, Some(carry.axis)),
                        });
                    }
                }
            }
            Item::Stage(_) => {}
        }
    }
    found
}

/// Whether every store to a buffer has an axis without points.
fn writes_nothing(
    kernel: &Kernel,
    placed: &[Placed<'_>],
    id: BufferId,
    sizes: &SizeProver,
) -> bool {
    let mut stores = placed.iter().filter(|at| at.store.buffer == id);
    stores.all(|at| {
        let mut extents = at.axes.iter().map(|&axis| kernel.axis(axis).extent.bound());
        extents.any(|extent| sizes.table.range(extent).at_most(0))
    })
}

/// The box that a store writes, each element once.
fn reach(
    kernel: &Kernel,
    at: &Placed<'_>,
    sizes: &mut SizeProver,
    budget: &mut Budget,
) -> Result<Reach, String> {
    let name = |axis: AxisId| &kernel.axis(axis).name;
    sizes.enter(kernel, &at.axes, budget);
    for &axis in &at.axes {
        let extent = kernel.axis(axis).extent;
        if let Extent::Clamped { .. } = extent {
            return Err(format!(
                "a store in a block whose steps {} are clamped",
                name(axis)
            ));
        }
        let zero = sizes.table.constant(0);
        if !sizes.proves(&Predicate::LessEqual(zero, extent.bound()), budget) {
            return Err(format!("an extent of {} that may be negative", name(axis)));
        }
    }
    let mut reach = Vec::new();
    let mut digits: Vec<Digit> = Vec::new();
    for (position, &index) in at.store.indices.iter().enumerate() {
        let not_plain = || format!("index {position} that is no plain number of axes");
        let form = form(kernel, sizes, index, budget).ok_or_else(not_plain)?;
        reach.push(form.interval(sizes, budget).ok_or_else(not_plain)?);
        digits.extend(varying(&form, sizes));
    }
    for &axis in &at.axes {
        let own: Vec<Digit> = digits.iter().copied().filter(|d| d.axis == axis).collect();
        let extent = kernel.axis(axis).extent.bound();
        if !is_whole(&own, extent, sizes, budget) {
            return Err(match own.is_empty() {
                true => format!("no index that distinguishes the points of {}", name(axis)),
                false => format!("indices that do not use {} whole and once", name(axis)),
            });
        }
    }
    Ok(reach)
}

/// The digits of an index that have more than one value.
fn varying(form: &Form, sizes: &SizeProver) -> Vec<Digit> {
    let digits = form.terms.iter().map(|&(digit, _)| digit);
    digits
        .filter(|digit| !sizes.table.range(digit.extent).at_most(1))
        .collect()
}

/// Whether digits form an axis, each used once.
pub(super) fn is_whole(
    digits: &[Digit],
    extent: DimId,
    sizes: &mut SizeProver,
    budget: &mut Budget,
) -> bool {
    let mut left = digits.to_vec();
    let mut below = sizes.table.constant(1);
    while !left.is_empty() {
        let Some(place) =
            (0..left.len()).find(|&place| sizes.equal(left[place].divisor, below, budget))
        else {
            return false;
        };
        let digit = left.remove(place);
        let Ok(product) = sizes.table.mul(below, digit.extent) else {
            return false;
        };
        below = product;
    }
    if digits.is_empty() {
        return sizes.table.range(extent).at_most(1);
    }
    sizes.equal(below, extent, budget)
}

/// Whether boxes tile a buffer of this shape.
fn tiles(
    reaches: Vec<Reach>,
    shape: &[DimId],
    sizes: &mut SizeProver,
    budget: &mut Budget,
) -> bool {
    let mut pending = vec![(reaches, (0..shape.len()).collect::<Vec<usize>>())];
    while let Some((boxes, axes)) = pending.pop() {
        let mut open = Vec::new();
        for axis in axes {
            let size = shape[axis];
            if !boxes
                .iter()
                .all(|reach| is_full(&reach[axis], size, sizes, budget))
            {
                open.push(axis);
            }
        }
        if open.is_empty() {
            if boxes.len() != 1 {
                return false;
            }
            continue;
        }
        let cut = open.iter().enumerate().find_map(|(place, &axis)| {
            let groups = groups(&boxes, axis);
            divides(&groups, shape[axis], sizes, budget).then_some((place, groups))
        });
        let Some((place, groups)) = cut else {
            return false;
        };
        open.remove(place);
        pending.extend(groups.into_iter().map(|(_, boxes)| (boxes, open.clone())));
    }
    true
}

fn is_full(interval: &Interval, size: DimId, sizes: &mut SizeProver, budget: &mut Budget) -> bool {
    let zero = sizes.table.constant(0);
    let one = sizes.table.constant(1);
    let starts = sizes.equal(interval.start, zero, budget);
    let is_dense = interval.step == one || sizes.table.range(interval.count).at_most(1);
    starts && is_dense && sizes.equal(interval.count, size, budget)
}

type Groups = Vec<(Interval, Vec<Reach>)>;

/// The boxes ordered by their position along an axis.
fn groups(boxes: &[Reach], axis: usize) -> Groups {
    let mut groups: Groups = Vec::new();
    for reach in boxes {
        match groups
            .iter_mut()
            .find(|(interval, _)| *interval == reach[axis])
        {
            Some((_, group)) => group.push(reach.clone()),
            None => groups.push((reach[axis], vec![reach.clone()])),
        }
    }
    groups
}

/// Whether intervals partition `0..size`.
fn divides(groups: &Groups, size: DimId, sizes: &mut SizeProver, budget: &mut Budget) -> bool {
    let intervals: Vec<Interval> = groups.iter().map(|&(interval, _)| interval).collect();
    lie_side_by_side(&intervals, size, sizes, budget) || alternate(&intervals, size, sizes, budget)
}

fn lie_side_by_side(
    intervals: &[Interval],
    size: DimId,
    sizes: &mut SizeProver,
    budget: &mut Budget,
) -> bool {
    let one = sizes.table.constant(1);
    let mut left = intervals.to_vec();
    let mut end = sizes.table.constant(0);
    while !left.is_empty() {
        let exact = left.iter().position(|interval| interval.start == end);
        let next = exact
            .or_else(|| (0..left.len()).find(|&place| sizes.equal(left[place].start, end, budget)));
        let Some(next) = next.map(|place| left.remove(place)) else {
            return false;
        };
        if next.step != one && !sizes.table.range(next.count).at_most(1) {
            return false;
        }
        let Ok(sum) = sizes.table.add(end, next.count) else {
            return false;
        };
        end = sum;
    }
    sizes.equal(end, size, budget)
}

/// Whether each takes every k-th element, one from each of the first k.
fn alternate(
    intervals: &[Interval],
    size: DimId,
    sizes: &mut SizeProver,
    budget: &mut Budget,
) -> bool {
    let Ok(k) = i64::try_from(intervals.len()) else {
        return false;
    };
    let step = sizes.table.constant(k);
    let mut starts = BTreeSet::new();
    for interval in intervals {
        let Some(start) = sizes.table.as_constant(interval.start) else {
            return false;
        };
        // The number of elements: (size - start + k - 1) / k.
        let rest = sizes.table.constant(k - 1 - start.clamp(0, k));
        let Some(expected) = sizes.table.add(size, rest).ok().and_then(|padded| {
            let least = sizes.table.floor_div(padded, step).ok()?;
            let zero = sizes.table.constant(0);
            sizes.table.max(least, zero).ok()
        }) else {
            return false;
        };
        if !(0..k).contains(&start)
            || interval.step != step
            || !starts.insert(start)
            || !sizes.equal(interval.count, expected, budget)
        {
            return false;
        }
    }
    true
}
