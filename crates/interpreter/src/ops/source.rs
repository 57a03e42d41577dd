//! Ops that create tensors from sizes alone.

use crate::context::EvaluateContext;
use crate::element::Number;
use crate::fault::OpFault;
use kiln_ir::Dims;
use kiln_tensor::{DType, Tensor, match_dtype};

/// The index along `axis`, wrapping around in narrow integers, rounded in narrow floats.
pub(crate) fn iota(
    ctx: &EvaluateContext<'_>,
    dims: &Dims,
    axis: usize,
    dtype: DType,
) -> Result<Tensor, OpFault> {
    let shape = ctx.sizes("a size", dims)?;
    let Some(&size) = shape.get(axis) else {
        return Err(OpFault::malformed(format!(
            "axis {axis} of a tensor of rank {}",
            shape.len()
        )));
    };
    let mut line_shape = shape.clone();
    for (at, dim) in line_shape.iter_mut().enumerate() {
        *dim = if at == axis { size } else { 1 };
    }
    let mut line = Tensor::zeros(ctx.dtype(dtype), &line_shape)?;
    match_dtype!(line.dtype(), T => {
        for (index, element) in line.as_mut_slice::<T>()?.iter_mut().enumerate() {
            ctx.work(1)?;
            *element = T::of_index(index);
        }
    });
    Ok(line.broadcast_to(&shape)?)
}

/// Sizes as data.
pub(crate) fn dims(ctx: &EvaluateContext<'_>, sizes: &Dims) -> Result<Tensor, OpFault> {
    let values = sizes
        .iter()
        .map(|&dim| ctx.integer(dim))
        .collect::<Result<Vec<i64>, _>>()?;
    Ok(Tensor::from_vec(&[values.len()], values)?)
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::TestSizes;
    use kiln_ir::Op;
    use kiln_tensor::{DType, bf16};

    #[test]
    fn iota_counts_along_its_axis_in_any_dtype() {
        let mut sizes = TestSizes::new();
        let mut iota = |dims: &[i64], axis, dtype| Op::Iota {
            dims: sizes.dims(dims),
            axis,
            dtype,
        };
        let (rows, columns) = (iota(&[2, 3], 0, DType::I64), iota(&[2, 3], 1, DType::F32));
        let (bytes, brains) = (iota(&[258], 0, DType::U8), iota(&[258], 0, DType::BF16));
        let (empty, wrong) = (iota(&[0, 3], 1, DType::I32), iota(&[2], 1, DType::I32));
        assert_eq!(sizes.values::<i64>(&rows, &[]).1, [0, 0, 0, 1, 1, 1]);
        assert_eq!(
            sizes.values::<f32>(&columns, &[]).1,
            [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]
        );
        assert_eq!(sizes.values::<u8>(&bytes, &[]).1[255..], [255, 0, 1]);
        assert_eq!(
            sizes.values::<bf16>(&brains, &[]).1[257],
            bf16::from_f32(256.0)
        );
        assert_eq!(sizes.values::<i32>(&empty, &[]).0, [0, 3]);
        assert_eq!(sizes.run(&wrong, &[]).unwrap_err().code(), "E0829");
    }

    #[test]
    fn sizes_become_data() {
        let mut sizes = TestSizes::new();
        let op = Op::Dims {
            sizes: sizes.dims(&[3, -1, i64::MAX]),
        };
        assert_eq!(sizes.values::<i64>(&op, &[]).1, [3, -1, i64::MAX]);
    }
}
