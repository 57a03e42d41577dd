//! Reductions, running reductions, and composites of them.

use super::Stop;
use super::scope::{Scope, Step};
use kiln_ir::{CumulateFunction, Extremum, Op, ReduceFunction};
use kiln_tensor::DType;

pub(super) fn reduce(scope: &mut Scope<'_, '_>) -> Step {
    let x = scope.any()?;
    let (dtype, rank) = (scope.builder.dtype(x)?, scope.builder.rank(x)?);
    let functions: &[ReduceFunction] = match dtype {
        DType::Bool => &[ReduceFunction::Any, ReduceFunction::All],
        dtype if dtype.is_float() && scope.options.smooth => &[
            ReduceFunction::Sum,
            ReduceFunction::Mean,
            ReduceFunction::Max,
            ReduceFunction::Min,
        ],
        dtype if dtype.is_float() => &[
            ReduceFunction::Sum,
            ReduceFunction::Mean,
            ReduceFunction::Max,
            ReduceFunction::Min,
            ReduceFunction::Product,
        ],
        _ => &[
            ReduceFunction::Sum,
            ReduceFunction::Product,
            ReduceFunction::Max,
            ReduceFunction::Min,
        ],
    };
    let function = scope.pick(functions)?;
    let mut axes = Vec::new();
    for axis in 0..rank {
        if scope.one_in(2)? {
            axes.push(axis);
        }
    }
    let keep_dims = scope.one_in(2)?;
    let y = scope.builder.reduce(x, function, &axes, keep_dims)?;
    scope.keep(y);
    Ok(())
}

pub(super) fn arg_reduce(scope: &mut Scope<'_, '_>) -> Step {
    if scope.options.smooth {
        return Err(Stop::NoOperand);
    }
    let x = scope.number()?;
    let axis = scope.axis(x)?;
    let op = Op::ArgReduce {
        extremum: scope.pick(Extremum::ALL)?,
        axis,
        keep_dims: scope.one_in(2)?,
        last: scope.one_in(3)?,
    };
    let y = scope.builder.op1(op, &[x])?;
    scope.keep(y);
    Ok(())
}

pub(super) fn cumulate(scope: &mut Scope<'_, '_>) -> Step {
    let x = scope.number()?;
    let axis = scope.axis(x)?;
    let function = if scope.options.smooth {
        CumulateFunction::Sum
    } else {
        scope.pick(CumulateFunction::ALL)?
    };
    let (exclusive, reverse) = (scope.one_in(3)?, scope.one_in(3)?);
    let op = Op::Cumulate {
        function,
        axis,
        exclusive,
        reverse,
    };
    let y = scope.builder.op1(op, &[x])?;
    scope.keep(y);
    Ok(())
}

pub(super) fn top_k(scope: &mut Scope<'_, '_>) -> Step {
    if scope.options.smooth {
        return Err(Stop::NoOperand);
    }
    let x = scope.number()?;
    let axis = scope.axis(x)?;
    let size = scope.builder.shape(x)?[axis];
    let wanted = scope.size()?;
    let k = scope.builder.dims_mut().min(size, wanted);
    let k = k.map_err(|_| Stop::NoOperand)?;
    let extremum = scope.pick(Extremum::ALL)?;
    let (values, indices) = scope.builder.top_k(x, k, axis, extremum)?;
    scope.keep(indices);
    scope.keep(values);
    Ok(())
}

pub(super) fn normalize(scope: &mut Scope<'_, '_>) -> Step {
    let x = scope.find(|ty| ty.dtype.is_float() && ty.rank() >= 1)?;
    let axis = scope.axis(x)?;
    let kind = scope.between(0, 3)?;
    let y = match kind {
        0 => scope.builder.log_softmax(x, axis)?,
        1 => scope.builder.l2_normalize(x, &[axis], 1e-3)?,
        _ => scope.builder.softmax(x, axis)?,
    };
    scope.keep(y);
    Ok(())
}
