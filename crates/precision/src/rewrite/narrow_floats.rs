//! Both operands are rounded to a narrower float, and sums are in f32: `product(f32(bf16(x)), f32(bf16(w)))`.

use super::{Narrowed, Rewritten};
use crate::emit::Emit;
use crate::error::PrecisionError;
use crate::format::Format;
use crate::product::Product;
use kiln_ir::ValueId;
use kiln_tensor::{DType, Tensor};

pub(super) fn rewrite(emit: &mut Emit<'_, '_>, product: &Product, format: Format) -> Rewritten {
    let Some(narrow) = format.narrow_float() else {
        unreachable!("{format} is a format of floats");
    };
    let left = emit.rebuild.value(product.left);
    let left = rounded(emit, left, narrow);
    let (right, bytes_after, weight_error) = match &product.weights {
        Some(weights) => {
            let numbers = weights.to_f64_vec();
            let constant = numbers.and_then(|numbers| {
                let narrowed = Tensor::from_f64_slice(narrow, weights.shape(), &numbers)?;
                let error = relative_error(&numbers, &narrowed.to_f64_vec()?);
                Ok((narrowed, error))
            });
            let (narrowed, error) = constant.map_err(|source| PrecisionError::Tensor {
                op: product.name.clone(),
                source,
            })?;
            let bytes = narrowed.byte_len();
            let stored = emit.constant(Ok(narrowed))?;
            (emit.cast(stored, DType::F32), bytes, Some(error))
        }
        None => {
            let right = emit.rebuild.value(product.right);
            (rounded(emit, right, narrow), 0, None)
        }
    };
    let old = emit.rebuild.old();
    let (op, ty) = (old.op(product.op).op.clone(), old.tensor_ty(product.result));
    let Some(ty) = ty.cloned() else {
        unreachable!("a product is a tensor");
    };
    let result = emit.op(op, &[left, right], ty);
    emit.rebuild.map(product.result, result);
    Ok(Ok(Narrowed {
        bytes_after,
        weight_error,
    }))
}

/// `x`, each element rounded.
fn rounded(emit: &mut Emit<'_, '_>, x: ValueId, to: DType) -> ValueId {
    let narrow = emit.cast(x, to);
    emit.cast(narrow, DType::F32)
}

/// The norm of the differences over that of the numbers; elements that are equal, infinite ones included, differ by 0.
fn relative_error(numbers: &[f64], rounded: &[f64]) -> f64 {
    let (mut difference, mut norm) = (0.0, 0.0);
    for (number, rounded) in numbers.iter().zip(rounded) {
        if number != rounded {
            difference += (number - rounded).powi(2);
        }
        norm += number.powi(2);
    }
    match norm > 0.0 {
        true => (difference / norm).sqrt(),
        false => 0.0,
    }
}
