//! Arithmetic on one known float: sizes that exporters scale and round in floating point.
//!
//! A ratio represents a float as long as every intermediate number is exact in its dtype. Sums and products stay exact
//! while the denominator is a power of two; a quotient by another number is rounded once, which does not affect floor
//! and ceil while numerator and denominator are below half of the dtype's exact range. The numbers that have to be
//! exact are collected in [`Ratio::exact`], and checked where the float becomes an integer again.

use super::integers::at_most;
use crate::context::InferenceContext;
use crate::known::{Element, Ratio};
use crate::node::OpView;
use kiln_symbolic_shape::{DimId, DimTable, Predicate, Proof};
use kiln_tensor::DType;
use smallvec::{SmallVec, smallvec};

/// The maximum number of significant bits of a constant, to leave room for the sizes that it scales.
const FACTOR_LIMIT: i64 = 1 << 12;
/// Denominators stay below this.
const DENOMINATOR_LIMIT: i64 = 1 << 24;

/// A constant float, if it is a quotient of small integers.
pub(super) fn of_float(dims: &mut DimTable, value: f64) -> Element {
    let mut denominator = 1_i64;
    let mut numerator = value;
    while numerator.fract() != 0.0 && denominator < DENOMINATOR_LIMIT {
        // Doubling is exact.
        numerator *= 2.0;
        denominator *= 2;
    }
    if numerator.fract() != 0.0
        || numerator.abs() > 2_f64.powi(53)
        || (numerator == 0.0 && value.is_sign_negative())
    {
        return Element::Unknown;
    }
    // Integral and below 2^53, so the conversion is exact.
    let numerator = dims.constant(numerator as i64);
    Element::Ratio(Ratio {
        numerator,
        denominator,
        exact: SmallVec::new(),
    })
}

/// An integer as a float.
pub(super) fn of_integer(dim: DimId) -> Ratio {
    Ratio {
        numerator: dim,
        denominator: 1,
        exact: smallvec![dim],
    }
}

/// The result of the function `name`; `None` if it is not known.
pub(super) fn apply(
    ctx: &mut InferenceContext<'_>,
    name: &str,
    arguments: &[Ratio],
) -> Option<Ratio> {
    let dims = ctx.dims_mut();
    match arguments {
        [a] => {
            let divisor = dims.constant(a.denominator);
            let numerator = match name {
                "floor" => dims.floor_div(a.numerator, divisor).ok()?,
                "ceil" => dims.ceil_div(a.numerator, divisor).ok()?,
                "round_even" | "trunc" if a.denominator == 1 => a.numerator,
                _ => return None,
            };
            Some(Ratio {
                numerator,
                denominator: 1,
                exact: a.exact.clone(),
            })
        }
        [a, b] if a.is_dyadic() && b.is_dyadic() => {
            let exact: SmallVec<[DimId; 2]> = a.exact.iter().chain(&b.exact).copied().collect();
            match name {
                "add" | "sub" | "min" | "max" => {
                    let denominator = a.denominator.max(b.denominator);
                    let (a, b) = (scaled(dims, a, denominator)?, scaled(dims, b, denominator)?);
                    let numerator = match name {
                        "add" => dims.add(a, b),
                        "sub" => dims.sub(a, b),
                        "min" => dims.min(a, b),
                        _ => dims.max(a, b),
                    };
                    Some(Ratio::reduced(dims, numerator.ok()?, denominator, exact))
                }
                "mul" => {
                    let small = |ratio: &Ratio| {
                        dims.as_constant(ratio.numerator)
                            .is_none_or(|n| n.unsigned_abs() <= FACTOR_LIMIT.unsigned_abs())
                    };
                    if !small(a) || !small(b) {
                        return None;
                    }
                    let denominator = a.denominator.checked_mul(b.denominator)?;
                    let numerator = dims.mul(a.numerator, b.numerator).ok()?;
                    (denominator <= DENOMINATOR_LIMIT)
                        .then(|| Ratio::reduced(dims, numerator, denominator, exact))
                }
                "div" => quotient(dims, a, b, exact),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The float in a different dtype.
pub(super) fn cast(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    ratio: Ratio,
    from: DType,
    to: DType,
) -> Option<Ratio> {
    if !ratio.is_dyadic() {
        return None;
    }
    discharge(ctx, node, &ratio, from)?;
    Some(Ratio {
        exact: if exact_bits(to) < exact_bits(from) {
            smallvec![ratio.numerator]
        } else {
            ratio.exact
        },
        ..ratio
    })
}

/// The float rounded towards zero, for floats that are not negative.
pub(super) fn truncated(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    ratio: Ratio,
    from: DType,
) -> Option<DimId> {
    discharge(ctx, node, &ratio, from)?;
    if ratio.denominator == 1 {
        return Some(ratio.numerator);
    }
    let divisor = ctx.dims_mut().constant(ratio.denominator);
    if !ctx.is_non_negative(ratio.numerator) {
        return None;
    }
    ctx.dims_mut().floor_div(ratio.numerator, divisor).ok()
}

/// `a / b` for a constant `b`.
fn quotient(
    dims: &mut DimTable,
    a: &Ratio,
    b: &Ratio,
    mut exact: SmallVec<[DimId; 2]>,
) -> Option<Ratio> {
    let divisor = dims
        .as_constant(b.numerator)
        .filter(|divisor| (1..=FACTOR_LIMIT).contains(divisor))?;
    let factor = dims.constant(b.denominator);
    let numerator = dims.mul(a.numerator, factor).ok()?;
    let denominator = a
        .denominator
        .checked_mul(divisor)
        .filter(|&denominator| denominator <= DENOMINATOR_LIMIT)?;
    if !(divisor as u64).is_power_of_two() {
        // Rounded: twice the numerator and denominator have to be exact.
        let two = dims.constant(2);
        exact.push(dims.mul(numerator, two).ok()?);
        exact.push(dims.constant(denominator.checked_mul(2)?));
        return Some(Ratio {
            numerator,
            denominator,
            exact,
        });
    }
    Some(Ratio::reduced(dims, numerator, denominator, exact))
}

impl Ratio {
    /// A ratio that has not been rounded: sums and products of such ratios are exact.
    fn is_dyadic(&self) -> bool {
        (self.denominator as u64).is_power_of_two()
    }

    /// The ratio, reduced if possible, with its numerator added to `exact`.
    fn reduced(
        dims: &mut DimTable,
        numerator: DimId,
        denominator: i64,
        mut exact: SmallVec<[DimId; 2]>,
    ) -> Self {
        let (mut numerator, mut denominator) = (numerator, denominator);
        while denominator > 1
            && dims.prove(&Predicate::Divides {
                divisor: 2,
                dim: numerator,
            }) == Proof::Proved
        {
            let two = dims.constant(2);
            let Ok(half) = dims.floor_div(numerator, two) else {
                break;
            };
            (numerator, denominator) = (half, denominator / 2);
        }
        exact.push(numerator);
        Self {
            numerator,
            denominator,
            exact,
        }
    }
}

/// The numerator over a larger denominator, both powers of two.
fn scaled(dims: &mut DimTable, ratio: &Ratio, denominator: i64) -> Option<DimId> {
    let factor = dims.constant(denominator / ratio.denominator);
    dims.mul(ratio.numerator, factor).ok()
}

/// Ensures that everything in `exact` is exact: proved, or made a contract fact.
fn discharge(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
    ratio: &Ratio,
    dtype: DType,
) -> Option<()> {
    let largest = 1_i64 << exact_bits(dtype);
    let (low, high) = (
        ctx.dims_mut().constant(-largest),
        ctx.dims_mut().constant(largest),
    );
    // Two bytes hold too few sizes for a fact to be reasonable.
    let may_require = exact_bits(dtype) >= 24;
    for &dim in &ratio.exact {
        let above = ctx.prove(&Predicate::LessEqual(low, dim)) == Proof::Proved;
        if !above || !at_most(ctx, node, dim, high, may_require) {
            return None;
        }
    }
    Some(())
}

/// Integers up to two to this power are exact.
fn exact_bits(dtype: DType) -> u32 {
    match dtype {
        DType::F64 => 53,
        DType::F32 => 24,
        DType::F16 => 11,
        _ => 8,
    }
}
