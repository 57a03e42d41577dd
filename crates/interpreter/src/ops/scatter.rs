//! Writing at computed positions. Updates are applied in row-major order of the indices, so that
//! where two set one element the last wins.
//!
//! A combining scatter accumulates as reductions do: wide, and rounded once at the end.

use super::gather::{Address, element_offsets};
use crate::buffer::{collect, dense};
use crate::element::{Accumulator, Number};
use crate::evaluate::EvaluateContext;
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
    scatter(x, updates, &offsets, 1, combine)
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
    let starts = address.starts(x, indices)?;
    scatter(x, updates, &starts, address.inner, combine)
}

/// Joins blocks of `inner` updates to the blocks of `x` that start at `starts`.
fn scatter(
    x: &Tensor,
    updates: &Tensor,
    starts: &[usize],
    inner: usize,
    combine: Combine,
) -> Result<Tensor, OpFault> {
    let updates = dense(updates)?;
    match_dtype!(x.dtype(), T => {
        let updates = updates.as_slice::<T>()?;
        let blocks = starts.iter().zip(updates.chunks_exact(inner));
        let mut result = x.copied()?;
        let elements = result.as_mut_slice::<T>()?;
        let join = match combine {
            Combine::Set => {
                for (&start, block) in blocks {
                    elements[start..start + inner].copy_from_slice(block);
                }
                return Ok(result);
            }
            Combine::Add => Accumulator::plus,
            Combine::Mul => Accumulator::times,
            Combine::Min => Accumulator::smaller,
            Combine::Max => Accumulator::larger,
        };
        let mut wide = collect(elements.len(), elements.iter().map(|&element| element.widen()))?;
        for (&start, block) in blocks {
            for (element, &update) in wide[start..start + inner].iter_mut().zip(block) {
                *element = join(*element, update.widen());
            }
        }
        for (element, wide) in elements.iter_mut().zip(wide) {
            *element = <T as Number>::narrow(wide);
        }
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
