//! Arrays finished as they are filled: what becomes of an element next is computed while it is still in registers.
//!
//! The scores of an attention are products, which are scaled and masked. Kept as they come they would be read and
//! written once more for that.

use kiln_kernel::seeded::{Fault, is_on};
use kiln_kernel::{AxisId, Item, Node, NodeId, StageId, StageOperation};
use kiln_tensor::DType;

use super::context::Lowering;
use super::scope::{Array, Coordinate, Form, Scope, Vectors};
use super::tile::{Tile, VectorAxis};
use crate::emit::Value;
use crate::error::LlvmError;

/// A map that is all that reads an array, each element for its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finish {
    /// The map. Its array takes the place of the one that it reads.
    pub(super) stage: StageId,
    /// An element of the array, as the map reads it.
    element: NodeId,
}

impl<'ctx> Lowering<'_, '_, 'ctx> {
    /// What finishes the array of a stage, if the next item does.
    pub(super) fn finish_of(
        &self,
        filled: StageId,
        next: Option<&Item>,
        tile: &Tile,
    ) -> Option<Finish> {
        let kernel = self.kernel;
        let Some(&Item::Stage(id)) = next else {
            return None;
        };
        let (from, to) = (kernel.stage(filled), kernel.stage(id));
        let is_map = matches!(to.operation, StageOperation::Map) && !from.axes.is_empty();
        let is_kept_as_computed = matches!(kernel.stage_dtype(filled), DType::F32 | DType::F64);
        if !is_map || !is_kept_as_computed || from.axes.len() != to.axes.len() {
            return None;
        }
        // Loops and lanes of one are those of the other.
        let vectors = |stage: StageId| -> Option<usize> {
            let axis = self.vector_axis(stage)?;
            let axes = &kernel.stage(stage).axes;
            axes.iter().position(|&own| own == axis)
        };
        let is_alike = |(&left, &right): (&AxisId, &AxisId)| {
            kernel.axis(left).extent == kernel.axis(right).extent
        };
        let mut outer = kernel.outer().iter();
        let in_vectors = tile.vector == VectorAxis::Inner && tile.lanes > 1;
        let is_same_nest = in_vectors
            && from.axes.iter().zip(&to.axes).all(is_alike)
            && vectors(filled).is_some_and(|place| vectors(id) == Some(place))
            && outer.all(|&axis| {
                let depends = |stage| self.dependence.stage_depends(stage, axis);
                depends(filled) == depends(id)
            });
        if !is_same_nest {
            return None;
        }
        let reads = |node: &Node| match *node {
            Node::Local { stage, .. } | Node::Previous { stage, .. } | Node::Last { stage, .. } => {
                stage == filled
            }
            _ => false,
        };
        let mut readers = kernel
            .nodes()
            .keys()
            .filter(|&node| reads(kernel.node(node)));
        let element = readers.next().filter(|_| readers.next().is_none())?;
        let Node::Local { indices, .. } = kernel.node(element) else {
            return None;
        };
        let mut indices = indices.iter().zip(&to.axes);
        let is_own = indices.all(|(&index, &axis)| *kernel.node(index) == Node::Axis(axis));
        let others = kernel.items().iter().flat_map(Item::parts);
        let is_read_elsewhere = others.into_iter().any(|item| match item {
            Item::Stage(other) if *other == id => false,
            Item::Stage(other) => self.is_below(kernel.stage(*other).value, element),
            Item::Store(store) => {
                let mut roots = store.indices.iter().chain([&store.value]);
                roots.any(|&root| self.is_below(root, element))
            }
            Item::Carry(_) => false,
        });
        (is_own && !is_read_elsewhere).then_some(Finish { stage: id, element })
    }

    /// Whether a node is made of another.
    fn is_below(&self, root: NodeId, wanted: NodeId) -> bool {
        let mut pending = vec![root];
        let mut seen = std::collections::BTreeSet::new();
        while let Some(node) = pending.pop() {
            if node == wanted {
                return true;
            }
            if seen.insert(node) {
                let operands = &mut |operand| pending.push(operand);
                self.kernel.node(node).for_each_operand(operands);
            }
        }
        false
    }

    /// Makes of elements that were computed what comes next, and puts it into the array.
    pub(super) fn store_finished(
        &self,
        scope: &Scope<'ctx>,
        filled: StageId,
        finish: Finish,
        elements: impl IntoIterator<Item = (Coordinate, Value<'ctx>)>,
        array: &Array<'ctx>,
    ) -> Result<(), LlvmError> {
        let next = self.kernel.stage(finish.stage);
        let scope = &self.renamed(scope, &self.kernel.stage(filled).axes, &next.axes);
        for (at, element) in elements {
            self.assume(scope, finish.element, at, element);
            let value = match is_on(Fault::UnfinishedElement) {
                true => element,
                false => self.value(scope, next.value, at, Form::Lanes)?,
            };
            let array = self.array_of_row(scope, array, at);
            self.store_own(scope, &array, &next.axes, value, at)?;
        }
        Ok(())
    }

    /// The same place for loops that go by other names.
    fn renamed(&self, scope: &Scope<'ctx>, from: &[AxisId], to: &[AxisId]) -> Scope<'ctx> {
        let mut renamed = scope.clone();
        for (&from, &to) in from.iter().zip(to) {
            match scope.vectors {
                Some(vectors) if vectors.axis == from => {
                    renamed = renamed.with_vectors(Vectors {
                        axis: to,
                        ..vectors
                    });
                }
                _ => {
                    if let Some(index) = scope.axis(from) {
                        renamed = renamed.with_axis(to, index);
                    }
                }
            }
        }
        renamed
    }
}
