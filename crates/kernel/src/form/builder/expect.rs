//! Checks the dtypes of operands when a node is added.

use cranelift_entity::EntityRef;
use kiln_tensor::DType;
use smallvec::SmallVec;

use super::KernelBuilder;
use crate::error::KernelError;
use crate::form::ids::NodeId;

impl KernelBuilder {
    pub(super) fn node_dtype(&self, node: NodeId) -> Option<DType> {
        self.kernel.nodes.get(node).map(|data| data.dtype)
    }

    pub(super) fn dtypes(&mut self, nodes: &[NodeId]) -> Option<SmallVec<[DType; 4]>> {
        let dtypes: Option<SmallVec<[DType; 4]>> =
            nodes.iter().map(|&node| self.node_dtype(node)).collect();
        if dtypes.is_none() {
            self.fail(KernelError::unknown("node", self.kernel.nodes.len()));
        }
        dtypes
    }

    pub(super) fn expect_indices(&mut self, indices: &[NodeId]) {
        for &index in indices {
            self.expect_dtype(index, DType::I64, "an index");
        }
    }

    pub(super) fn expect_dtype(&mut self, node: NodeId, expected: DType, what: &'static str) {
        match self.node_dtype(node) {
            Some(found) if found == expected => {}
            Some(found) => self.fail(KernelError::DType {
                what,
                expected,
                found,
            }),
            None => self.fail(KernelError::unknown("node", node.index())),
        }
    }
}
