//! Values computed from indices and sizes alone.

use kiln_ir::Dims;
use kiln_kernel::NodeId;
use kiln_scalar::ScalarOp;
use kiln_tensor::DType;

use super::context::{Demand, RegionLowering, Step, compute_dtype};

impl RegionLowering<'_> {
    pub(super) fn iota(&mut self, axis: usize, dtype: DType, demand: &Demand) -> NodeId {
        self.b.cast(demand.indices[axis], compute_dtype(dtype))
    }

    pub(super) fn sizes_as_data(&mut self, sizes: &Dims, demand: &Demand) -> Step<NodeId> {
        let sizes = self.dims(sizes)?;
        let at = demand.indices[0];
        if let Some(&size) = self
            .literal(at)
            .and_then(|at| sizes.get(usize::try_from(at).ok()?))
        {
            return Ok(self.b.size(size));
        }
        let mut element = self.integer(0);
        for (position, &size) in sizes.iter().enumerate().rev() {
            let size = self.b.size(size);
            let here = self.integer(i64::try_from(position).unwrap_or(i64::MAX));
            let is_here = self.b.apply(ScalarOp::Eq, [at, here]);
            element = self.b.apply(ScalarOp::Select, [is_here, size, element]);
        }
        Ok(element)
    }
}
