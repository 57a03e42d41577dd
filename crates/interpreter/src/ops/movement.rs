//! Slices and concatenations. Reshapes, broadcasts and transposes are the tensor's own views.

use crate::context::EvaluateContext;
use crate::fault::OpFault;
use crate::interrupt::Interrupt;
use kiln_ir::{Dims, Integers};
use kiln_tensor::{AxisSlice, Tensor, TensorError};

/// `result[i..] = x[starts + steps * i]`, a view.
pub(crate) fn slice(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    starts: &Dims,
    sizes: &Dims,
    steps: &Integers,
) -> Result<Tensor, OpFault> {
    if [starts.len(), sizes.len(), steps.len()]
        .iter()
        .any(|&n| n != x.rank())
    {
        return Err(OpFault::malformed(format!(
            "expected a start, a size and a step for each of {} axes",
            x.rank()
        )));
    }
    let sizes = ctx.sizes("the size of a slice", sizes)?;
    let mut slices = Vec::with_capacity(x.rank());
    for (axis, (((&start, &len), &step), &size)) in starts
        .iter()
        .zip(&sizes)
        .zip(steps)
        .zip(x.shape())
        .enumerate()
    {
        let start = ctx.integer(start)?;
        // A start out of bounds is harmless as long as nothing is read from it.
        let start = if len == 0 {
            0
        } else {
            usize::try_from(start).map_err(|_| OpFault::Negative {
                what: "the start of a slice",
                value: start.into(),
            })?
        };
        let step = isize::try_from(step).map_err(|_| TensorError::SliceOutOfRange {
            axis,
            start,
            len,
            step: isize::MAX,
            size,
        })?;
        slices.push(AxisSlice {
            axis,
            start,
            len,
            step,
        });
    }
    Ok(x.slice(&slices)?)
}

/// Concatenates operands.
pub(crate) fn concat(
    ctx: &EvaluateContext<'_>,
    operands: &[Tensor],
    axis: usize,
) -> Result<Tensor, OpFault> {
    let sizes_elsewhere = |x: &Tensor| {
        let mut shape = x.shape().to_vec();
        if let Some(size) = shape.get_mut(axis) {
            *size = 0;
        }
        shape
    };
    if let Some((first, rest)) = operands.split_first() {
        for (index, operand) in rest.iter().enumerate() {
            let pairs = sizes_elsewhere(first)
                .into_iter()
                .zip(sizes_elsewhere(operand));
            if let Some((left_size, right_size)) =
                pairs.into_iter().find(|(left, right)| left != right)
            {
                return Err(OpFault::SizeMismatch {
                    what: "axes other than the concatenated one",
                    left: ctx.describe(0, first),
                    left_size,
                    right: ctx.describe(index + 1, operand),
                    right_size,
                });
            }
        }
    }
    join(ctx.interrupt(), operands, axis)
}

/// Tensors that can be concatenated.
pub(crate) fn join(
    interrupt: Interrupt<'_>,
    operands: &[Tensor],
    axis: usize,
) -> Result<Tensor, OpFault> {
    let operands: Vec<Tensor> = operands
        .iter()
        .map(|operand| interrupt.dense(operand))
        .collect::<Result<_, _>>()?;
    let mut stopped = Ok(());
    let joined = Tensor::concat_while(&operands.iter().collect::<Vec<_>>(), axis, &mut |bytes| {
        stopped = interrupt.work(bytes / 16);
        stopped.is_ok()
    })?;
    stopped.map(|()| joined)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{TestSizes, counting};
    use kiln_ir::Op;

    fn sliced(x: &Tensor, starts: &[i64], sizes: &[i64], steps: &[i64]) -> Result<Tensor, OpFault> {
        let mut table = TestSizes::new();
        let op = Op::Slice {
            starts: table.dims(starts),
            sizes: table.dims(sizes),
            steps: steps.into(),
        };
        table.run(&op, std::slice::from_ref(x))
    }

    #[test]
    fn slices_step_forward_and_backward() {
        let x = counting(&[6]);
        assert_eq!(
            sliced(&x, &[1], &[3], &[2])
                .unwrap()
                .to_vec::<f32>()
                .unwrap(),
            [1.0, 3.0, 5.0]
        );
        assert_eq!(
            sliced(&x, &[5], &[3], &[-2])
                .unwrap()
                .to_vec::<f32>()
                .unwrap(),
            [5.0, 3.0, 1.0]
        );
        assert!(sliced(&x, &[-7], &[0], &[1]).unwrap().is_empty());
        assert!(
            sliced(&x, &[i64::MAX], &[0], &[i64::MIN])
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn out_of_bounds_slices_are_faults() {
        let x = counting(&[3, 2]);
        for (starts, sizes, steps, code) in [
            ([0, 1], [3, 2], [1, 1], "E0345"),
            ([-1, 0], [1, 1], [1, 1], "E0823"),
            ([0, 0], [-1, 1], [1, 1], "E0823"),
            ([0, 0], [2, 1], [i64::MAX, 1], "E0345"),
            ([i64::MAX, 0], [1, 1], [1, 1], "E0345"),
        ] {
            assert_eq!(
                sliced(&x, &starts, &sizes, &steps).unwrap_err().code(),
                code,
                "{starts:?} {sizes:?} {steps:?}"
            );
        }
        assert_eq!(sliced(&x, &[0], &[1], &[1]).unwrap_err().code(), "E0829");
    }

    #[test]
    fn concat_errors_name_the_mismatched_operands() {
        let sizes = TestSizes::new();
        let (x, y) = (counting(&[2, 2]), counting(&[1, 2]));
        let joined = sizes
            .run(&Op::Concat { axis: 0 }, &[x.clone(), y.clone()])
            .unwrap();
        assert_eq!(
            joined.to_vec::<f32>().unwrap(),
            [0.0, 1.0, 2.0, 3.0, 0.0, 1.0]
        );
        let fault = sizes.run(&Op::Concat { axis: 1 }, &[x, y]).unwrap_err();
        assert_eq!(
            fault.to_string(),
            "expected axes other than the concatenated one of equal size, found 2 in operand 0 f32[2, 2] and 1 in operand 1 f32[1, 2]"
        );
        assert_eq!(
            sizes.run(&Op::Concat { axis: 0 }, &[]).unwrap_err().code(),
            "E0350"
        );
        let (x, y) = (counting(&[2]), counting(&[2, 2]));
        assert!(sizes.run(&Op::Concat { axis: 0 }, &[x, y]).is_err());
    }
}
