//! Iterates over the stores and nodes of a kernel.

use std::collections::BTreeSet;

use super::{Item, Kernel, NodeId, Store};

/// Every store, in the order of the items, including those inside blocks.
pub(crate) fn stores(kernel: &Kernel) -> Vec<&Store> {
    let mut found = Vec::new();
    for item in kernel.items() {
        match item {
            Item::Store(store) => found.push(store),
            Item::Carry(carry) => found.extend(carry.items.iter().filter_map(|item| match item {
                Item::Store(store) => Some(store),
                _ => None,
            })),
            Item::Stage(_) => {}
        }
    }
    found
}

/// Every node of which `roots` consist, operands first.
pub(crate) fn reachable(kernel: &Kernel, roots: &[NodeId]) -> BTreeSet<NodeId> {
    let mut found = BTreeSet::new();
    let mut pending = roots.to_vec();
    while let Some(node) = pending.pop() {
        if found.insert(node) {
            kernel
                .node(node)
                .for_each_operand(&mut |operand| pending.push(operand));
        }
    }
    found
}
