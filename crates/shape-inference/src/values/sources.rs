//! Known elements of constants, iota and `dims`.

use super::grid::{small_sizes, tabulate};
use crate::context::InferenceContext;
use crate::known::{Element, KNOWN_LIMIT, KnownValue};
use kiln_ir::Type;
use kiln_symbolic_shape::DimId;
use kiln_tensor::{DType, Element as TensorElement, Tensor};

/// The maximum number of elements of a float constant that is treated as scales; larger ones are weights.
const FLOAT_LIMIT: usize = 16;

/// The elements of a constant.
pub(crate) fn of_constant(ctx: &mut InferenceContext<'_>, tensor: &Tensor) -> Option<KnownValue> {
    let limit = if tensor.dtype().is_float() {
        FLOAT_LIMIT
    } else {
        KNOWN_LIMIT
    };
    if tensor.len() > limit {
        return None;
    }
    let elements = match tensor.dtype() {
        DType::I64 => integers::<i64>(ctx, tensor, Some)?,
        DType::I32 => integers::<i32>(ctx, tensor, |value| Some(value.into()))?,
        DType::I16 => integers::<i16>(ctx, tensor, |value| Some(value.into()))?,
        DType::I8 => integers::<i8>(ctx, tensor, |value| Some(value.into()))?,
        DType::U64 => integers::<u64>(ctx, tensor, |value| i64::try_from(value).ok())?,
        DType::U32 => integers::<u32>(ctx, tensor, |value| Some(value.into()))?,
        DType::U16 => integers::<u16>(ctx, tensor, |value| Some(value.into()))?,
        DType::U8 => integers::<u8>(ctx, tensor, |value| Some(value.into()))?,
        DType::Bool => integers::<bool>(ctx, tensor, |value| Some(value.into()))?,
        DType::F64 => floats::<f64>(ctx, tensor, |value| value)?,
        DType::F32 => floats::<f32>(ctx, tensor, f64::from)?,
        _ => return None,
    };
    KnownValue::new(elements)
}

/// The elements of an iota.
pub(crate) fn of_iota(
    ctx: &mut InferenceContext<'_>,
    ty: &Type,
    axis: usize,
) -> Option<KnownValue> {
    let ty = ty.as_tensor().filter(|ty| ty.dtype.is_integer())?;
    let sizes = small_sizes(ctx, ty)?;
    // Narrow dtypes wrap; known elements do not.
    if ty.dtype.bits() < 16 {
        return None;
    }
    tabulate(&sizes, |position| {
        Element::Dim(ctx.dims_mut().constant(position[axis] as i64))
    })
}

/// The elements of `dims`.
pub(crate) fn of_sizes(sizes: &[DimId]) -> Option<KnownValue> {
    KnownValue::new(sizes.iter().map(|&dim| Element::Dim(dim)).collect())
}

fn integers<T: TensorElement>(
    ctx: &mut InferenceContext<'_>,
    tensor: &Tensor,
    widen: impl Fn(T) -> Option<i64>,
) -> Option<Vec<Element>> {
    let values = tensor.to_vec::<T>().ok()?;
    let element = |value| {
        widen(value).map_or(Element::Unknown, |value| {
            Element::Dim(ctx.dims_mut().constant(value))
        })
    };
    Some(values.into_iter().map(element).collect())
}

fn floats<T: TensorElement>(
    ctx: &mut InferenceContext<'_>,
    tensor: &Tensor,
    widen: impl Fn(T) -> f64,
) -> Option<Vec<Element>> {
    let values = tensor.to_vec::<T>().ok()?;
    Some(
        values
            .into_iter()
            .map(|value| super::ratios::of_float(ctx.dims_mut(), widen(value)))
            .collect(),
    )
}
