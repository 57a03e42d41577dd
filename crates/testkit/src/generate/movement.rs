//! Data movement: reshapes that keep the number of elements for every size, slices, borders.

use super::Stop;
use super::scope::{Scope, Step};
use kiln_ir::{Dims, PadMode};

pub(super) fn reshape(scope: &mut Scope<'_, '_>) -> Step {
    let x = scope.any()?;
    let mut dims: Dims = scope.builder.shape(x)?;
    let rank = dims.len();
    let one = scope.builder.size(1);
    let kind = scope.between(0, 4)?;
    match kind {
        // Merges two axes.
        0 | 1 if rank >= 2 => {
            let axis = scope.between(0, rank - 2)?;
            let merged = scope.builder.dims_mut().mul(dims[axis], dims[axis + 1]);
            dims[axis] = merged.map_err(|_| Stop::NoOperand)?;
            dims.remove(axis + 1);
        }
        // Splits one axis, if its size has a divisor.
        2 if rank >= 1 => {
            let axis = scope.between(0, rank - 1)?;
            let divisor = scope.pick(&[2_i64, 3, 4])?;
            let divisor = scope.builder.size(divisor);
            let quotient = scope.builder.dims_mut().exact_quotient(dims[axis], divisor);
            dims[axis] = quotient.ok_or(Stop::NoOperand)?;
            dims.insert(axis + 1, divisor);
        }
        // Merges all axes but the first; the size is inferred.
        3 if rank >= 2 => {
            let y = scope.builder.reshape_inferring(x, &[Some(dims[0]), None])?;
            scope.keep(y);
            return Ok(());
        }
        // Adds or removes an axis of size 1.
        _ => match dims.iter().position(|&dim| dim == one) {
            Some(axis) if scope.one_in(2)? => {
                dims.remove(axis);
            }
            _ if rank < 5 => {
                let axis = scope.between(0, rank)?;
                dims.insert(axis, one);
            }
            _ => return Err(Stop::NoOperand),
        },
    }
    let y = scope.builder.reshape(x, &dims)?;
    scope.keep(y);
    Ok(())
}

pub(super) fn broadcast(scope: &mut Scope<'_, '_>) -> Step {
    let x = scope.any()?;
    let mut dims: Dims = scope.builder.shape(x)?;
    if dims.len() > 3 {
        return Err(Stop::NoOperand);
    }
    let one = scope.builder.size(1);
    let size = scope.size()?;
    let kind = scope.between(0, 2)?;
    let y = match dims.iter().position(|&dim| dim == one) {
        Some(axis) if kind == 0 => {
            dims[axis] = size;
            scope.builder.broadcast_to(x, &dims)?
        }
        _ if kind == 1 => scope.builder.expand(x, &[size])?,
        _ => {
            dims.insert(0, size);
            scope.builder.broadcast_to(x, &dims)?
        }
    };
    scope.keep(y);
    Ok(())
}

pub(super) fn transpose(scope: &mut Scope<'_, '_>) -> Step {
    let x = scope.any()?;
    let rank = scope.builder.rank(x)?;
    let mut permutation: Vec<usize> = (0..rank).collect();
    for axis in (1..rank).rev() {
        let other = scope.between(0, axis)?;
        permutation.swap(axis, other);
    }
    let y = scope.builder.transpose(x, &permutation)?;
    scope.keep(y);
    Ok(())
}

pub(super) fn slice(scope: &mut Scope<'_, '_>) -> Step {
    let x = scope.any()?;
    let axis = scope.axis(x)?;
    let size = scope.builder.shape(x)?[axis];
    let kind = scope.between(0, 4)?;
    let y = match kind {
        0 => scope.builder.reverse(x, axis)?,
        1 => {
            // The first few elements, or fewer if there are not as many.
            let wanted = scope.size()?;
            let count = scope.builder.dims_mut().min(size, wanted);
            let zero = scope.builder.size(0);
            let count = count.map_err(|_| Stop::NoOperand)?;
            scope.builder.slice_axis(x, axis, zero, count)?
        }
        2 => {
            // Two halves, concatenated in reverse order.
            let two = scope.builder.size(2);
            let dims = scope.builder.dims_mut();
            let half = dims.floor_div(size, two).map_err(|_| Stop::NoOperand)?;
            let rest = dims.sub(size, half).map_err(|_| Stop::NoOperand)?;
            let parts = scope.builder.split(x, axis, &[half, rest])?;
            let swapped: Vec<_> = parts.into_iter().rev().collect();
            scope.builder.concat(&swapped, axis)?
        }
        _ => {
            let start = scope.pick(&[0_i64, 1, 2, -1, -3, i64::from(i32::MAX)])?;
            let end = scope.pick(&[i64::from(i32::MAX), -1, 1, 3, i64::from(i32::MIN)])?;
            let step = scope.pick(&[1_i64, 2, 3, -1, -2])?;
            let (start, end) = (scope.builder.size(start), scope.builder.size(end));
            scope.builder.slice_range(x, axis, start, end, step)?
        }
    };
    scope.keep(y);
    Ok(())
}

pub(super) fn pad(scope: &mut Scope<'_, '_>) -> Step {
    let x = scope.any()?;
    let (dtype, rank) = (scope.builder.dtype(x)?, scope.builder.rank(x)?);
    let mode = scope.pick(PadMode::ALL)?;
    let value = scope.fresh(dtype, &[])?;
    // Borders built from the operand need one that is large enough: 0 and 1 are safe.
    let most = if mode == PadMode::Constant { 3 } else { 1 };
    let mut border = || -> Result<Dims, Stop> {
        (0..rank)
            .map(|_| {
                let count = scope.between(0, most)?;
                Ok(scope.builder.size(count as i64))
            })
            .collect()
    };
    let (low, high) = (border()?, border()?);
    let y = scope.builder.pad(x, value, &low, &high, mode)?;
    scope.keep(y);
    Ok(())
}

pub(super) fn concat(scope: &mut Scope<'_, '_>) -> Step {
    let x = scope.any()?;
    let axis = scope.axis(x)?;
    let (dtype, mut dims) = (scope.builder.dtype(x)?, scope.builder.shape(x)?);
    let mut operands = vec![x];
    for _ in 0..scope.between(1, 2)? {
        if scope.one_in(2)? {
            dims[axis] = scope.size()?;
        }
        operands.push(scope.of_type(dtype, &dims)?);
    }
    let place = scope.between(0, operands.len() - 1)?;
    operands.swap(0, place);
    let y = scope.builder.concat(&operands, axis)?;
    scope.keep(y);
    Ok(())
}
