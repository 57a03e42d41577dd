//! Checks that every id belongs to this kernel, and that operands come before their users. Later steps rely on it.

use cranelift_entity::EntityRef;
use kiln_symbolic_shape::DimId;

use super::Report;
use crate::error::KernelError;
use crate::form::{AxisId, Carry, Extent, Item, Kernel, Node, NodeId, StageOperation, Store};

/// The maximum number of nodes, axes, stages or buffers of a kernel.
const MAX_ENTITIES: usize = 1 << 20;

pub(super) fn check(kernel: &Kernel, report: &mut Report) {
    for (what, given) in [
        ("nodes", kernel.nodes().len()),
        ("axes", kernel.axes().len()),
        ("stages", kernel.stages().len()),
        ("buffers", kernel.buffers().len()),
    ] {
        if given > MAX_ENTITIES {
            report.push(KernelError::Limit {
                what,
                given,
                limit: MAX_ENTITIES,
            });
        }
    }
    let mut ids = Ids { kernel, report };
    for buffer in kernel.buffers().values() {
        buffer.shape.iter().for_each(|&dim| ids.dim(dim));
        let strides = buffer.strides.iter().flatten();
        strides.for_each(|&dim| ids.dim(dim));
    }
    for axis in kernel.axes().values() {
        ids.dim(axis.extent.bound());
        if let Extent::Clamped { value, .. } = axis.extent {
            ids.node(value);
        }
    }
    for (id, data) in kernel.nodes() {
        ids.content(id, &data.node);
    }
    ids.axes(kernel.outer());
    for stage in kernel.stages().values() {
        ids.axes(&stage.axes);
        ids.node(stage.value);
        stage.init.into_iter().for_each(|init| ids.node(init));
        if let StageOperation::Reduce { axes, .. } = &stage.operation {
            ids.axes(axes);
        }
    }
    for item in kernel.items() {
        ids.item(item);
    }
}

struct Ids<'a> {
    kernel: &'a Kernel,
    report: &'a mut Report,
}

impl Ids<'_> {
    fn expect(&mut self, is_known: bool, kind: &'static str, index: usize) {
        if !is_known {
            self.report.push(KernelError::Unknown { kind, index });
        }
    }

    fn dim(&mut self, dim: DimId) {
        self.expect(self.kernel.dims().contains(dim), "size", dim.index());
    }

    fn axes(&mut self, axes: &[AxisId]) {
        for &axis in axes {
            let is_known = self.kernel.axes().is_valid(axis);
            self.expect(is_known, "axis", axis.index());
        }
    }

    fn node(&mut self, node: NodeId) {
        self.expect(self.kernel.nodes().is_valid(node), "node", node.index());
    }

    fn content(&mut self, id: NodeId, node: &Node) {
        node.for_each_operand(&mut |operand| {
            self.expect(operand.index() < id.index(), "node", operand.index());
        });
        match node {
            Node::Size(dim) => self.dim(*dim),
            Node::Axis(axis) => self.axes(&[*axis]),
            Node::Load(load) => {
                let is_known = self.kernel.buffers().is_valid(load.buffer);
                self.expect(is_known, "buffer", load.buffer.index());
            }
            Node::Local { stage, .. } | Node::Previous { stage, .. } | Node::Last { stage, .. } => {
                self.expect(
                    self.kernel.stages().is_valid(*stage),
                    "stage",
                    stage.index(),
                );
            }
            Node::Literal(_) | Node::Apply { .. } | Node::Call { .. } => {}
        }
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Carry(carry) => {
                let Carry { axis, items, .. } = carry;
                self.axes(&[*axis]);
                for item in items {
                    match item {
                        Item::Carry(_) => self.report.push(KernelError::NestedCarry),
                        item => self.plain(item),
                    }
                }
            }
            item => self.plain(item),
        }
    }

    fn plain(&mut self, item: &Item) {
        match item {
            Item::Stage(stage) => {
                self.expect(
                    self.kernel.stages().is_valid(*stage),
                    "stage",
                    stage.index(),
                );
            }
            Item::Store(Store {
                axes,
                buffer,
                indices,
                value,
                ..
            }) => {
                self.axes(axes);
                self.expect(
                    self.kernel.buffers().is_valid(*buffer),
                    "buffer",
                    buffer.index(),
                );
                indices
                    .iter()
                    .chain([value])
                    .for_each(|&node| self.node(node));
            }
            Item::Carry(_) => {}
        }
    }
}
