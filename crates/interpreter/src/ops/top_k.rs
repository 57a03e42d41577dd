//! The `k` first elements of each lane when sorted. NaN comes before every number, in both directions; of equal elements
//! the lower index first.

use super::arg_reduce::rank_order;
use super::lanes::{from_lanes, lanes_along};
use crate::context::EvaluateContext;
use crate::fault::OpFault;
use kiln_ir::Extremum;
use kiln_symbolic_shape::DimId;
use kiln_tensor::{DType, Tensor, match_dtype};

/// The values and their indices along `axis`.
pub(crate) fn top_k(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    k: DimId,
    axis: usize,
    extremum: Extremum,
) -> Result<Vec<Tensor>, OpFault> {
    let lanes = lanes_along(ctx, x, axis)?;
    let size = x.shape()[axis];
    let k = ctx.size("the number of elements to find", k)?;
    if k > size {
        return Err(OpFault::Limit {
            what: "elements along the axis",
            given: k as u64,
            limit: size as u64,
        });
    }
    let mut shape = lanes.shape().to_vec();
    shape[x.rank() - 1] = k;
    let mut values = Tensor::zeros(x.dtype(), &shape)?;
    let mut indices = Tensor::zeros(DType::I64, &shape)?;
    if !values.is_empty() {
        match_dtype!(x.dtype(), T => {
            let values = values.as_mut_slice::<T>()?.chunks_exact_mut(k);
            let indices = indices.as_mut_slice::<i64>()?.chunks_exact_mut(k);
            for ((lane, values), indices) in lanes.as_slice::<T>()?.chunks_exact(size).zip(values).zip(indices) {
                let mut order = ctx.interrupt().collect(size, 0..size)?;
                ctx.interrupt().sort(&mut order, |&left, &right| rank_order(lane[left], lane[right], extremum))?;
                for ((&from, value), index) in order.iter().zip(values).zip(indices) {
                    *value = lane[from];
                    *index = from as i64;
                }
            }
        });
    }
    Ok(vec![
        from_lanes(&values, axis)?,
        from_lanes(&indices, axis)?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::evaluate_op;
    use crate::ops::testing::{TestSizes, tensor};
    use kiln_ir::Op;

    fn run(x: &Tensor, k: i64, axis: usize, extremum: Extremum) -> Result<Vec<Tensor>, OpFault> {
        let mut sizes = TestSizes::new();
        let op = Op::TopK {
            k: sizes.dims(&[k])[0],
            axis,
            extremum,
        };
        evaluate_op(&sizes.ctx(), &op, std::slice::from_ref(x))
    }

    #[test]
    fn equal_elements_keep_their_order_and_nan_is_first() {
        let x = tensor(&[6], &[1.0f32, 3.0, f32::NAN, 3.0, -1.0, f32::INFINITY]);
        let largest = run(&x, 4, 0, Extremum::Max).unwrap();
        assert_eq!(largest[1].to_vec::<i64>().unwrap(), [2, 5, 1, 3]);
        assert_eq!(
            largest[0].to_vec::<f32>().unwrap()[1..],
            [f32::INFINITY, 3.0, 3.0]
        );
        let smallest = run(&x, 3, 0, Extremum::Min).unwrap();
        assert_eq!(smallest[1].to_vec::<i64>().unwrap(), [2, 4, 0]);
    }

    #[test]
    fn top_k_works_along_any_axis() {
        let x = tensor(&[3, 2], &[1i32, 6, 5, 2, 3, 4]);
        let results = run(&x, 2, 0, Extremum::Max).unwrap();
        assert_eq!(results[0].shape(), [2, 2]);
        assert_eq!(results[0].to_vec::<i32>().unwrap(), [5, 6, 3, 4]);
        assert_eq!(results[1].to_vec::<i64>().unwrap(), [1, 0, 2, 2]);
    }

    #[test]
    fn top_k_of_none_all_and_too_many_elements() {
        let x = tensor(&[2], &[1u8, 2]);
        assert_eq!(run(&x, 0, 0, Extremum::Max).unwrap()[0].shape(), [0]);
        assert_eq!(
            run(&x, 2, 0, Extremum::Min).unwrap()[0]
                .to_vec::<u8>()
                .unwrap(),
            [1, 2]
        );
        assert_eq!(run(&x, 3, 0, Extremum::Max).unwrap_err().code(), "E0825");
        assert_eq!(run(&x, -1, 0, Extremum::Max).unwrap_err().code(), "E0823");
        assert_eq!(
            run(&tensor::<i8>(&[0, 3], &[]), 2, 1, Extremum::Max).unwrap()[1].shape(),
            [0, 2]
        );
    }
}
