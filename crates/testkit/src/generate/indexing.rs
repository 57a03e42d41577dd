//! Gathers and scatters, with indices that are in bounds unless an axis is empty.

use super::Stop;
use super::scope::{Scope, Step};
use kiln_ir::{Combine, Dims, ValueId};
use kiln_symbolic_shape::DimId;
use kiln_tensor::{DType, Tensor};

pub(super) fn gather(scope: &mut Scope<'_, '_>) -> Step {
    let x = scope.any()?;
    let axis = scope.axis(x)?;
    let rank = scope.builder.rank(x)?;
    let bound = scope.builder.shape(x)?[axis];
    let shape = scope.random_shape(5_usize.saturating_sub(rank).min(2))?;
    let indices = indices(scope, &shape, bound)?;
    let y = scope.builder.gather(x, indices, axis)?;
    scope.keep(y);
    Ok(())
}

pub(super) fn gather_elements(scope: &mut Scope<'_, '_>) -> Step {
    let x = scope.any()?;
    let axis = scope.axis(x)?;
    let dims = scope.builder.shape(x)?;
    let shape = shape_within(scope, &dims, axis)?;
    let indices = indices(scope, &shape, dims[axis])?;
    let y = scope.builder.gather_elements(x, indices, axis)?;
    scope.keep(y);
    Ok(())
}

pub(super) fn gather_nd(scope: &mut Scope<'_, '_>) -> Step {
    let x = scope.any()?;
    let dims = scope.builder.shape(x)?;
    let batch_axes = scope.between(0, dims.len().saturating_sub(1).min(1))?;
    let depth = scope.between(0, dims.len() - batch_axes)?;
    let mut outer: Dims = dims[..batch_axes].into();
    outer.push(scope.size()?);
    let indices = addresses(scope, &outer, &dims[batch_axes..batch_axes + depth])?;
    let y = scope.builder.gather_nd(x, indices, batch_axes)?;
    scope.keep(y);
    Ok(())
}

pub(super) fn scatter_elements(scope: &mut Scope<'_, '_>) -> Step {
    let x = scope.number()?;
    let axis = scope.axis(x)?;
    let (dtype, dims) = (scope.builder.dtype(x)?, scope.builder.shape(x)?);
    let shape = shape_within(scope, &dims, axis)?;
    let indices = indices(scope, &shape, dims[axis])?;
    let updates = scope.of_type(dtype, &shape)?;
    let combine = combine(scope)?;
    let y = scope
        .builder
        .scatter_elements(x, indices, updates, axis, combine)?;
    scope.keep(y);
    Ok(())
}

pub(super) fn scatter_nd(scope: &mut Scope<'_, '_>) -> Step {
    let x = scope.number()?;
    let (dtype, dims) = (scope.builder.dtype(x)?, scope.builder.shape(x)?);
    let depth = scope.between(0, dims.len())?;
    let outer = [scope.size()?];
    let indices = addresses(scope, &outer, &dims[..depth])?;
    let updates_dims: Dims = outer.iter().chain(&dims[depth..]).copied().collect();
    let updates = scope.of_type(dtype, &updates_dims)?;
    let combine = combine(scope)?;
    let y = scope.builder.scatter_nd(x, indices, updates, combine)?;
    scope.keep(y);
    Ok(())
}

pub(super) fn update_slice(scope: &mut Scope<'_, '_>) -> Step {
    let x = scope.number()?;
    let (dtype, dims) = (scope.builder.dtype(x)?, scope.builder.shape(x)?);
    let first = scope.between(0, dims.len())?;
    let axes: Vec<usize> = (first..dims.len().min(first + 2)).collect();
    let mut part: Dims = dims.as_slice().into();
    let mut starts = Vec::with_capacity(axes.len());
    for &axis in &axes {
        let length = scope.between(0, 3)? as i64;
        let length = scope.builder.size(length);
        let table = scope.builder.dims_mut();
        let length = table.min(dims[axis], length).map_err(|_| Stop::NoOperand)?;
        let last = table.sub(dims[axis], length).map_err(|_| Stop::NoOperand)?;
        part[axis] = length;
        // Any integer, clamped to the bounds.
        let raw = scope.of_type(DType::I64, &[])?;
        let last = scope.builder.dims_tensor(&[last])?;
        let last = scope.builder.reshape(last, &[])?;
        let zero = scope.scalar(DType::I64, 0.0)?;
        let raised = scope.builder.max(raw, zero)?;
        starts.push(scope.builder.min(raised, last)?);
    }
    let at = match starts.is_empty() {
        true => {
            let zero = scope.builder.size(0);
            scope.fresh(DType::I64, &[zero])?
        }
        false => scope.builder.stack(&starts, 0)?,
    };
    let update = scope.of_type(dtype, &part)?;
    let y = scope.builder.update_slice(x, at, update, &axes)?;
    scope.keep(y);
    Ok(())
}

fn combine(scope: &mut Scope<'_, '_>) -> Result<Combine, Stop> {
    scope.pick(Combine::ALL)
}

/// Sizes of indices that replace a tensor of sizes `dims`: arbitrary along `axis`, and not larger on other axes.
fn shape_within(scope: &mut Scope<'_, '_>, dims: &[DimId], axis: usize) -> Result<Dims, Stop> {
    let mut shape: Dims = dims.into();
    shape[axis] = scope.size()?;
    if scope.one_in(3)? {
        let other = scope.between(0, dims.len() - 1)?;
        let one = scope.builder.size(1);
        let smaller = scope.builder.dims_mut().min(dims[other], one);
        shape[other] = smaller.map_err(|_| Stop::NoOperand)?;
    }
    Ok(shape)
}

/// Integers of sizes `shape` in `[-bound, bound)`.
fn indices(scope: &mut Scope<'_, '_>, shape: &[DimId], bound: DimId) -> Result<ValueId, Stop> {
    let dtype = scope.pick(&[DType::I64, DType::I32])?;
    let dims = scope.builder.dims();
    let known: Option<Vec<i64>> = shape.iter().map(|&dim| dims.as_constant(dim)).collect();
    if let (Some(shape), Some(bound @ 1..)) = (known, dims.as_constant(bound))
        && shape.iter().product::<i64>() <= 256
        && !scope.one_in(3)?
    {
        let count = shape.iter().product::<i64>();
        let elements: Vec<i64> = (0..count)
            .map(|_| Ok(scope.choices.int_in_range(-bound..=bound - 1)?))
            .collect::<Result<_, Stop>>()?;
        let shape: Vec<usize> = shape.iter().map(|&size| size as usize).collect();
        let tensor = Tensor::from_slice(&shape, &elements).map_err(|_| Stop::NoOperand)?;
        let constant = scope.builder.constant(tensor)?;
        return Ok(scope.builder.cast(constant, dtype)?);
    }
    // Any integers, clamped to the bounds: the sizes pass through data in between.
    let raw = scope.of_type(dtype, shape)?;
    let bound = scope.builder.dims_tensor(&[bound])?;
    let bound = scope.builder.cast(bound, dtype)?;
    let bound = scope.builder.reshape(bound, &[])?;
    let one = scope.scalar(dtype, 1.0)?;
    let (low, high) = (scope.builder.neg(bound)?, scope.builder.sub(bound, one)?);
    let raised = scope.builder.max(raw, low)?;
    Ok(scope.builder.min(raised, high)?)
}

/// Integers of sizes `outer` and one more axis: an index into each of `bounds`.
fn addresses(
    scope: &mut Scope<'_, '_>,
    outer: &[DimId],
    bounds: &[DimId],
) -> Result<ValueId, Stop> {
    if bounds.is_empty() {
        let zero = scope.builder.size(0);
        let dims: Dims = outer.iter().copied().chain([zero]).collect();
        return scope.fresh(DType::I64, &dims);
    }
    let mut columns = Vec::with_capacity(bounds.len());
    for &bound in bounds {
        let column = indices(scope, outer, bound)?;
        columns.push(scope.builder.cast(column, DType::I64)?);
    }
    Ok(scope.builder.stack(&columns, outer.len())?)
}
