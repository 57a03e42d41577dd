//! Stages: local arrays that are mapped or reduced.

use cranelift_entity::EntityRef;
use kiln_tensor::DType;

use super::KernelBuilder;
use crate::error::KernelError;
use crate::form::ids::{AxisId, NodeId, StageId};
use crate::form::item::{Item, Reduction, Stage, StageOperation};

impl KernelBuilder {
    /// A stage that maps: a local array over `axes`.
    pub fn map(
        &mut self,
        name: impl Into<String>,
        axes: impl IntoIterator<Item = AxisId>,
        value: NodeId,
    ) -> StageId {
        self.push_stage(Stage {
            name: name.into(),
            axes: axes.into_iter().collect(),
            operation: StageOperation::Map,
            value,
            init: None,
        })
    }

    /// A stage that reduces `value` over `reduced`, accumulated in the value's dtype: a local array over `axes`.
    pub fn reduce(
        &mut self,
        name: impl Into<String>,
        axes: impl IntoIterator<Item = AxisId>,
        reduction: Reduction,
        reduced: impl IntoIterator<Item = AxisId>,
        value: NodeId,
    ) -> StageId {
        let accumulator = self.node_dtype(value).unwrap_or(DType::F32);
        self.push_stage(Stage {
            name: name.into(),
            axes: axes.into_iter().collect(),
            operation: StageOperation::Reduce {
                reduction,
                axes: reduced.into_iter().collect(),
                accumulator,
            },
            value,
            init: None,
        })
    }

    /// Any stage, after the items so far.
    pub fn push_stage(&mut self, stage: Stage) -> StageId {
        let id = self.kernel.stages.push(stage);
        self.push_item(Item::Stage(id));
        id
    }

    /// A stage of the open block before its value is known, so that nodes may refer to it. Its dtype is that of
    /// `init`; [`define_stage`](Self::define_stage) places it.
    pub fn declare_stage(
        &mut self,
        name: impl Into<String>,
        axes: impl IntoIterator<Item = AxisId>,
        init: NodeId,
    ) -> StageId {
        self.kernel.stages.push(Stage {
            name: name.into(),
            axes: axes.into_iter().collect(),
            operation: StageOperation::Map,
            value: init,
            init: Some(init),
        })
    }

    /// Sets the operation and value of a declared stage, and places it after the items so far.
    pub fn define_stage(&mut self, id: StageId, operation: StageOperation, value: NodeId) {
        match self.kernel.stages.get_mut(id) {
            Some(stage) => {
                stage.operation = operation;
                stage.value = value;
                self.push_item(Item::Stage(id));
            }
            None => self.fail(KernelError::unknown("stage", id.index())),
        }
    }
}
