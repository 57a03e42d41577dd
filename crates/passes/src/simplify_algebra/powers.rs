//! Powers with a constant exponent.

use super::identities::map;
use super::sign::is_positive;
use crate::constants::Splat;
use crate::peephole::{Rewrite, Site};
use kiln_ir::{Op, ValueId};
use kiln_scalar::Function;
use kiln_tensor::DType;

/// `pow(x, 2)` is `square(x)`, `pow(x, -1)` is `reciprocal(x)`; `pow(x, 0.5)` and `pow(x, -0.5)` are
/// `sqrt(x)` and `rsqrt(x)` where no element of `x` is below zero or -0.0. So are `pow(x, 0.75)`, `pow(x, 0.25)` and
/// `pow(x, 1.5)` products of roots, in dtypes in which their rounding is small.
pub(super) fn expand_power(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Map { function, .. }, &[base, exponent]) = (site.op(), site.operands()) else {
        return None;
    };
    if function.name() != "pow" || site.like_result(base).is_none() {
        return None;
    }
    let exponent = site.splat(exponent)?;
    let is_float = site.ty().dtype.is_float();
    if exponent.is_number(2) {
        map("square", [base])
    } else if is_float && exponent.is_number(-1) {
        map("reciprocal", [base])
    } else if exponent.is_float(0.5) && is_positive(site, base) {
        map("sqrt", [base])
    } else if exponent.is_float(-0.5) && is_positive(site, base) {
        map("rsqrt", [base])
    } else if matches!(site.ty().dtype, DType::F32 | DType::F64) {
        product_of_roots(site, base, exponent)
    } else {
        None
    }
}

/// A power of one or three quarters, or of three halves, of elements that are +0.0 or more.
fn product_of_roots(site: &mut Site<'_>, base: ValueId, exponent: Splat) -> Option<Rewrite> {
    let quarters = [0.25, 0.75, 1.5]
        .into_iter()
        .find(|&power| exponent.is_float(power))?;
    if !is_positive(site, base) {
        return None;
    }
    let ty = site.ty().clone();
    let sqrt = Function::by_name("sqrt")?;
    let root = site.emit(Op::map(sqrt), [base], ty);
    match quarters {
        0.25 => map("sqrt", [root]),
        0.75 => {
            let ty = site.ty().clone();
            let fourth = site.emit(Op::map(sqrt), [root], ty);
            map("mul", [root, fourth])
        }
        _ => map("mul", [base, root]),
    }
}
