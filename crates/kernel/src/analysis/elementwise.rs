//! Arrays read by a single elementwise map, such as attention scores, which are scaled and masked.
//!
//! The map can be fused into its producer.

use super::{Dependence, expression_nodes};
use crate::form::{AxisId, Item, Kernel, Node, NodeId, StageId, StageOperation};

/// A map that is the only reader of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementwiseReader {
    /// The map.
    pub stage: StageId,
    /// An element of the array, as the map reads it.
    pub element: NodeId,
}

/// The map that is the only reader of a stage's array, each element from its own, if `next` is one: over the same number of
/// axes of equal extents, varying along the same outer axes.
pub fn elementwise_reader(
    kernel: &Kernel,
    dependence: &Dependence,
    filled: StageId,
    next: &Item,
) -> Option<ElementwiseReader> {
    let Item::Stage(id) = *next else {
        return None;
    };
    let (from, to) = (kernel.stage(filled), kernel.stage(id));
    let is_map = matches!(to.operation, StageOperation::Map) && !from.axes.is_empty();
    let is_alike =
        |(&left, &right): (&AxisId, &AxisId)| kernel.axis(left).extent == kernel.axis(right).extent;
    let mut outer = kernel.outer().iter();
    let is_same_nest = from.axes.len() == to.axes.len()
        && from.axes.iter().zip(&to.axes).all(is_alike)
        && outer.all(|&axis| {
            let depends = |stage| dependence.stage_depends(stage, axis);
            depends(filled) == depends(id)
        });
    if !is_map || !is_same_nest {
        return None;
    }
    let reads = |node: &Node| match *node {
        Node::Local { stage, .. } | Node::Previous { stage, .. } | Node::Last { stage, .. } => {
            stage == filled
        }
        _ => false,
    };
    let nodes = kernel.nodes().iter();
    let mut readers = nodes.filter(|(_, data)| reads(&data.node));
    let (element, data) = readers.next().filter(|_| readers.next().is_none())?;
    let Node::Local { indices, .. } = &data.node else {
        return None;
    };
    let mut indices = indices.iter().zip(&to.axes);
    let is_own = indices.all(|(&index, &axis)| *kernel.node(index) == Node::Axis(axis));
    let mut others = kernel.items().iter().flat_map(Item::parts);
    let is_below = |roots: &[NodeId]| expression_nodes(kernel, roots).contains(&element);
    let is_read_elsewhere = others.any(|item| match item {
        Item::Stage(other) if *other == id => false,
        Item::Stage(other) => is_below(&[kernel.stage(*other).value]),
        Item::Store(store) => is_below(&store.indices) || is_below(&[store.value]),
        Item::Carry(_) => false,
    });
    (is_own && !is_read_elsewhere).then_some(ElementwiseReader { stage: id, element })
}

#[cfg(test)]
mod tests {
    use super::super::testing::kernel;
    use super::*;

    fn is_read_by(map: &str, stored: &str) -> bool {
        let kernel = kernel(&format!(
            "kernel @scores(%q: in f32[M, 8], %k: in f32[N, 8], %a: in f32[N], %o: out f32[M, N]) {{
               outer m < M
               s[j < N] = reduce add[d < 8] %q[m, d] * %k[j, d]
               w[j < N] = {map}
               t = reduce max[j < N] w[j]
               store %o[m, j < N] = {stored}
             }}"
        ));
        let items = kernel.items();
        let (Item::Stage(filled), next) = (&items[0], &items[1]) else {
            panic!("a stage is first");
        };
        let dependence = Dependence::of(&kernel);
        elementwise_reader(&kernel, &dependence, *filled, next).is_some()
    }

    #[test]
    fn elementwise_readers_may_scale_and_shift() {
        assert!(is_read_by("s[j] * 0.25 + %a[j]", "exp(w[j] - t)"));
    }

    #[test]
    fn other_readers_or_elements_are_not_elementwise() {
        assert!(!is_read_by("s[j] * 0.25", "exp(w[j] - t) + s[j]"));
        assert!(!is_read_by("s[N - 1 - j] * 0.25", "exp(w[j] - t)"));
        assert!(!is_read_by("%a[j]", "exp(w[j] - t)"), "no reader at all");
    }
}
