//! Combining stores: which outer axes must run in order.
//!
//! An outer axis may run in parallel if the indices are injective along it: no two points meet at one element. If
//! several stores or loads use the buffer, an index shared by all of them must be injective, using outer axes alone.

use std::collections::BTreeSet;

use super::budget::Budget;
use super::coverage::{Placed, is_whole};
use super::digits::{Digit, form};
use super::indices::is_within;
use super::points::Points;
use super::sizes::SizeProver;
use crate::form::{AxisId, Kernel, Node, NodeId};
use crate::verified::{IndexClass, StoreInfo};

pub(super) fn info(
    kernel: &Kernel,
    used: &BTreeSet<NodeId>,
    stores: &[Placed<'_>],
    at: &Placed<'_>,
    sizes: &mut SizeProver,
    budget: &mut Budget,
) -> StoreInfo {
    let store = at.store;
    let shape = &kernel.buffer(store.buffer).shape;
    let mut points = Points::of(kernel, &at.axes.iter().copied().collect(), budget);
    let class = |(&index, &size)| match is_within(kernel, &mut points, index, size, budget) {
        true => IndexClass::Proved,
        false => IndexClass::Checked,
    };
    let indices = store.indices.iter().zip(shape).map(class).collect();
    let disjoint = disjoint_axes(kernel, used, stores, at, sizes, budget);
    let is_serial = |axis: &AxisId| {
        let extent = kernel.axis(*axis).extent.bound();
        !disjoint.contains(axis) && !kernel.dims().range(extent).at_most(1)
    };
    StoreInfo {
        indices,
        serial: kernel.outer().iter().copied().filter(is_serial).collect(),
    }
}

/// The outer axes whose points never access the same element.
fn disjoint_axes(
    kernel: &Kernel,
    used: &BTreeSet<NodeId>,
    stores: &[Placed<'_>],
    at: &Placed<'_>,
    sizes: &mut SizeProver,
    budget: &mut Budget,
) -> BTreeSet<AxisId> {
    let others = other_uses(kernel, used, stores, at);
    sizes.enter(kernel, &at.axes, budget);
    let mut digits: Vec<Digit> = Vec::new();
    for (position, &index) in at.store.indices.iter().enumerate() {
        let Some(form) = form(kernel, sizes, index, budget) else {
            continue;
        };
        let is_shared = others
            .iter()
            .all(|indices| indices.get(position) == Some(&index));
        let is_outer = form
            .terms
            .iter()
            .all(|(digit, _)| kernel.outer().contains(&digit.axis));
        if (others.is_empty() || (is_shared && is_outer)) && form.is_injective(sizes, budget) {
            digits.extend(form.terms.iter().map(|&(digit, _)| digit));
        }
    }
    let mut apart = BTreeSet::new();
    for &axis in kernel.outer() {
        let mut own: Vec<Digit> = Vec::new();
        for digit in digits.iter().filter(|digit| digit.axis == axis) {
            if !own.contains(digit) {
                own.push(*digit);
            }
        }
        let extent = kernel.axis(axis).extent.bound();
        if !own.is_empty() && is_whole(&own, extent, sizes, budget) {
            apart.insert(axis);
        }
    }
    apart
}

/// The indices of every other store to this one's buffer, and of every load from it.
fn other_uses(
    kernel: &Kernel,
    used: &BTreeSet<NodeId>,
    stores: &[Placed<'_>],
    at: &Placed<'_>,
) -> Vec<Vec<NodeId>> {
    let buffer = at.store.buffer;
    let of_stores = stores
        .iter()
        .filter(|other| !std::ptr::eq(other.store, at.store) && other.store.buffer == buffer)
        .map(|other| other.store.indices.to_vec());
    let of_loads = used.iter().filter_map(|&node| match kernel.node(node) {
        Node::Load(load) if load.buffer == buffer => Some(load.indices.to_vec()),
        _ => None,
    });
    of_stores.chain(of_loads).collect()
}
