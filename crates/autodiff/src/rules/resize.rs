//! Resizing, which is linear along each axis: its transpose multiplies by the transposed matrix of weights.

use super::{Cotangents, GradientContext};
use crate::Result;
use crate::emit::identity;
use kiln_ir::Resize;

impl GradientContext<'_, '_> {
    pub(super) fn resize(&mut self, resize: &Resize) -> Result<Cotangents> {
        let mut g = self.cotangent(0)?;
        let dims = self.dims(self.operand(0))?;
        let dtype = self.builder.dtype(g)?;
        let b = &mut *self.builder;
        for (index, &axis) in resize.axes.iter().enumerate() {
            // The weights of an axis are the resized identity matrix.
            let identity = identity(b, dtype, dims[axis])?;
            let along = Resize {
                axes: [0].into_iter().collect(),
                sizes: [resize.sizes[index]].into_iter().collect(),
                scales: [resize.scales[index]].into_iter().collect(),
                ..resize.clone()
            };
            let weights = b.resize(identity, along)?;
            let rank = dims.len();
            let last: Vec<usize> = (0..axis).chain(axis + 1..rank).chain([axis]).collect();
            let moved = b.transpose(g, &last)?;
            // A row vector per line, so that rank 1 is a matrix too.
            let lines = b.unsqueeze(moved, &[rank - 1])?;
            let product = b.matmul(lines, weights)?;
            let product = b.squeeze(product, &[rank - 1])?;
            let back: Vec<usize> = (0..axis).chain([rank - 1]).chain(axis..rank - 1).collect();
            g = b.transpose(product, &back)?;
        }
        Ok(vec![Some(g)])
    }
}
