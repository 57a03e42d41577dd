//! The indices of nonzero elements, in row-major order. NaN is nonzero; -0 is zero.

use crate::context::EvaluateContext;
use crate::element::{Accumulator, Number};
use crate::fault::OpFault;
use kiln_tensor::{DType, Tensor, match_dtype, row_major_strides};

/// `[dims] -> i64[rank, number of elements], i64[]`: the first count columns hold the indices, the
/// rest 0.
pub(crate) fn non_zero(ctx: &EvaluateContext<'_>, x: &Tensor) -> Result<Vec<Tensor>, OpFault> {
    let x = ctx.dense(x)?;
    let mut indices = Tensor::zeros(DType::I64, &[x.rank(), x.len()])?;
    let places = indices.as_mut_slice::<i64>()?;
    let strides = row_major_strides(x.shape());
    let mut count = 0usize;
    match_dtype!(x.dtype(), T => {
        for (at, &element) in x.as_slice::<T>()?.iter().enumerate() {
            ctx.work(1)?;
            if element.to_wide() == <T as Number>::Wide::ZERO {
                continue;
            }
            for (axis, (&size, &stride)) in x.shape().iter().zip(&strides).enumerate() {
                places[axis * x.len() + count] = (at / stride.unsigned_abs() % size) as i64;
            }
            count += 1;
        }
    });
    Ok(vec![indices, Tensor::scalar(count as i64)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{TestSizes, tensor};

    #[test]
    fn non_zero_returns_one_index_per_column() {
        let x = tensor(&[2, 3], &[0.0f32, 1.0, -0.0, f32::NAN, 0.0, 2.0]);
        let results = non_zero(&TestSizes::new().ctx(), &x).unwrap();
        assert_eq!(results[0].shape(), [2, 6]);
        assert_eq!(
            results[0].to_vec::<i64>().unwrap(),
            [0, 1, 1, 0, 0, 0, 1, 0, 2, 0, 0, 0]
        );
        assert_eq!(results[1].item::<i64>().unwrap(), 3);
    }

    #[test]
    fn non_zero_of_scalars_and_empty_tensors() {
        let results = non_zero(&TestSizes::new().ctx(), &Tensor::scalar(true)).unwrap();
        assert_eq!(
            (results[0].shape(), results[1].item::<i64>().unwrap()),
            (&[0, 1][..], 1)
        );
        let results = non_zero(&TestSizes::new().ctx(), &tensor::<i32>(&[2, 0], &[])).unwrap();
        assert_eq!(
            (results[0].shape(), results[1].item::<i64>().unwrap()),
            (&[2, 0][..], 0)
        );
    }
}
