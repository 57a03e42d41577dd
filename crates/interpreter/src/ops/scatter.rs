//! Scatters: writes at computed positions. Updates are applied in row-major order of the indices, so that the last of
//! several updates to one element wins.
//!
//! A combining scatter accumulates like a reduction: wide, and rounded once at the end.

use super::gather::{Address, element_offsets};
use crate::context::EvaluateContext;
use crate::element::{Accumulator, Number};
use crate::fault::OpFault;
use kiln_ir::Combine;
use kiln_tensor::{Tensor, match_dtype};

/// `x, indices, updates: like indices -> like x`.
pub(crate) fn scatter_elements(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    indices: &Tensor,
    updates: &Tensor,
    axis: usize,
    combine: Combine,
) -> Result<Tensor, OpFault> {
    check_updates(ctx, x, indices, updates, indices.shape())?;
    if updates.is_empty() {
        return Ok(x.clone());
    }
    let offsets = element_offsets(ctx, x, indices, axis)?;
    scatter(ctx, x, updates, &offsets, 1, combine)
}

/// `x, indices: [i.., k], updates: [i.., rest of x] -> like x`.
pub(crate) fn scatter_nd(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    indices: &Tensor,
    updates: &Tensor,
    combine: Combine,
) -> Result<Tensor, OpFault> {
    let address = Address::new(ctx, x, indices, 0)?;
    let depth = indices.shape().last().copied().unwrap_or(0);
    let outer = indices.shape().iter().take(indices.rank() - 1);
    let expected: Vec<usize> = outer.chain(x.shape().iter().skip(depth)).copied().collect();
    check_updates(ctx, x, indices, updates, &expected)?;
    if updates.is_empty() {
        return Ok(x.clone());
    }
    let starts = address.starts(ctx, x, indices)?;
    scatter(ctx, x, updates, &starts, address.inner, combine)
}

/// Combines blocks of `inner` updates with the blocks of `x` that start at `starts`.
fn scatter(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    updates: &Tensor,
    starts: &[usize],
    inner: usize,
    combine: Combine,
) -> Result<Tensor, OpFault> {
    let updates = ctx.dense(updates)?;
    match_dtype!(x.dtype(), T => {
        let updates = updates.as_slice::<T>()?;
        let blocks = starts.iter().zip(updates.chunks_exact(inner));
        let mut result = ctx.interrupt().copied(x)?;
        let elements = result.as_mut_slice::<T>()?;
        let join = match combine {
            Combine::Set => {
                for (&start, block) in blocks {
                    ctx.work(1)?;
                    ctx.interrupt().copy(&mut elements[start..start + inner], block)?;
                }
                return Ok(result);
            }
            Combine::Add => Accumulator::plus,
            Combine::Mul => Accumulator::times,
            Combine::Min => Accumulator::smaller,
            Combine::Max => Accumulator::larger,
        };
        let widened = elements.iter().map(|&element| element.to_wide());
        let mut wide = ctx.interrupt().collect(elements.len(), widened)?;
        for (&start, block) in blocks {
            for (element, &update) in wide[start..start + inner].iter_mut().zip(block) {
                ctx.work(1)?;
                *element = join(*element, update.to_wide());
            }
        }
        ctx.interrupt().narrow::<T>(elements, &wide)?;
        Ok(result)
    })
}

fn check_updates(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    indices: &Tensor,
    updates: &Tensor,
    expected: &[usize],
) -> Result<(), OpFault> {
    if x.dtype() != updates.dtype() || updates.rank() != expected.len() {
        let (x, updates) = (ctx.describe(0, x), ctx.describe(2, updates));
        return Err(OpFault::malformed(format!(
            "{updates} cannot be scattered into {x}"
        )));
    }
    match expected
        .iter()
        .zip(updates.shape())
        .find(|(expected, found)| expected != found)
    {
        None => Ok(()),
        Some((&left_size, &right_size)) => Err(OpFault::SizeMismatch {
            what: "axes of the indexed block and the updates",
            left: ctx.describe(1, indices),
            left_size,
            right: ctx.describe(2, updates),
            right_size,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{TestSizes, counting, tensor};
    use kiln_ir::Op;
    use kiln_tensor::{DType, Element, f16};

    fn run(op: Op, x: &Tensor, indices: &Tensor, updates: &Tensor) -> Result<Tensor, OpFault> {
        TestSizes::new().run(&op, &[x.clone(), indices.clone(), updates.clone()])
    }

    /// Two updates of one element, and one of another.
    fn twice<T: Element>(combine: Combine, x: &[T], updates: [T; 3]) -> Vec<T> {
        let op = Op::ScatterElements { combine, axis: 0 };
        let result = run(
            op,
            &tensor(&[x.len()], x),
            &tensor(&[3], &[0i64, -1, 0]),
            &tensor(&[3], &updates),
        )
        .unwrap();
        result.to_vec().unwrap()
    }

    #[test]
    fn scatter_combines_with_each_function() {
        let (x, updates) = ([10.0f32, 20.0], [3.0, 30.0, 4.0]);
        assert_eq!(twice(Combine::Set, &x, updates), [4.0, 30.0]);
        assert_eq!(twice(Combine::Add, &x, updates), [17.0, 50.0]);
        assert_eq!(twice(Combine::Mul, &x, updates), [120.0, 600.0]);
        assert_eq!(twice(Combine::Min, &x, updates), [3.0, 20.0]);
        assert_eq!(twice(Combine::Max, &x, updates), [10.0, 30.0]);
    }

    #[test]
    fn scatter_combines_nan_overflow_bool_and_f16() {
        let nan = twice(Combine::Max, &[1.0f32, f32::NAN], [f32::NAN, 1.0, 2.0]);
        assert!(nan.iter().all(|x| x.is_nan()));
        assert_eq!(twice(Combine::Add, &[200u8, 1], [100, 1, 0]), [44, 2]);
        assert_eq!(
            twice(Combine::Add, &[false, false], [true, false, false]),
            [true, false]
        );
        // Accumulated wide: 2048 + 1 + 1 in f16.
        let one = f16::ONE;
        assert_eq!(
            twice(Combine::Add, &[f16::from_f32(2048.0), one], [one; 3])[0],
            f16::from_f32(2050.0)
        );
    }

    #[test]
    fn scatter_nd_writes_blocks() {
        let x = counting(&[3, 2]).transpose(&[1, 0]).unwrap();
        let op = Op::ScatterNd {
            combine: Combine::Set,
        };
        let updates = tensor(&[1, 3], &[7.0f32, 8.0, 9.0]);
        let result = run(op.clone(), &x, &tensor(&[1, 1], &[-1i32]), &updates).unwrap();
        assert_eq!(
            result.to_vec::<f32>().unwrap(),
            [0.0, 2.0, 4.0, 7.0, 8.0, 9.0]
        );
        assert_eq!(x.to_vec::<f32>().unwrap()[3..], [1.0, 3.0, 5.0]);
        let points = run(
            op.clone(),
            &x,
            &tensor(&[2, 2], &[0i64, 1, 1, 2]),
            &tensor(&[2], &[-1.0f32, -2.0]),
        )
        .unwrap();
        assert_eq!(
            points.to_vec::<f32>().unwrap(),
            [0.0, -1.0, 4.0, 1.0, 3.0, -2.0]
        );
        let whole = run(
            op,
            &Tensor::scalar(1.0f32),
            &tensor::<i64>(&[2, 0], &[]),
            &tensor(&[2], &[5.0f32, 6.0]),
        )
        .unwrap();
        assert_eq!(whole.item::<f32>().unwrap(), 6.0);
    }

    #[test]
    fn scatter_without_updates_changes_and_checks_nothing() {
        let x = counting(&[2, 2]);
        let none = Tensor::zeros(DType::F32, &[0, 2]).unwrap();
        let indices = tensor::<i64>(&[0, 1], &[]);
        assert!(
            run(
                Op::ScatterNd {
                    combine: Combine::Add
                },
                &x,
                &indices,
                &none
            )
            .unwrap()
            .bit_equal(&x)
        );
        let op = Op::ScatterElements {
            combine: Combine::Add,
            axis: 0,
        };
        assert!(
            run(op, &x, &tensor::<i64>(&[0, 2], &[]), &none)
                .unwrap()
                .bit_equal(&x)
        );
    }

    #[test]
    fn scatter_refuses_mismatched_operands() {
        let x = counting(&[2, 2]);
        let index = tensor(&[1, 1], &[0i64]);
        for (updates, code) in [
            (counting(&[1, 3]), "E0821"),
            (counting(&[2]), "E0829"),
            (tensor(&[1, 2], &[1i32, 2]), "E0829"),
        ] {
            let fault = run(
                Op::ScatterNd {
                    combine: Combine::Set,
                },
                &x,
                &index,
                &updates,
            )
            .unwrap_err();
            assert_eq!(fault.code(), code, "{fault}");
        }
        let far = tensor(&[1, 1], &[2i64]);
        let op = Op::ScatterElements {
            combine: Combine::Set,
            axis: 0,
        };
        assert_eq!(
            run(op.clone(), &x, &far, &counting(&[1, 1]))
                .unwrap_err()
                .code(),
            "E0822"
        );
        let wide = Tensor::zeros(DType::I64, &[1, 3]).unwrap();
        assert_eq!(
            run(op, &x, &wide, &counting(&[1, 3])).unwrap_err().code(),
            "E0821"
        );
    }
}
