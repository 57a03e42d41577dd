//! Reorders the axes of a kernel's buffers in memory, and its loops to match.

use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::ids::{AxisId, BufferId, NodeId};
use super::item::{Axes, Extent, Item, StageOperation, Store};
use super::kernel::Kernel;
use super::node::{Load, Node, Nodes};

impl Kernel {
    /// The same kernel with a buffer's axes in a different order: the new one's axis `i` is the old one's axis
    /// `order[i]`.
    ///
    /// Nothing changes if `order` does not name each axis once.
    #[must_use]
    pub fn with_axis_order(mut self, buffer: BufferId, order: &[usize]) -> Self {
        let Some(data) = self.buffers.get_mut(buffer) else {
            return self;
        };
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..data.rank()) {
            return self;
        }
        data.shape = reordered(&data.shape, order);
        data.strides = data
            .strides
            .as_ref()
            .map(|strides| reordered(strides, order));
        for data in self.nodes.values_mut() {
            if let Node::Load(load) = &mut data.node
                && load.buffer == buffer
            {
                load.indices = reordered(&load.indices, order);
            }
        }
        for item in &mut self.items {
            for item in item.parts_mut() {
                if let Item::Store(store) = item
                    && store.buffer == buffer
                {
                    store.indices = reordered(&store.indices, order);
                }
            }
        }
        self
    }

    /// The same kernel with outer axes in the memory order of its first store, and reduced axes in that of the first load
    /// that several of them move. Loops that prevent that order are kept.
    #[must_use]
    pub fn in_memory_order(mut self) -> Self {
        if let Some(order) = self.stored_order() {
            self.outer = order;
        }
        let reorderings: Vec<_> = self
            .stages
            .iter()
            .filter_map(|(id, stage)| match &stage.operation {
                StageOperation::Reduce {
                    axes, reduction, ..
                } if axes.len() > 1 && !reduction.is_arg() => {
                    Some((id, self.loaded_order(stage.value, axes)?))
                }
                _ => None,
            })
            .collect();
        for (id, order) in reorderings {
            if let StageOperation::Reduce { axes, .. } = &mut self.stages[id].operation {
                *axes = order;
            }
        }
        self
    }

    /// The outer axes in the order in which the first store's indices name them, if each is named.
    fn stored_order(&self) -> Option<Axes> {
        let items = self.items.iter().flat_map(Item::parts);
        let stores: Vec<&Store> = items
            .filter_map(|item| match item {
                Item::Store(store) => Some(store),
                _ => None,
            })
            .collect();
        // Combining stores combine in the order of the outer points.
        if stores.iter().any(|store| store.combine.is_some()) {
            return None;
        }
        let named = stores.first()?.indices.iter();
        let named = named.filter_map(|&index| match self.node(index) {
            Node::Axis(axis) if self.outer.contains(axis) => Some(*axis),
            _ => None,
        });
        let order: Axes = named.collect();
        let distinct: BTreeSet<AxisId> = order.iter().copied().collect();
        (distinct.len() == order.len() && order.len() == self.outer.len()).then_some(order)
    }

    /// Reduced axes in the order in which a load of a value moves along them: the last is the one with the smallest stride.
    fn loaded_order(&self, value: NodeId, axes: &Axes) -> Option<Axes> {
        // The extent of one axis may depend on another, which must stay outside it.
        let is_size = |&axis: &AxisId| matches!(self.axis(axis).extent, Extent::Size(_));
        if !axes.iter().all(is_size) {
            return None;
        }
        let load = self.loads_below(value).into_iter().find(|load| {
            let buffer = self.buffer(load.buffer);
            !matches!(buffer.role, super::Role::Const) && self.places(&load.indices, axes).is_some()
        })?;
        let places = self.places(&load.indices, axes)?;
        let mut order: Vec<(usize, AxisId)> =
            places.into_iter().zip(axes.iter().copied()).collect();
        order.sort_by_key(|&(place, _)| place);
        Some(order.into_iter().map(|(_, axis)| axis).collect())
    }

    /// For each axis, the last index that moves with it; `None` if no index does.
    fn places(&self, indices: &Nodes, axes: &Axes) -> Option<Vec<usize>> {
        let moved: Vec<BTreeSet<AxisId>> = indices.iter().map(|&i| self.axes_below(i)).collect();
        axes.iter()
            .map(|axis| moved.iter().rposition(|moved| moved.contains(axis)))
            .collect()
    }

    fn loads_below(&self, value: NodeId) -> Vec<&Load> {
        let mut loads = Vec::new();
        self.each_below(value, |node| {
            if let Node::Load(load) = node {
                loads.push(load);
            }
        });
        loads
    }

    fn axes_below(&self, value: NodeId) -> BTreeSet<AxisId> {
        let mut axes = BTreeSet::new();
        self.each_below(value, |node| {
            if let Node::Axis(axis) = node {
                axes.insert(*axis);
            }
        });
        axes
    }

    fn each_below<'a>(&'a self, value: NodeId, mut visit: impl FnMut(&'a Node)) {
        let mut pending = vec![value];
        let mut seen = BTreeSet::new();
        while let Some(node) = pending.pop() {
            if seen.insert(node) {
                visit(self.node(node));
                let operands = &mut |operand| pending.push(operand);
                self.node(node).for_each_operand(operands);
            }
        }
    }
}

/// A per-axis list, in a different order of the axes.
fn reordered<A: smallvec::Array<Item: Copy>>(
    of_axes: &SmallVec<A>,
    order: &[usize],
) -> SmallVec<A> {
    let in_order = order.iter().filter_map(|&axis| of_axes.get(axis));
    in_order.copied().collect()
}

#[cfg(test)]
mod tests;
