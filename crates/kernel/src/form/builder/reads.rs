//! Nodes that read: loads of buffers, and elements of stages.

use cranelift_entity::EntityRef;
use kiln_tensor::DType;

use super::KernelBuilder;
use crate::error::KernelError;
use crate::form::ids::{BufferId, NodeId, StageId};
use crate::form::node::{Load, LoadGuard, Node, Nodes};

impl KernelBuilder {
    /// A load that is always performed.
    pub fn load(&mut self, buffer: BufferId, indices: impl IntoIterator<Item = NodeId>) -> NodeId {
        self.push_load(Load {
            buffer,
            indices: indices.into_iter().collect(),
            guard: None,
        })
    }

    /// A load if the indices are in bounds, otherwise the value `otherwise`: `%x[i] if inside else v`.
    pub fn load_inside(
        &mut self,
        buffer: BufferId,
        indices: impl IntoIterator<Item = NodeId>,
        otherwise: NodeId,
    ) -> NodeId {
        self.push_load(Load {
            buffer,
            indices: indices.into_iter().collect(),
            guard: Some(LoadGuard {
                inside: true,
                when: None,
                otherwise,
            }),
        })
    }

    /// A load that is performed if a `bool` is true: `%x[i] if c else v`.
    pub fn load_when(
        &mut self,
        buffer: BufferId,
        indices: impl IntoIterator<Item = NodeId>,
        when: NodeId,
        otherwise: NodeId,
    ) -> NodeId {
        self.push_load(Load {
            buffer,
            indices: indices.into_iter().collect(),
            guard: Some(LoadGuard {
                inside: false,
                when: Some(when),
                otherwise,
            }),
        })
    }

    /// Any load.
    pub fn push_load(&mut self, load: Load) -> NodeId {
        let Some(buffer) = self.kernel.buffers.get(load.buffer) else {
            self.fail(KernelError::unknown("buffer", load.buffer.index()));
            return self.integer(0);
        };
        let dtype = buffer.dtype;
        let rank = buffer.rank();
        if rank != load.indices.len() {
            self.fail(KernelError::IndexCount {
                what: format!("%{}", self.kernel.buffers[load.buffer].name),
                expected: rank,
                found: load.indices.len(),
            });
        }
        if let Some(guard) = &load.guard {
            let (otherwise, when) = (guard.otherwise, guard.when);
            self.expect_dtype(
                otherwise,
                dtype,
                "the value of a load that is not performed",
            );
            if let Some(when) = when {
                self.expect_dtype(when, DType::Bool, "the condition of a load");
            }
        }
        self.expect_indices(&load.indices.clone());
        self.push(Node::Load(load), dtype)
    }

    /// The result of a stage.
    pub fn local(&mut self, stage: StageId, indices: impl IntoIterator<Item = NodeId>) -> NodeId {
        let indices: Nodes = indices.into_iter().collect();
        let dtype = self.stage_dtype(stage, &indices);
        self.push(Node::Local { stage, indices }, dtype)
    }

    /// The value of a stage of the open block after the previous step.
    pub fn previous(
        &mut self,
        stage: StageId,
        indices: impl IntoIterator<Item = NodeId>,
    ) -> NodeId {
        let indices: Nodes = indices.into_iter().collect();
        let dtype = self.stage_dtype(stage, &indices);
        self.push(Node::Previous { stage, indices }, dtype)
    }

    /// The final value of a stage of a closed block.
    pub fn last(&mut self, stage: StageId, indices: impl IntoIterator<Item = NodeId>) -> NodeId {
        let indices: Nodes = indices.into_iter().collect();
        let dtype = self.stage_dtype(stage, &indices);
        self.push(Node::Last { stage, indices }, dtype)
    }

    fn stage_dtype(&mut self, stage: StageId, indices: &[NodeId]) -> DType {
        let Some(data) = self.kernel.stages.get(stage) else {
            self.fail(KernelError::unknown("stage", stage.index()));
            return DType::I64;
        };
        let (name, rank) = (data.name.clone(), data.axes.len());
        if rank != indices.len() {
            self.fail(KernelError::IndexCount {
                what: name,
                expected: rank,
                found: indices.len(),
            });
        }
        self.expect_indices(indices);
        self.kernel.stage_dtype(stage)
    }
}
