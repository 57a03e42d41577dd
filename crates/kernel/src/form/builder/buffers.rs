//! Buffers, and the axes that are iterated over.

use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::KernelBuilder;
use crate::form::buffer::{Buffer, Dims, Role};
use crate::form::ids::{AxisId, BufferId};
use crate::form::item::{Axis, Extent};

impl KernelBuilder {
    /// A row-major buffer.
    pub fn buffer(
        &mut self,
        name: impl Into<String>,
        role: Role,
        dtype: DType,
        shape: impl IntoIterator<Item = DimId>,
    ) -> BufferId {
        self.push_buffer(Buffer {
            name: name.into(),
            role,
            dtype,
            shape: shape.into_iter().collect(),
            strides: None,
        })
    }

    /// A buffer with strides, in elements.
    pub fn strided_buffer(
        &mut self,
        name: impl Into<String>,
        role: Role,
        dtype: DType,
        shape: impl IntoIterator<Item = DimId>,
        strides: impl IntoIterator<Item = DimId>,
    ) -> BufferId {
        let strides: Dims = strides.into_iter().collect();
        self.push_buffer(Buffer {
            name: name.into(),
            role,
            dtype,
            shape: shape.into_iter().collect(),
            strides: Some(strides),
        })
    }

    /// Any buffer.
    pub fn push_buffer(&mut self, buffer: Buffer) -> BufferId {
        self.kernel.buffers.push(buffer)
    }

    /// An outer axis over a size, inside those made before.
    pub fn outer(&mut self, name: impl Into<String>, size: DimId) -> AxisId {
        let axis = self.axis(name, size);
        self.kernel.outer.push(axis);
        axis
    }

    /// An inner axis over a size, for one stage, store or carry block.
    pub fn axis(&mut self, name: impl Into<String>, size: DimId) -> AxisId {
        self.push_axis(name, Extent::Size(size))
    }

    /// An inner axis of any extent.
    pub fn push_axis(&mut self, name: impl Into<String>, extent: Extent) -> AxisId {
        self.kernel.axes.push(Axis {
            name: name.into(),
            extent,
        })
    }
}
