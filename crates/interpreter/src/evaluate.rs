//! Evaluates one op on tensors: the entry point shared by constant folding and the interpreter.
//!
//! It supports every op except control flow and `bind`, which need the surrounding graph. Each family of ops has a file
//! under `ops`; all of them get an [`EvaluateContext`].

use crate::context::{EvaluateContext, promote};
use crate::fault::OpFault;
use crate::ops;
use kiln_ir::{Dims, Op};
use kiln_tensor::Tensor;
use std::cell::Cell;

/// Computes one op: its results for these operands.
///
/// The op is assumed to be verified; anything that the verifier would reject is an [`OpFault::Malformed`] here.
///
/// # Errors
/// A fault of the op itself (an index out of range, a division by zero), a size without a value, or a failed allocation.
/// Control flow and `bind` are rejected.
pub fn evaluate_op(
    ctx: &EvaluateContext<'_>,
    op: &Op,
    operands: &[Tensor],
) -> Result<Vec<Tensor>, OpFault> {
    let done = Cell::new(0);
    let ctx = &ctx.counted(&done);
    let one = |index: usize| {
        operands.get(index).ok_or_else(|| {
            let found = operands.len();
            OpFault::malformed(format!(
                "expected more than {index} operands of {}, found {found}",
                op.mnemonic()
            ))
        })
    };
    let result = match op {
        Op::Constant(constant) => promote(ctx, &constant.tensor())?,
        Op::Iota { dims, axis, dtype } => ops::source::iota(ctx, dims, *axis, *dtype)?,
        Op::Dims { sizes } => ops::source::dims(ctx, sizes)?,
        Op::RandomBits { dims } => ops::random::random_bits(ctx, one(0)?, dims)?,
        Op::Map {
            function,
            parameters,
        } => ops::elementwise::map(ctx, *function, parameters, operands)?,
        Op::Cast { to } => ops::elementwise::cast(ctx, one(0)?, *to)?,
        Op::Reshape { dims } => reshape(ctx, one(0)?, dims)?,
        Op::Broadcast { dims } => one(0)?.broadcast_to(&ctx.sizes("a size", dims)?)?,
        Op::Transpose { permutation } => one(0)?.transpose(permutation)?,
        Op::Slice {
            starts,
            sizes,
            steps,
        } => ops::movement::slice(ctx, one(0)?, starts, sizes, steps)?,
        Op::Pad { low, high, mode } => ops::pad::pad(ctx, one(0)?, one(1)?, low, high, *mode)?,
        Op::Concat { axis } => ops::movement::concat(ctx, operands, *axis)?,
        Op::Gather { axis } => ops::gather::gather(ctx, one(0)?, one(1)?, *axis)?,
        Op::GatherElements { axis } => ops::gather::gather_elements(ctx, one(0)?, one(1)?, *axis)?,
        Op::GatherNd { batch_axes } => ops::gather::gather_nd(ctx, one(0)?, one(1)?, *batch_axes)?,
        Op::ScatterElements { axis, combine } => {
            ops::scatter::scatter_elements(ctx, one(0)?, one(1)?, one(2)?, *axis, *combine)?
        }
        Op::ScatterNd { combine } => {
            ops::scatter::scatter_nd(ctx, one(0)?, one(1)?, one(2)?, *combine)?
        }
        Op::UpdateSlice { axes } => {
            ops::update_slice::update_slice(ctx, one(0)?, one(1)?, one(2)?, axes)?
        }
        Op::Matmul { out } => ops::matmul::matmul(ctx, one(0)?, one(1)?, *out)?,
        Op::Conv {
            window,
            groups,
            out,
        } => ops::conv::conv(ctx, one(0)?, one(1)?, window, *groups, *out)?,
        Op::ConvTranspose {
            window,
            output_padding,
            groups,
        } => ops::conv_transpose::conv_transpose(
            ctx,
            one(0)?,
            one(1)?,
            window,
            output_padding,
            *groups,
        )?,
        Op::Reduce {
            function,
            axes,
            keep_dims,
        } => ops::reduce::reduce(ctx, one(0)?, *function, axes, *keep_dims)?,
        Op::ArgReduce {
            extremum,
            axis,
            keep_dims,
            last,
        } => ops::arg_reduce::arg_reduce(ctx, one(0)?, *extremum, *axis, *keep_dims, *last)?,
        Op::Cumulate {
            function,
            axis,
            exclusive,
            reverse,
        } => ops::cumulate::cumulate(ctx, one(0)?, *function, *axis, *exclusive, *reverse)?,
        Op::Pool {
            function,
            size,
            window,
        } => ops::pool::pool(ctx, one(0)?, *function, size, window)?,
        Op::ArgPool { size, window } => ops::arg_pool::arg_pool(ctx, one(0)?, size, window)?,
        Op::Resize(resize) => ops::resize::resize(ctx, one(0)?, resize)?,
        Op::NonZero => return ops::non_zero::non_zero(ctx, one(0)?),
        Op::Suppress { k } => return ops::suppress::suppress(ctx, operands, *k),
        Op::TopK { k, axis, extremum } => {
            return ops::top_k::top_k(ctx, one(0)?, *k, *axis, *extremum);
        }
        Op::Custom { name, arguments } => return custom(ctx, name, arguments, operands),
        Op::Bind | Op::If | Op::Loop { .. } => {
            return Err(OpFault::malformed(format!(
                "{} cannot be computed on its own",
                op.mnemonic()
            )));
        }
    };
    Ok(vec![result])
}

/// A view where the strides allow it, otherwise a copy.
fn reshape(ctx: &EvaluateContext<'_>, x: &Tensor, dims: &Dims) -> Result<Tensor, OpFault> {
    let shape = ctx.sizes("a size", dims)?;
    // Too few or too many elements are rejected before anything is copied.
    let is_view = x.is_contiguous() || x.len() != shape.iter().product::<usize>();
    let x = if is_view { x.clone() } else { ctx.dense(x)? };
    Ok(x.reshape(&shape)?)
}

fn custom(
    ctx: &EvaluateContext<'_>,
    name: &str,
    arguments: &str,
    operands: &[Tensor],
) -> Result<Vec<Tensor>, OpFault> {
    let op = ctx.custom_ops().and_then(|ops| ops.get(name));
    let op = op.ok_or_else(|| OpFault::UnknownCustomOp {
        name: name.to_owned(),
    })?;
    op.evaluate(arguments, operands)
        .map_err(|message| OpFault::CustomOp {
            name: name.to_owned(),
            message,
        })
}
