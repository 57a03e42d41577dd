//! Convolutions.

use kiln_ir::{Dims, Op, PadMode, ReduceFunction, ValueId, Window};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::support::{Imported, one, operator};
use super::window::{Moves, Padding, groups, spatial_sizes};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Conv", &[1], conv),
    operator("ConvInteger", &[10], conv_integer),
    operator("ConvTranspose", &[1], conv_transpose),
];

fn conv(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, weights) = (ctx.input(0)?, ctx.input(1)?);
    let out = ctx.dtype(x)?;
    let y = convolve(ctx, x, weights, out)?;
    one(add_bias(ctx, y)?)
}

/// `x` with `weights`, by the node's attributes.
pub(super) fn convolve(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    weights: ValueId,
    out: DType,
) -> Result<ValueId, Error> {
    let window = window(ctx, weights)?;
    convolve_window(ctx, [x, weights], window, out)
}

/// The window that the node's attributes describe.
fn window(ctx: &mut NodeContext<'_>, weights: ValueId) -> Result<Window, Error> {
    let sizes = spatial_sizes(ctx, 0)?;
    let kernel = kernel_sizes(ctx, weights)?;
    let moves = Moves::read(ctx, sizes.len())?;
    moves.window(ctx, &sizes, &kernel)
}

fn convolve_window(
    ctx: &mut NodeContext<'_>,
    operands: [ValueId; 2],
    window: Window,
    out: DType,
) -> Result<ValueId, Error> {
    let groups = groups(ctx)?;
    let operands = factors(ctx, operands, out)?;
    ctx.op(
        Op::Conv {
            window,
            groups,
            out,
        },
        &operands,
    )
}

/// The convolution of integers minus their zero points (one of `x`; one, or one per feature, of the weights), in i32.
///
/// 8-bit integers are multiplied without conversion, with borders of the zero point, and the zero point times the sum
/// of each feature's weights, which is often a constant, is subtracted. All of that is exact, modulo 2^32.
pub(super) fn integer_convolution(
    ctx: &mut NodeContext<'_>,
    [x, weights]: [ValueId; 2],
    (x_zero, w_zero): (Option<ValueId>, Option<ValueId>),
) -> Result<ValueId, Error> {
    let weights = centred(ctx, weights, w_zero, 0)?;
    let is_narrow = matches!(ctx.dtype(x)?, DType::I8 | DType::U8);
    let Some(zero) = x_zero.filter(|_| is_narrow) else {
        let x = centred(ctx, x, x_zero, 0)?;
        return convolve(ctx, x, weights, DType::I32);
    };
    let zero = ctx.as_scalar(zero)?;
    let window = window(ctx, weights)?;
    let none = ctx.size(0);
    let around = |borders: &Dims| -> Dims { [none, none].iter().chain(borders).copied().collect() };
    let (low, high) = (around(&window.low), around(&window.high));
    let padded = match low.iter().chain(&high).all(|&border| border == none) {
        true => x,
        false => ctx.build(|builder| builder.pad(x, zero, &low, &high, PadMode::Constant))?,
    };
    let (low, high) = (
        window.low.iter().map(|_| none).collect(),
        window.high.iter().map(|_| none).collect(),
    );
    let window = Window {
        low,
        high,
        ..window
    };
    let sums = convolve_window(ctx, [padded, weights], window, DType::I32)?;

    let (wide, zero) = (ctx.cast(weights, DType::I32)?, ctx.cast(zero, DType::I32)?);
    let of_feature: Vec<usize> = (1..ctx.rank(weights)?).collect();
    let of_feature = ctx.reduce(ReduceFunction::Sum, wide, &of_feature, false)?;
    let excess = ctx.mul(of_feature, zero)?;
    let excess = along_axis(ctx, excess, 1, sums)?;
    ctx.sub(sums, excess)
}

/// Operands whose products are summed in a dtype: both have it, or both are narrower integers.
pub(super) fn factors(
    ctx: &mut NodeContext<'_>,
    operands: [ValueId; 2],
    out: DType,
) -> Result<[ValueId; 2], Error> {
    let [left, right] = operands;
    let is_wide = ctx.dtype(left)? == out || ctx.dtype(right)? == out;
    match is_wide && out.is_integer() {
        true => Ok([ctx.cast(left, out)?, ctx.cast(right, out)?]),
        false => Ok(operands),
    }
}

fn kernel_sizes(ctx: &NodeContext<'_>, weights: ValueId) -> Result<Vec<DimId>, Error> {
    match ctx.shape(weights)?.get(2..) {
        Some(kernel) => Ok(kernel.to_vec()),
        None => {
            let found = ctx.builder().describe(weights);
            Err(ctx.operand_error(1, "weights of rank 2 or more", found))
        }
    }
}

fn add_bias(ctx: &mut NodeContext<'_>, y: ValueId) -> Result<ValueId, Error> {
    match ctx.optional(2) {
        Some(bias) => ctx.build(|builder| builder.add_channel_bias(y, bias)),
        None => Ok(y),
    }
}

/// Integers minus their zero points, in i32.
fn conv_integer(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, weights) = (ctx.input(0)?, ctx.input(1)?);
    let zero_points = (ctx.optional(2), ctx.optional(3));
    one(integer_convolution(ctx, [x, weights], zero_points)?)
}

/// Integers minus a zero point (one, or one per entry of `axis`): exact, in twice as many bits. 8-bit integers without
/// a zero point are unchanged; products of up to 16 bits are summed in i32.
pub(super) fn centred(
    ctx: &mut NodeContext<'_>,
    value: ValueId,
    zero_point: Option<ValueId>,
    axis: usize,
) -> Result<ValueId, Error> {
    let is_narrow = matches!(ctx.dtype(value)?, DType::I8 | DType::U8);
    let between = match (is_narrow, zero_point) {
        (true, None) => return Ok(value),
        (true, Some(_)) => DType::I16,
        (false, _) => DType::I32,
    };
    let wide = ctx.cast(value, between)?;
    let Some(zero_point) = zero_point else {
        return Ok(wide);
    };
    let zero_point = ctx.cast(zero_point, between)?;
    let zero_point = along_axis(ctx, zero_point, axis, value)?;
    ctx.sub(wide, zero_point)
}

/// A scalar, or a vector along `axis` of `like`.
pub(super) fn along_axis(
    ctx: &mut NodeContext<'_>,
    vector: ValueId,
    axis: usize,
    like: ValueId,
) -> Result<ValueId, Error> {
    let &[length] = ctx.shape(vector)?.as_slice() else {
        return Ok(vector);
    };
    if ctx.known(length) == Some(1) {
        return ctx.as_scalar(vector);
    }
    let mut dims = vec![ctx.size(1); ctx.rank(like)?];
    match dims.get_mut(axis) {
        Some(dim) => *dim = length,
        None => return Ok(vector),
    }
    ctx.reshape(vector, &dims)
}

fn conv_transpose(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, weights) = (ctx.input(0)?, ctx.input(1)?);
    let sizes = spatial_sizes(ctx, 0)?;
    let kernel = kernel_sizes(ctx, weights)?;
    let moves = Moves::read(ctx, sizes.len())?;
    let groups = groups(ctx)?;
    let extra = match ctx.attributes().get::<&[i64]>("output_padding")? {
        Some(extra) if extra.len() == sizes.len() => extra.to_vec(),
        Some(extra) => {
            let expected = format!("{} entries, one per spatial axis", sizes.len());
            return Err(ctx.attribute_error("output_padding", expected, extra.len()));
        }
        None => vec![0; sizes.len()],
    };
    let mut transposed = Transposed {
        window: Window {
            strides: moves.strides.clone(),
            dilations: moves.dilations.clone(),
            low: sizes.iter().map(|_| ctx.size(0)).collect(),
            high: sizes.iter().map(|_| ctx.size(0)).collect(),
        },
        output_padding: extra.iter().map(|&extra| ctx.size(extra)).collect(),
    };
    let wanted = ctx.attributes().get::<&[i64]>("output_shape")?;
    for (axis, (&size, &kernel)) in sizes.iter().zip(&kernel).enumerate() {
        match (&moves.padding, wanted) {
            (Padding::Explicit(low, high), None) => {
                transposed.window.low[axis] = ctx.size(low[axis]);
                transposed.window.high[axis] = ctx.size(high[axis]);
            }
            (padding, wanted) => {
                let upper = matches!(padding, Padding::Same { upper: true });
                let stride = moves.strides[axis];
                let target = match wanted {
                    // `output_shape` may also list batch and channels.
                    Some(shape) if shape.len() >= sizes.len() => {
                        let skipped = shape.len() - sizes.len();
                        ctx.size(shape[skipped + axis])
                    }
                    Some(shape) => {
                        let expected = format!("{} sizes", sizes.len());
                        return Err(ctx.attribute_error("output_shape", expected, shape.len()));
                    }
                    None => ctx.sizes(|table| {
                        let stride = table.constant(stride);
                        table.mul(size, stride)
                    })?,
                };
                transposed.aim(ctx, axis, (size, kernel), target, upper)?;
            }
        }
    }
    let Transposed {
        window,
        output_padding,
    } = transposed;
    let y =
        ctx.build(|builder| builder.conv_transpose(x, weights, window, &output_padding, groups))?;
    one(add_bias(ctx, y)?)
}

/// A transposed convolution's window and the padding of its result.
struct Transposed {
    window: Window,
    output_padding: Dims,
}

impl Transposed {
    /// Crops the full result to `target`, half at each end, the odd element after, if `upper`; a full result that is
    /// smaller is padded at its end.
    fn aim(
        &mut self,
        ctx: &mut NodeContext<'_>,
        axis: usize,
        (size, kernel): (DimId, DimId),
        target: DimId,
        upper: bool,
    ) -> Result<(), Error> {
        let (stride, dilation) = (self.window.strides[axis], self.window.dilations[axis]);
        let extra = self.output_padding[axis];
        // The excess: stride * (size - 1) + extra + dilation * (kernel - 1) + 1 - target.
        let (cut, padding) = ctx.sizes(|table| {
            let (stride, dilation) = (table.constant(stride), table.constant(dilation));
            let (zero, one) = (table.constant(0), table.constant(1));
            let steps = table.sub(size, one)?;
            let steps = table.mul(steps, stride)?;
            let reach = table.sub(kernel, one)?;
            let reach = table.mul(reach, dilation)?;
            let full = table.sum(&[steps, extra, reach, one])?;
            let surplus = table.sub(full, target)?;
            let cut = table.max(surplus, zero)?;
            let missing = table.sub(cut, surplus)?;
            Ok((cut, table.add(extra, missing)?))
        })?;
        self.output_padding[axis] = padding;
        let (less, more) = ctx.sizes(|table| {
            let two = table.constant(2);
            let less = table.floor_div(cut, two)?;
            Ok((less, table.sub(cut, less)?))
        })?;
        let (low, high) = if upper { (less, more) } else { (more, less) };
        (self.window.low[axis], self.window.high[axis]) = (low, high);
        Ok(())
    }
}
