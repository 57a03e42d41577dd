//! Combining scatters use a dtype in which combining updates one by one equals combining all of them and rounding once, as
//! scatters do. So a kernel may combine them in memory.

use crate::peephole::{Rewrite, Site};
use kiln_ir::{Combine, Op};
use kiln_tensor::DType;

/// Rewrites a combining scatter of narrow floats or bools to one of wide floats or bytes.
pub(super) fn widen_scatter(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::ScatterElements { combine, .. } | Op::ScatterNd { combine }) = site.op() else {
        return None;
    };
    let ty = site.ty().clone();
    let (wide, combine) = match (ty.dtype, *combine) {
        (_, Combine::Set) => return None,
        // Minimum and maximum are exact in every dtype.
        (DType::F16 | DType::BF16, combine @ (Combine::Add | Combine::Mul)) => {
            (DType::F64, combine)
        }
        (DType::Bool, Combine::Add | Combine::Max) => (DType::U8, Combine::Max),
        (DType::Bool, Combine::Mul | Combine::Min) => (DType::U8, Combine::Min),
        _ => return None,
    };
    let &[x, indices, updates] = site.operands() else {
        return None;
    };
    let mut widened = |value| {
        let mut ty = site.tensor(value)?.clone();
        ty.dtype = wide;
        Some(site.emit(Op::Cast { to: wide }, [value], ty))
    };
    let (x, updates) = (widened(x)?, widened(updates)?);
    let mut op = site.op().clone();
    if let Op::ScatterElements { combine: given, .. } | Op::ScatterNd { combine: given } = &mut op {
        *given = combine;
    }
    let mut wide_ty = ty.clone();
    wide_ty.dtype = wide;
    let scattered = site.emit(op, [x, indices, updates], wide_ty);
    Some(Rewrite::op(Op::Cast { to: ty.dtype }, [scattered]))
}
