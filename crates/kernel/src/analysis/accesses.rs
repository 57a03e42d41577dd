//! Every load and store of a kernel, with the loops that enclose it.

use std::collections::HashSet;

use super::loops::reduced_axes;
use crate::form::{Axes, BufferId, Item, Kernel, Node, NodeId, StageId, Store};

/// A load or a store of a kernel.
#[derive(Clone, Debug)]
pub struct Access<'k> {
    /// The load; `None` for a store.
    pub load: Option<NodeId>,
    /// The buffer that is read or written.
    pub buffer: BufferId,
    /// The indices, one per axis of the buffer.
    pub indices: &'k [NodeId],
    /// The stage that it belongs to, unless it is a store's.
    pub stage: Option<StageId>,
    /// The inner axes of its item, with the reduced ones last.
    pub axes: Axes,
    /// The number of nests of inner loops around it: one over the axes of a local or a store, one over the reduced axes.
    pub depth: u32,
}

/// Every access of a kernel, item by item, including those in carry blocks; a load that several items share is in each of
/// them.
pub fn accesses(kernel: &Kernel) -> Vec<Access<'_>> {
    let mut found = Vec::new();
    for item in kernel.items().iter().flat_map(Item::parts) {
        match item {
            Item::Stage(id) => of_stage(kernel, *id, &mut found),
            Item::Store(store) => of_store(kernel, store, &mut found),
            Item::Carry(_) => {}
        }
    }
    found
}

fn of_stage<'k>(kernel: &'k Kernel, id: StageId, found: &mut Vec<Access<'k>>) {
    let stage = kernel.stage(id);
    let reduced = reduced_axes(stage);
    let mut axes = stage.axes.clone();
    axes.extend(reduced.iter().copied());
    let depth = u32::from(!stage.axes.is_empty()) + u32::from(!reduced.is_empty());
    loads(kernel, &[stage.value], (Some(id), &axes, depth), found);
}

fn of_store<'k>(kernel: &'k Kernel, store: &'k Store, found: &mut Vec<Access<'k>>) {
    let depth = u32::from(!store.axes.is_empty());
    let mut nodes = store.indices.to_vec();
    nodes.push(store.value);
    loads(kernel, &nodes, (None, &store.axes, depth), found);
    found.push(Access {
        load: None,
        buffer: store.buffer,
        indices: &store.indices,
        stage: None,
        axes: store.axes.clone(),
        depth,
    });
}

fn loads<'k>(
    kernel: &'k Kernel,
    roots: &[NodeId],
    (stage, axes, depth): (Option<StageId>, &Axes, u32),
    found: &mut Vec<Access<'k>>,
) {
    let mut pending = roots.to_vec();
    let mut seen = HashSet::new();
    while let Some(node) = pending.pop() {
        if !seen.insert(node) {
            continue;
        }
        let operands = &mut |operand| pending.push(operand);
        kernel.node(node).for_each_operand(operands);
        if let Node::Load(load) = kernel.node(node) {
            found.push(Access {
                load: Some(node),
                buffer: load.buffer,
                indices: &load.indices,
                stage,
                axes: axes.clone(),
                depth,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{axis, kernel};
    use super::*;

    #[test]
    fn loads_are_listed_with_the_loops_of_their_item() {
        let kernel = kernel(
            "kernel @rows(%x: in f32[M, N], %y: out f32[M, N]) {
               outer m < M
               t = reduce max[r < N] %x[m, r]
               store %y[m, j < N] = %x[m, j] - t
             }",
        );
        let found = accesses(&kernel);
        let [reduced, mapped, stored] = found.as_slice() else {
            panic!("two loads and a store: {found:?}");
        };
        assert_eq!(reduced.axes.as_slice(), [axis(&kernel, "r")]);
        assert_eq!((reduced.depth, reduced.stage.is_some()), (1, true));
        assert_eq!(mapped.axes.as_slice(), [axis(&kernel, "j")]);
        assert_eq!((mapped.depth, mapped.stage), (1, None));
        assert_eq!((stored.load, stored.axes.len()), (None, 1));
        assert_ne!(reduced.buffer, stored.buffer);
    }
}
