//! Constant factors of integer products.

use crate::peephole::{Rewrite, Site};
use kiln_ir::Op;
use kiln_tensor::{DType, Tensor};

/// Narrows a constant of 16 or 32 bits whose elements fit in 8, such as weights from which a zero point was subtracted:
/// products of narrow integers are faster, and it takes less memory. Their sums are in the result's dtype either way.
pub(super) fn narrow_factor(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Matmul { .. } | Op::Conv { .. }) = site.op() else {
        return None;
    };
    let &[left, right] = site.operands() else {
        return None;
    };
    let sums = site.ty().dtype;
    for (operand, other) in [(right, left), (left, right)] {
        let is_narrow = |dtype: DType| dtype.is_integer() && dtype.bits() < sums.bits();
        if !sums.is_integer() || !is_narrow(site.dtype(other)?) {
            continue;
        }
        let constant = site.constant(operand).map(|constant| constant.tensor());
        let Some(narrow) = constant.as_ref().and_then(in_bytes) else {
            continue;
        };
        let narrow = site.emit_constant(narrow)?;
        let replaced = |value| if value == operand { narrow } else { value };
        return Some(Rewrite::op(
            site.op().clone(),
            [replaced(left), replaced(right)],
        ));
    }
    None
}

/// The same elements in 8 bits, if all fit.
pub(super) fn in_bytes(tensor: &Tensor) -> Option<Tensor> {
    let elements: Vec<i32> = match tensor.dtype() {
        DType::I16 => tensor
            .to_vec::<i16>()
            .ok()?
            .into_iter()
            .map(i32::from)
            .collect(),
        DType::I32 => tensor.to_vec::<i32>().ok()?,
        _ => return None,
    };
    let signed: Option<Vec<i8>> = elements
        .iter()
        .map(|&element| i8::try_from(element).ok())
        .collect();
    if let Some(signed) = signed {
        return Tensor::from_vec(tensor.shape(), signed).ok();
    }
    let unsigned: Option<Vec<u8>> = elements
        .iter()
        .map(|&element| u8::try_from(element).ok())
        .collect();
    Tensor::from_vec(tensor.shape(), unsigned?).ok()
}
