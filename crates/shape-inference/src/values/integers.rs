//! Arithmetic on one known integer or bool, as `scalar` defines it.
//!
//! Integers of a dtype wrap, sizes do not: a result counts as known only if it is shown to fit the dtype. For dtypes of 32
//! bits or more, which no real size exceeds, the upper bound may become a contract fact instead.

use crate::context::InferenceContext;
use crate::node::OpView;
use kiln_symbolic_shape::{DimId, Predicate, Proof};
use kiln_tensor::DType;

/// The result of the function `name` on operands of `dtype`; `None` if it is not known.
pub(super) fn apply(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    dtype: DType,
    name: &str,
    arguments: &[DimId],
) -> Option<DimId> {
    let result = match *arguments {
        [a] => unary(ctx, name, a)?,
        [a, b] => return binary(ctx, node, dtype, name, a, b),
        [x, low, high] if name == "clip" => {
            let raised = ctx.dims_mut().max(x, low).ok()?;
            ctx.dims_mut().min(raised, high).ok()?
        }
        _ => return None,
    };
    if dtype == DType::Bool {
        Some(result)
    } else {
        fitted(ctx, node, dtype, result)
    }
}

/// The integer in `dtype`: itself, if it fits.
pub(super) fn fitted(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    dtype: DType,
    dim: DimId,
) -> Option<DimId> {
    let (low, high) = match dtype {
        DType::I64 => return Some(dim),
        DType::U64 => (0, None),
        DType::I32 => (i64::from(i32::MIN), Some(i64::from(i32::MAX))),
        DType::U32 => (0, Some(i64::from(u32::MAX))),
        DType::I16 => (i64::from(i16::MIN), Some(i64::from(i16::MAX))),
        DType::U16 => (0, Some(i64::from(u16::MAX))),
        DType::I8 => (i64::from(i8::MIN), Some(i64::from(i8::MAX))),
        DType::U8 => (0, Some(i64::from(u8::MAX))),
        _ => return None,
    };
    let low = ctx.dims_mut().constant(low);
    if ctx.prove(&Predicate::LessEqual(low, dim)) != Proof::Proved {
        return None;
    }
    let Some(high) = high else { return Some(dim) };
    let high = ctx.dims_mut().constant(high);
    at_most(ctx, node, dim, high, dtype.bits() >= 32).then_some(dim)
}

/// Whether `dim <= high` is proved, or could be and was made a contract fact.
pub(super) fn at_most(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    dim: DimId,
    high: DimId,
    may_require: bool,
) -> bool {
    let predicate = Predicate::LessEqual(dim, high);
    match ctx.prove(&predicate) {
        Proof::Proved => true,
        Proof::Disproved => false,
        Proof::Unknown if ctx.is_nested() || !may_require => false,
        Proof::Unknown => ctx
            .require(node, predicate, "exact size arithmetic")
            .unwrap_or(false),
    }
}

/// Whether an integer is not 0, as a bool.
pub(super) fn truth(ctx: &mut InferenceContext<'_>, dim: DimId) -> Option<DimId> {
    let zero = ctx.dims_mut().constant(0);
    decided(ctx, &Predicate::NotEqual(dim, zero))
}

fn unary(ctx: &mut InferenceContext<'_>, name: &str, a: DimId) -> Option<DimId> {
    let zero = ctx.dims_mut().constant(0);
    match name {
        "neg" => ctx.dims_mut().neg(a).ok(),
        "abs" if ctx.is_non_negative(a) => Some(a),
        "abs" => {
            let negated = ctx.dims_mut().neg(a).ok()?;
            ctx.dims_mut().max(a, negated).ok()
        }
        "relu" => ctx.dims_mut().max(a, zero).ok(),
        "square" => ctx.dims_mut().mul(a, a).ok(),
        "not" => decided(ctx, &Predicate::Equal(a, zero)),
        "sign" => {
            let one = ctx.dims_mut().constant(1);
            let minus_one = ctx.dims_mut().constant(-1);
            let bounded = ctx.dims_mut().min(a, one).ok()?;
            ctx.dims_mut().max(bounded, minus_one).ok()
        }
        _ => None,
    }
}

fn binary(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    dtype: DType,
    name: &str,
    a: DimId,
    b: DimId,
) -> Option<DimId> {
    let comparison = match name {
        "eq" => Some(Predicate::Equal(a, b)),
        "ne" | "xor" => Some(Predicate::NotEqual(a, b)),
        "lt" => Some(Predicate::Less(a, b)),
        "le" => Some(Predicate::LessEqual(a, b)),
        "gt" => Some(Predicate::Less(b, a)),
        "ge" => Some(Predicate::LessEqual(b, a)),
        _ => None,
    };
    if let Some(predicate) = comparison {
        return decided(ctx, &predicate);
    }
    let result = match name {
        "add" => ctx.dims_mut().add(a, b),
        "sub" => ctx.dims_mut().sub(a, b),
        "mul" => ctx.dims_mut().mul(a, b),
        "min" => ctx.dims_mut().min(a, b),
        "max" => ctx.dims_mut().max(a, b),
        // Bools are 0 or 1, so these are minimum and maximum.
        "and" => return ctx.dims_mut().min(a, b).ok(),
        "or" => return ctx.dims_mut().max(a, b).ok(),
        "floor_div" if is_positive(ctx, b) => ctx.dims_mut().floor_div(a, b),
        "floor_mod" if is_positive(ctx, b) => ctx.dims_mut().modulo(a, b),
        "div" => {
            return truncated_quotient(ctx, a, b).and_then(|dim| fitted(ctx, node, dtype, dim));
        }
        "rem" if ctx.is_non_negative(a) && is_positive(ctx, b) => ctx.dims_mut().modulo(a, b),
        "pow" => return power(ctx, a, b).and_then(|dim| fitted(ctx, node, dtype, dim)),
        _ => return None,
    };
    fitted(ctx, node, dtype, result.ok()?)
}

/// `a / b` rounded towards zero, as `div` of integers: floored where neither is negative.
fn truncated_quotient(ctx: &mut InferenceContext<'_>, a: DimId, b: DimId) -> Option<DimId> {
    if let (Some(a), Some(b)) = (ctx.dims().as_constant(a), ctx.dims().as_constant(b)) {
        return a
            .checked_div(b)
            .map(|quotient| ctx.dims_mut().constant(quotient));
    }
    if ctx.is_non_negative(a) && is_positive(ctx, b) {
        return ctx.dims_mut().floor_div(a, b).ok();
    }
    None
}

/// `a` to a small constant power.
fn power(ctx: &mut InferenceContext<'_>, a: DimId, b: DimId) -> Option<DimId> {
    let exponent = ctx
        .dims()
        .as_constant(b)
        .filter(|exponent| (0..=8).contains(exponent))?;
    let factors = vec![a; usize::try_from(exponent).ok()?];
    ctx.dims_mut().product(&factors).ok()
}

fn is_positive(ctx: &InferenceContext<'_>, dim: DimId) -> bool {
    ctx.dims().range(dim).min.is_some_and(|min| min >= 1)
}

/// A proved predicate as a bool.
fn decided(ctx: &mut InferenceContext<'_>, predicate: &Predicate) -> Option<DimId> {
    match ctx.prove(predicate) {
        Proof::Proved => Some(ctx.dims_mut().constant(1)),
        Proof::Disproved => Some(ctx.dims_mut().constant(0)),
        Proof::Unknown => None,
    }
}
