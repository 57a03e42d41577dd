//! Simplifies a kernel's sizes under its facts, and merges nodes that became equal.
//!
//! Sizes may be built before their facts are known; a reader knows the facts first. So the printer prints the simplest
//! form, and text that was read prints the same again.

use std::collections::BTreeMap;

use cranelift_entity::SecondaryMap;
use kiln_scalar::ScalarValue;
use kiln_symbolic_shape::DimId;

use crate::form::{Extent, Interned, Item, Kernel, Node, NodeId, Store};

/// The kernel with simplified sizes.
pub(super) fn simplified(kernel: &Kernel) -> Kernel {
    let mut kernel = kernel.clone();
    let simpler = simpler_sizes(&mut kernel);
    let size = |dim: DimId| simpler.get(&dim).copied().unwrap_or(dim);
    for buffer in kernel.buffers.values_mut() {
        buffer.shape.iter_mut().for_each(|dim| *dim = size(*dim));
        buffer
            .strides
            .iter_mut()
            .flatten()
            .for_each(|dim| *dim = size(*dim));
    }
    let nodes = merged_nodes(&mut kernel, &size);
    for axis in kernel.axes.values_mut() {
        match &mut axis.extent {
            Extent::Size(dim) => *dim = size(*dim),
            Extent::Clamped { value, bound } => {
                *value = nodes[*value];
                *bound = size(*bound);
            }
        }
    }
    for stage in kernel.stages.values_mut() {
        stage.value = nodes[stage.value];
        stage.init = stage.init.map(|init| nodes[init]);
    }
    for item in &mut kernel.items {
        match item {
            Item::Stage(_) => {}
            Item::Store(store) => rename(store, &nodes),
            Item::Carry(carry) => {
                for item in &mut carry.items {
                    if let Item::Store(store) = item {
                        rename(store, &nodes);
                    }
                }
            }
        }
    }
    kernel
}

fn rename(store: &mut Store, nodes: &SecondaryMap<NodeId, NodeId>) {
    store.value = nodes[store.value];
    store
        .indices
        .iter_mut()
        .for_each(|index| *index = nodes[*index]);
}

/// The simplest form of every size in use. Symbols stay symbols, and sizes too large to simplify are kept.
fn simpler_sizes(kernel: &mut Kernel) -> BTreeMap<DimId, DimId> {
    let mut used: Vec<DimId> = Vec::new();
    for buffer in kernel.buffers.values() {
        used.extend(buffer.shape.iter().chain(buffer.strides.iter().flatten()));
    }
    used.extend(kernel.axes.values().map(|axis| axis.extent.bound()));
    used.extend(kernel.nodes.values().filter_map(|data| match data.node {
        Node::Size(dim) => Some(dim),
        _ => None,
    }));
    let mut simpler = BTreeMap::new();
    let table = &mut kernel.dims;
    for dim in used {
        if table.as_symbol(dim).is_none()
            && table.as_constant(dim).is_none()
            && !simpler.contains_key(&dim)
        {
            simpler.insert(dim, table.simplify(dim).unwrap_or(dim));
        }
    }
    simpler
}

/// Replaces the nodes in place; returns the replacement of each.
fn merged_nodes(
    kernel: &mut Kernel,
    size: &dyn Fn(DimId) -> DimId,
) -> SecondaryMap<NodeId, NodeId> {
    let mut standing: SecondaryMap<NodeId, NodeId> =
        SecondaryMap::with_default(NodeId::from_u32(0));
    let mut known = std::collections::HashMap::new();
    let ids: Vec<NodeId> = kernel.nodes.keys().collect();
    for id in ids {
        let node = &mut kernel.nodes[id].node;
        node.map_operands(&mut |operand| standing[operand]);
        if let Node::Size(dim) = node {
            let dim = size(*dim);
            *node = match kernel.dims.as_constant(dim) {
                Some(value) => Node::Literal(ScalarValue::I64(value)),
                None => Node::Size(dim),
            };
        }
        standing[id] = *known.entry(Interned::of(node)).or_insert(id);
    }
    standing
}
