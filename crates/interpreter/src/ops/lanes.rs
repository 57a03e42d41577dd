//! Iteration along one axis, with the axis itself as a contiguous lane.

use crate::context::EvaluateContext;
use crate::fault::OpFault;
use kiln_tensor::{Tensor, TensorError};

/// A tensor with `axis` moved to the end, its elements in row-major order.
pub(crate) fn lanes_along(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    axis: usize,
) -> Result<Tensor, OpFault> {
    if axis >= x.rank() {
        return Err(OpFault::malformed(format!(
            "axis {axis} of a tensor of rank {}",
            x.rank()
        )));
    }
    let permutation: Vec<usize> = (0..x.rank())
        .filter(|&at| at != axis)
        .chain([axis])
        .collect();
    ctx.dense(&x.transpose(&permutation)?)
}

/// The tensor whose lanes these are: the last axis moved back to `axis`.
pub(crate) fn from_lanes(lanes: &Tensor, axis: usize) -> Result<Tensor, TensorError> {
    let last = lanes.rank().saturating_sub(1);
    let permutation: Vec<usize> = (0..axis).chain([last]).chain(axis..last).collect();
    lanes.transpose(&permutation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{TestSizes, counting};

    #[test]
    fn lanes_along_an_axis_round_trip() {
        let x = counting(&[2, 3, 4, 5]);
        let sizes = TestSizes::new();
        let ctx = sizes.ctx();
        for axis in 0..4 {
            let lanes = lanes_along(&ctx, &x, axis).unwrap();
            assert_eq!(lanes.shape()[3], x.shape()[axis]);
            assert!(from_lanes(&lanes, axis).unwrap().bit_equal(&x));
        }
        assert_eq!(lanes_along(&ctx, &x, 4).unwrap_err().code(), "E0829");
    }
}
