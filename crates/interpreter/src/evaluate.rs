//! One op on tensors: the entry that constant folding shares with the interpreter.
//!
//! Every op except control flow and `bind`, which need the surrounding graph. Each family of ops has a file under `ops`;
//! all of them get an [`EvaluateContext`].

use crate::element::Number;
use crate::fault::{OpFault, OperandDescription};
use crate::interrupt::Interrupt;
use crate::ops;
use crate::options::CustomOps;
use kiln_ir::{Dims, Op};
use kiln_scalar::{Mode, ScalarValue};
use kiln_symbolic_shape::{Binding, DimId, DimTable};
use kiln_tensor::{DType, Tensor, match_dtype};
use smallvec::SmallVec;
use std::cell::Cell;

/// The sizes of a tensor.
pub(crate) type Shape = SmallVec<[usize; 6]>;

/// The context of an op: the values of sizes, and the rounding mode.
#[derive(Clone, Copy)]
pub struct EvaluateContext<'a> {
    dims: &'a DimTable,
    binding: &'a Binding,
    mode: Mode,
    custom_ops: Option<&'a CustomOps>,
    operand_name: Option<&'a dyn Fn(usize) -> String>,
    cancelled: Option<&'a dyn Fn() -> bool>,
    interrupt: Interrupt<'a>,
}

impl<'a> EvaluateContext<'a> {
    /// Sizes of `dims` valued by `binding`, with rounding to the declared dtypes.
    pub fn new(dims: &'a DimTable, binding: &'a Binding) -> Self {
        Self {
            dims,
            binding,
            mode: Mode::Declared,
            custom_ops: None,
            operand_name: None,
            cancelled: None,
            interrupt: Interrupt::default(),
        }
    }

    /// With another mode. In [`Mode::Promoted`] operands are `f64` where the graph has floats.
    pub fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// With custom ops.
    pub fn with_custom_ops(self, custom_ops: Option<&'a CustomOps>) -> Self {
        Self { custom_ops, ..self }
    }

    /// With a callback that is called after every few ten thousand elements: whether to stop, with [`OpFault::Stopped`].
    pub fn with_cancelled(self, cancelled: Option<&'a dyn Fn() -> bool>) -> Self {
        Self { cancelled, ..self }
    }

    /// Announces work on `elements` elements; a fault if the caller wants to stop.
    #[inline]
    pub(crate) fn work(&self, elements: usize) -> Result<(), OpFault> {
        self.interrupt.work(elements)
    }

    /// Counts an op's work and calls the stop callback.
    pub(crate) fn interrupt(&self) -> Interrupt<'a> {
        self.interrupt
    }

    /// The tensor itself, or an aligned, row-major copy of it.
    pub(crate) fn dense(&self, tensor: &Tensor) -> Result<Tensor, OpFault> {
        self.interrupt.dense(tensor)
    }

    /// With a way to name operands in messages.
    pub(crate) fn with_operand_names(self, operand_name: &'a dyn Fn(usize) -> String) -> Self {
        Self {
            operand_name: Some(operand_name),
            ..self
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// The dtype that values of a declared dtype have in this mode.
    pub(crate) fn dtype(&self, declared: DType) -> DType {
        self.mode.stored(declared)
    }

    /// The value of a size that may be any integer.
    pub(crate) fn integer(&self, dim: DimId) -> Result<i64, OpFault> {
        Ok(self.dims.evaluate(dim, self.binding)?)
    }

    /// The value of a size.
    pub(crate) fn size(&self, what: &'static str, dim: DimId) -> Result<usize, OpFault> {
        let value = self.integer(dim)?;
        usize::try_from(value).map_err(|_| OpFault::Negative {
            what,
            value: value.into(),
        })
    }

    /// The values of sizes.
    pub(crate) fn sizes(&self, what: &'static str, dims: &Dims) -> Result<Shape, OpFault> {
        dims.iter().map(|&dim| self.size(what, dim)).collect()
    }

    /// An operand for a message.
    pub(crate) fn describe(&self, index: usize, tensor: &Tensor) -> Box<OperandDescription> {
        let name = self
            .operand_name
            .map_or_else(|| format!("operand {index}"), |name| name(index));
        Box::new(OperandDescription::new(name, tensor))
    }
}

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
    let ctx = &EvaluateContext {
        interrupt: Interrupt::new(ctx.cancelled, &done),
        ..*ctx
    };
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
        Op::Constant(constant) => promote(ctx, constant.tensor())?,
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
        Op::Resize(resize) => ops::resize::resize(ctx, one(0)?, resize)?,
        Op::NonZero => return ops::non_zero::non_zero(ctx, one(0)?),
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

/// A tensor as this mode has it: floats widened in [`Mode::Promoted`].
pub(crate) fn promote(ctx: &EvaluateContext<'_>, tensor: &Tensor) -> Result<Tensor, OpFault> {
    convert(ctx.interrupt, tensor, ctx.dtype(tensor.dtype()))
}

/// A float tensor in another float dtype, each element rounded once; any other tensor unchanged.
pub(crate) fn convert(
    interrupt: Interrupt<'_>,
    tensor: &Tensor,
    to: DType,
) -> Result<Tensor, OpFault> {
    if tensor.dtype() == to || !tensor.dtype().is_float() || !to.is_float() {
        return Ok(tensor.clone());
    }
    let wide = widened_floats(interrupt, tensor)?;
    match to {
        DType::F64 => Ok(Tensor::from_vec(tensor.shape(), wide)?),
        DType::F32 => narrowed::<f32>(interrupt, tensor.shape(), &wide),
        DType::F16 => narrowed::<kiln_tensor::f16>(interrupt, tensor.shape(), &wide),
        _ => narrowed::<kiln_tensor::bf16>(interrupt, tensor.shape(), &wide),
    }
}

/// The elements of a tensor of floats; of other dtypes, their number, `true` being 1.
pub(crate) fn widened_floats(
    interrupt: Interrupt<'_>,
    tensor: &Tensor,
) -> Result<Vec<f64>, OpFault> {
    let tensor = interrupt.dense(tensor)?;
    match_dtype!(tensor.dtype(), T => {
        let elements = tensor.as_slice::<T>()?;
        interrupt.collect(elements.len(), elements.iter().map(|&x| ScalarValue::from(x).to_f64()))
    })
}

fn narrowed<T: Number<Wide = f64>>(
    interrupt: Interrupt<'_>,
    shape: &[usize],
    wide: &[f64],
) -> Result<Tensor, OpFault> {
    let mut result = Tensor::zeros(T::DTYPE, shape)?;
    interrupt.narrow(result.as_mut_slice::<T>()?, wide)?;
    Ok(result)
}

fn custom(
    ctx: &EvaluateContext<'_>,
    name: &str,
    arguments: &str,
    operands: &[Tensor],
) -> Result<Vec<Tensor>, OpFault> {
    let op = ctx.custom_ops.and_then(|ops| ops.get(name));
    let op = op.ok_or_else(|| OpFault::UnknownCustomOp {
        name: name.to_owned(),
    })?;
    op.evaluate(arguments, operands)
        .map_err(|message| OpFault::CustomOp {
            name: name.to_owned(),
            message,
        })
}
