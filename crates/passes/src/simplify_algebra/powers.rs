//! Powers with a constant exponent.

use super::identities::map;
use super::sign::is_positive;
use crate::peephole::{Rewrite, Site};
use kiln_ir::Op;

/// `pow(x, 2)` is `square(x)`, `pow(x, -1)` is `reciprocal(x)`; `pow(x, 0.5)` and `pow(x, -0.5)` are
/// `sqrt(x)` and `rsqrt(x)` where no element of `x` is below zero or -0.0.
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
    } else {
        None
    }
}
