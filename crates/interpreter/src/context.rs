//! The context in which an op is computed, and the conversion of tensors for its mode.

use crate::element::Number;
use crate::fault::{OpFault, OperandDescription};
use crate::interrupt::Interrupt;
use crate::options::CustomOps;
use kiln_ir::Dims;
use kiln_scalar::{Mode, ScalarValue};
use kiln_symbolic_shape::{Binding, DimId, DimTable};
use kiln_tensor::{DType, Tensor, match_dtype};
use smallvec::SmallVec;
use std::cell::Cell;

/// The sizes of a tensor.
pub(crate) type Shape = SmallVec<[usize; 6]>;

/// The context in which an op is computed: the values of sizes, and how to round.
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
    /// A context with the sizes of `dims` evaluated by `binding`, rounding to dtypes.
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

    /// Sets the mode. In [`Mode::Promoted`], operands are `f64` where the graph has floats.
    pub fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Sets the custom ops.
    pub fn with_custom_ops(self, custom_ops: Option<&'a CustomOps>) -> Self {
        Self { custom_ops, ..self }
    }

    /// Sets a callback that is called after every few ten thousand elements, and returns whether to stop, with
    /// [`OpFault::Stopped`].
    pub fn with_cancelled(self, cancelled: Option<&'a dyn Fn() -> bool>) -> Self {
        Self { cancelled, ..self }
    }

    /// The same for one op, whose work is counted in `done`.
    pub(crate) fn counted(&self, done: &'a Cell<usize>) -> Self {
        Self {
            interrupt: Interrupt::new(self.cancelled, done),
            ..*self
        }
    }

    /// The registered custom ops.
    pub(crate) fn custom_ops(&self) -> Option<&'a CustomOps> {
        self.custom_ops
    }

    /// Announces work on `elements` elements; a fault if the caller wants to stop.
    #[inline]
    pub(crate) fn work(&self, elements: usize) -> Result<(), OpFault> {
        self.interrupt.work(elements)
    }

    /// The counter of an op's work, which calls the stop callback.
    pub(crate) fn interrupt(&self) -> Interrupt<'a> {
        self.interrupt
    }

    /// The tensor itself, or an aligned, row-major copy of it.
    pub(crate) fn dense(&self, tensor: &Tensor) -> Result<Tensor, OpFault> {
        self.interrupt.dense(tensor)
    }

    /// Sets how operands are named in messages.
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

/// A tensor in the representation of this mode: floats are widened in [`Mode::Promoted`].
pub(crate) fn promote(ctx: &EvaluateContext<'_>, tensor: &Tensor) -> Result<Tensor, OpFault> {
    convert(ctx.interrupt(), tensor, ctx.dtype(tensor.dtype()))
}

/// A float tensor converted to a different float dtype, each element rounded once; any other tensor is unchanged.
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
