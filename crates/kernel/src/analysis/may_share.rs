//! Which results of a kernel may overwrite which of its operands.

use std::collections::BTreeSet;

use crate::form::{
    Buffer, BufferId, Extent, Item, Kernel, Load, Node, NodeId, Role, StageOperation, Store,
};

/// An operand and a result that may share memory: the same elements at the same addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedPair {
    /// A buffer that is read.
    pub read: BufferId,
    /// A buffer that is written.
    pub written: BufferId,
}

/// The operands whose memory a result may reuse, by the positions of the buffers: a launch with such a pair in shared
/// memory gives the same bits as in separate memories, for any schedule and number of threads.
///
/// Conservative: an operand shares with a result of the same layout if it is loaded only at the element that is stored, and
/// not after that, and nothing is reduced or carried. Schedules may compute rows of a reduction twice; a map's points are
/// computed once, with all loads of a point before the store that ends it.
///
/// A launch uses each buffer in at most one pair.
pub fn may_share(kernel: &Kernel) -> Vec<SharedPair> {
    let mut stores: Vec<&Store> = Vec::new();
    for item in &kernel.items {
        match item {
            Item::Store(store) => stores.push(store),
            Item::Stage(stage) => {
                let stage = kernel.stage(*stage);
                if stage.operation != StageOperation::Map || !stage.axes.is_empty() {
                    return Vec::new();
                }
            }
            Item::Carry(_) => return Vec::new(),
        }
    }
    // A bound of a loop is read more than once.
    let is_sized = |extent: Extent| matches!(extent, Extent::Size(_));
    if !kernel.axes.values().all(|axis| is_sized(axis.extent)) {
        return Vec::new();
    }
    let loaded: Vec<BTreeSet<NodeId>> = stores.iter().map(|store| loads(kernel, store)).collect();
    let mut pairs = Vec::new();
    for (position, store) in stores.iter().enumerate() {
        let to = kernel.buffer(store.buffer);
        let is_only = stores.iter().filter(|other| other.buffer == store.buffer);
        if to.role != Role::Out || store.combine.is_some() || is_only.count() != 1 {
            continue;
        }
        for (id, from) in &kernel.buffers {
            if from.role != Role::In || !are_laid_out_alike(from, to) {
                continue;
            }
            let of_operand = |loads: &BTreeSet<NodeId>| -> Vec<NodeId> {
                let is_its = |node: &&NodeId| load(kernel, **node).buffer == id;
                loads.iter().filter(is_its).copied().collect()
            };
            let (until, after) = loaded.split_at(position + 1);
            let reads: Vec<NodeId> = until.iter().flat_map(of_operand).collect();
            let is_same = |node: &NodeId| load(kernel, *node).indices == store.indices;
            let is_read_later = after.iter().any(|loads| !of_operand(loads).is_empty());
            if !reads.is_empty() && reads.iter().all(is_same) && !is_read_later {
                pairs.push(SharedPair {
                    read: id,
                    written: store.buffer,
                });
            }
        }
    }
    pairs
}

/// Whether equal indices are equal addresses, relative to where the buffers begin.
fn are_laid_out_alike(left: &Buffer, right: &Buffer) -> bool {
    left.shape == right.shape
        && left.strides == right.strides
        && left.dtype.size_in_bytes() == right.dtype.size_in_bytes()
}

fn load(kernel: &Kernel, node: NodeId) -> &Load {
    match kernel.node(node) {
        Node::Load(load) => load,
        _ => unreachable!("only loads are collected"),
    }
}

/// The loads from which a store is computed, through the stages it reads.
fn loads(kernel: &Kernel, store: &Store) -> BTreeSet<NodeId> {
    let mut pending: Vec<NodeId> = store.indices.to_vec();
    pending.push(store.value);
    let (mut seen, mut found) = (BTreeSet::new(), BTreeSet::new());
    while let Some(node) = pending.pop() {
        if !seen.insert(node) {
            continue;
        }
        match kernel.node(node) {
            Node::Load(_) => {
                found.insert(node);
            }
            Node::Local { stage, .. } => pending.push(kernel.stage(*stage).value),
            _ => {}
        }
        kernel
            .node(node)
            .for_each_operand(&mut |operand| pending.push(operand));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{text, verify};

    /// The pairs of a kernel, as `operand>result`.
    fn pairs(text: &str) -> Vec<String> {
        let kernel = verify(text::read(text).unwrap()).unwrap();
        let kernel = kernel.kernel();
        let name = |id| &kernel.buffer(id).name;
        let pairs = may_share(kernel);
        let pairs = pairs.iter();
        pairs
            .map(|pair| format!("{}>{}", name(pair.read), name(pair.written)))
            .collect()
    }

    #[test]
    fn a_map_may_share_memory_with_operands_read_elementwise() {
        let text =
            "kernel @add(%x: in f32[N, M], %y: in f32[N, M], %b: in f32[M], %o: out f32[N, M]) {
               outer n < N, m < M
               store %o[n, m] = exp(%x[n, m]) + %y[n, m] * %x[n, m] + %b[m]
             }";
        assert_eq!(pairs(text), ["x>o", "y>o"]);
    }

    #[test]
    fn an_element_read_at_another_point_is_not_overwritten() {
        let text = "kernel @shift(%x: in f32[N], %o: out f32[N]) {
               outer n < N
               store %o[n] = %x[n] + %x[0]
             }";
        assert!(pairs(text).is_empty());
        let text = "kernel @turn(%x: in f32[N, N], %o: out f32[N, N]) {
               outer n < N, m < N
               store %o[n, m] = %x[m, n]
             }";
        assert!(pairs(text).is_empty());
    }

    #[test]
    fn layouts_and_widths_must_be_the_same() {
        let text = |from: &str, to: &str| {
            format!(
                "kernel @cast(%x: in {from}, %o: out {to}) {{
                   outer n < N, m < M
                   store %o[n, m] = i32(%x[n, m])
                 }}"
            )
        };
        assert_eq!(pairs(&text("f32[N, M]", "i32[N, M]")), ["x>o"]);
        assert!(pairs(&text("f64[N, M]", "i32[N, M]")).is_empty());
        assert!(pairs(&text("f32[N, M]", "i32[N, M] strides [1, N]")).is_empty());
        let both = ("f32[N, M] strides [1, N]", "i32[N, M] strides [1, N]");
        assert_eq!(pairs(&text(both.0, both.1)), ["x>o"]);
    }

    #[test]
    fn reduced_operands_are_never_overwritten() {
        let text = "kernel @norm(%x: in f32[N, M], %o: out f32[N, M]) {
               outer n < N
               s = reduce add[k < M] %x[n, k]
               store[m < M] %o[n, m] = %x[n, m] / s
             }";
        assert!(pairs(text).is_empty());
        let text =
            "kernel @mm(%x: in f32[N, K], %w: in f32[K, M], %r: in f32[N, M], %o: out f32[N, M]) {
               outer n < N, m < M
               s = reduce add[k < K] %x[n, k] * %w[k, m]
               store %o[n, m] = s + %r[n, m]
             }";
        assert!(pairs(text).is_empty());
    }

    #[test]
    fn only_the_last_result_that_reads_an_operand_takes_its_memory() {
        let text = "kernel @step(%m: in f32[N], %p: in f32[N], %g: in f32[N], %p2: out f32[N], %m2: out f32[N]) {
               outer n < N
               store %p2[n] = %p[n] - %m[n]
               store %m2[n] = %m[n] * %g[n]
             }";
        assert_eq!(pairs(text), ["p>p2", "m>m2", "p>m2", "g>m2"]);
    }

    #[test]
    fn an_index_that_is_loaded_is_not_overwritten() {
        let text = "kernel @pick(%i: in i64[N], %x: in i64[N], %o: out i64[N]) {
               outer n < N
               store %o[n] = %x[%i[n]]
             }";
        assert_eq!(pairs(text), ["i>o"]);
    }
}
