//! Matrix products.

use super::{Cotangents, GradientContext};
use crate::Result;
use crate::emit::{flatten_batch, sum_to, swap_last};

impl GradientContext<'_, '_> {
    /// `G Bᵀ` and `Aᵀ G`, summed over batch axes along which an operand was broadcast.
    pub(super) fn matmul(&mut self) -> Result<Cotangents> {
        let g = self.cotangent(0)?;
        let (left, right) = (self.operand(0), self.operand(1));
        let (left_dims, right_dims) = (self.dims(left)?, self.dims(right)?);
        let of_left = match self.is_wanted(0) {
            true => {
                let transposed = swap_last(self.builder, right)?;
                let product = self.builder.matmul(g, transposed)?;
                Some(sum_to(self.builder, product, &left_dims)?)
            }
            false => None,
        };
        let of_right = match self.is_wanted(1) {
            // There is one matrix for the whole batch, so the batch becomes part of one long sum, without a product per
            // batch element.
            true if right_dims.len() == 2 => {
                let rows = flatten_batch(self.builder, left)?;
                let cotangents = flatten_batch(self.builder, g)?;
                let transposed = swap_last(self.builder, rows)?;
                Some(self.builder.matmul(transposed, cotangents)?)
            }
            true => {
                let transposed = swap_last(self.builder, left)?;
                let product = self.builder.matmul(transposed, g)?;
                Some(sum_to(self.builder, product, &right_dims)?)
            }
            false => None,
        };
        Ok(vec![of_left, of_right])
    }
}
