//! Pooling: sums and means are convolutions with ones; a maximum passes its cotangent to the element it selected.

mod selected;

use super::window::transposed;
use super::{Cotangents, GradientContext};
use crate::Result;
use crate::emit::{keep_where, zeros};
use kiln_ir::{Combine, Dims, Integers, PoolFunction, ValueId, Window};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

impl GradientContext<'_, '_> {
    pub(super) fn pool(
        &mut self,
        function: PoolFunction,
        size: &Integers,
        window: &Window,
    ) -> Result<Cotangents> {
        let g = self.cotangent(0)?;
        let dims = self.dims(self.operand(0))?;
        let dtype = self.builder.dtype(g)?;
        Ok(vec![Some(match function {
            PoolFunction::Max => self.max_pool(g, size, window, &dims)?,
            PoolFunction::Sum => self.spread(g, size, window, &dims)?,
            PoolFunction::Mean => {
                // The number of elements of each window that are not padding.
                let one = self.builder.scalar(dtype, 1.0)?;
                let single = self.builder.size(1);
                let mut plane: Dims = [single, single].into_iter().collect();
                plane.extend(dims.iter().skip(2).copied());
                let ones = self.builder.broadcast_to(one, &plane)?;
                let sum = PoolFunction::Sum;
                let counts = self.builder.pool(ones, sum, size, window.clone())?;
                let share = self.builder.div(g, counts)?;
                self.spread(share, size, window, &dims)?
            }
            PoolFunction::MeanWithPadding => {
                let count: f64 = size.iter().map(|&size| size as f64).product();
                let count = self.builder.scalar(dtype, count)?;
                let share = self.builder.div(g, count)?;
                self.spread(share, size, window, &dims)?
            }
        })])
    }

    /// The transpose of a sum over windows: a transposed convolution of every plane with ones.
    fn spread(
        &mut self,
        g: ValueId,
        size: &Integers,
        window: &Window,
        dims: &[DimId],
    ) -> Result<ValueId> {
        let b = &mut *self.builder;
        let one = b.size(1);
        let g_dims = b.shape(g)?;
        let planes = b.dims_mut().mul(g_dims[0], g_dims[1])?;
        let mut flat: Dims = [planes, one].into_iter().collect();
        flat.extend(g_dims.iter().skip(2).copied());
        let g = b.reshape(g, &flat)?;
        let mut kernel: Dims = [one, one].into_iter().collect();
        kernel.extend(b.sizes(size));
        let weight = b.scalar(b.dtype(g)?, 1.0)?;
        let weights = b.broadcast_to(weight, &kernel)?;
        let spread = transposed(b, g, weights, window, 1, &dims[2..])?;
        Ok(b.reshape(spread, dims)?)
    }

    fn max_pool(
        &mut self,
        g: ValueId,
        size: &Integers,
        window: &Window,
        dims: &[DimId],
    ) -> Result<ValueId> {
        let x = self.operand(0);
        let b = &mut *self.builder;
        let selected = b.arg_pool(x, size, window.clone())?;
        if let Some(sum) = selected::gathered(b, (g, selected), size, window, dims)? {
            return Ok(sum);
        }
        // Too many windows cover an element. A window that consists only of padding selects no element.
        let zero = b.scalar(DType::I64, 0.0)?;
        let is_any = b.map("ge", &[selected, zero])?;
        let g = keep_where(b, is_any, g)?;
        let selected = b.max(selected, zero)?;
        let elements = b.dims_mut().product(&dims[2..])?;
        let g_dims = b.shape(g)?;
        let windows = b.dims_mut().product(&g_dims[2..])?;
        let flat = [dims[0], dims[1], windows];
        let (g, selected) = (b.reshape(g, &flat)?, b.reshape(selected, &flat)?);
        let plane = zeros(b, b.dtype(g)?, &[dims[0], dims[1], elements])?;
        let placed = b.scatter_elements(plane, selected, g, 2, Combine::Add)?;
        Ok(b.reshape(placed, dims)?)
    }
}
