//! Grouped indices, such as the channels of a grouped convolution: `group * size + place`.

use kiln_scalar::ScalarOp;

use super::integer_literal;
use crate::form::{AxisId, Extent, Kernel, Node, NodeId};

/// An index that consists of a group and a position within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupedIndex {
    /// The group.
    pub group: NodeId,
    /// The number of positions in a group.
    pub size: i64,
    /// The position, an axis with that many points.
    pub place: NodeId,
    /// That axis.
    pub axis: AxisId,
}

impl GroupedIndex {
    /// The parts of an index, if it has this form.
    pub fn of(kernel: &Kernel, index: NodeId) -> Option<Self> {
        let &[left, right] = operands(kernel, index, ScalarOp::Add)? else {
            return None;
        };
        let with_place = |first: NodeId, place: NodeId| {
            let Node::Axis(axis) = *kernel.node(place) else {
                return None;
            };
            let Extent::Size(extent) = kernel.axis(axis).extent else {
                return None;
            };
            let size = kernel.dims().as_constant(extent)?;
            let &[a, b] = operands(kernel, first, ScalarOp::Mul)? else {
                return None;
            };
            let group = match (integer_literal(kernel, a), integer_literal(kernel, b)) {
                (Some(factor), _) if factor == size => b,
                (_, Some(factor)) if factor == size => a,
                _ => return None,
            };
            Some(Self {
                group,
                size,
                place,
                axis,
            })
        };
        with_place(left, right).or_else(|| with_place(right, left))
    }
}

fn operands(kernel: &Kernel, node: NodeId, wanted: ScalarOp) -> Option<&[NodeId]> {
    match kernel.node(node) {
        Node::Apply { op, operands } if *op == wanted => Some(operands),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(index: &str, size: &str) -> Option<i64> {
        let text = format!(
            "kernel @groups(%x: in f32[48], %o: out f32[6, {size}]) {{
               outer g < 6, c < {size}
               store %o[g, c] = %x[min({index}, 47)]
             }}"
        );
        let kernel = crate::verify(crate::text::read(&text).unwrap()).unwrap();
        let mut found = kernel
            .nodes()
            .keys()
            .filter_map(|id| GroupedIndex::of(&kernel, id));
        found.next().map(|split| split.size)
    }

    #[test]
    fn a_grouped_index_is_a_group_times_its_size_plus_an_offset() {
        assert_eq!(split("g * 8 + c", "8"), Some(8));
        assert_eq!(split("c + 8 * g", "8"), Some(8));
        assert_eq!(split("g * 8 + c", "7"), None, "groups that leave a gap");
        assert_eq!(split("g + c", "8"), None);
        assert_eq!(split("g * 8 + 3", "8"), None);
    }
}
