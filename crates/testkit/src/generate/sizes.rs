//! Sources of data, sizes as data, and data that become sizes.

use super::Stop;
use super::scope::{Scope, Step};
use kiln_ir::Op;
use kiln_tensor::DType;

/// A constant, a counter or an input, of any sizes.
pub(super) fn source(scope: &mut Scope<'_, '_>) -> Step {
    let dtype = scope.dtype()?;
    let dims = scope.random_shape(3)?;
    scope.fresh(dtype, &dims)?;
    Ok(())
}

/// The sizes of a tensor as data, possibly with some arithmetic, as in models' shape computations.
pub(super) fn dims(scope: &mut Scope<'_, '_>) -> Step {
    let x = scope.any()?;
    let rank = scope.builder.rank(x)?;
    let mut sizes = scope.builder.dims_of(x)?;
    if rank > 0 && scope.one_in(2)? {
        let axis = scope.between(0, rank - 1)?;
        let index = scope.scalar(DType::I64, axis as f64)?;
        let size = scope.builder.gather(sizes, index, 0)?;
        let two = scope.scalar(DType::I64, 2.0)?;
        let name = scope.pick(&["add", "mul", "div", "max"])?;
        let result = scope.builder.map(name, &[size, two])?;
        let one = scope.builder.size(1);
        sizes = scope.builder.reshape(result, &[one])?;
    }
    // Back to sizes, through the known elements.
    if scope.one_in(2)?
        && let bound = scope.builder.bind_sizes(sizes)?
        && let Some(&size) = bound.first()
    {
        let dtype = scope.dtype()?;
        scope.fresh(dtype, &[size])?;
    }
    scope.keep(sizes);
    Ok(())
}

/// A size from data: from 0 to 5.
pub(super) fn bind(scope: &mut Scope<'_, '_>) -> Step {
    let dtype = scope.pick(&[DType::I64, DType::I32])?;
    let raw = scope.of_type(dtype, &[])?;
    let (zero, five) = (scope.scalar(dtype, 0.0)?, scope.scalar(dtype, 5.0)?);
    let raised = scope.builder.max(raw, zero)?;
    let size = scope.builder.min(raised, five)?;
    for dim in scope.builder.bind_sizes(size)? {
        if scope.builder.dims().as_constant(dim).is_none() {
            scope.sizes.push(dim);
        }
        let dtype = scope.dtype()?;
        let value = scope.fresh(dtype, &[dim])?;
        scope.keep(value);
    }
    Ok(())
}

pub(super) fn non_zero(scope: &mut Scope<'_, '_>) -> Step {
    if scope.options.smooth {
        return Err(Stop::NoOperand);
    }
    let x = scope.any()?;
    let indices = scope.builder.non_zero(x)?;
    let count = scope.builder.shape(indices)?[1];
    if scope.builder.dims().as_constant(count).is_none() {
        scope.sizes.push(count);
    }
    scope.keep(indices);
    Ok(())
}

pub(super) fn random_bits(scope: &mut Scope<'_, '_>) -> Step {
    let two = scope.builder.size(2);
    let key = scope.of_type(DType::U64, &[two])?;
    let dims = scope.random_shape(3)?;
    let bits = scope.builder.op1(Op::RandomBits { dims }, &[key])?;
    scope.keep(bits);
    Ok(())
}
