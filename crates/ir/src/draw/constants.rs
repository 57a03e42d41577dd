//! The text for a constant in the box of the op that reads it: its elements if they are few, otherwise its type.

use crate::constant::Constant;
use kiln_tensor::{DType, Element, Tensor};
use std::fmt::Debug;

/// The maximum number of elements shown; for larger constants, only the type is shown.
const ELEMENT_LIMIT: usize = 4;

/// A short text: `0.5`, `[1, 2, 3]` or `f32[64, 3, 3, 3]`.
pub(super) fn summary(constant: &Constant) -> String {
    let tensor = constant.tensor();
    let elements = if tensor.len() <= ELEMENT_LIMIT {
        elements(&tensor)
    } else {
        None
    };
    match elements {
        Some(elements) if tensor.rank() == 0 => elements.concat(),
        Some(elements) if tensor.rank() == 1 => format!("[{}]", elements.join(", ")),
        _ => {
            let sizes: Vec<_> = tensor.shape().iter().map(ToString::to_string).collect();
            format!("{}[{}]", tensor.dtype(), sizes.join(", "))
        }
    }
}

fn elements(tensor: &Tensor) -> Option<Vec<String>> {
    fn texts<T: Element + Debug>(tensor: &Tensor) -> Option<Vec<String>> {
        Some(
            tensor
                .to_vec::<T>()
                .ok()?
                .iter()
                .map(|element| format!("{element:?}"))
                .collect(),
        )
    }
    match tensor.dtype() {
        DType::F64 => texts::<f64>(tensor),
        DType::F32 => texts::<f32>(tensor),
        DType::F16 => texts::<kiln_tensor::f16>(tensor),
        DType::BF16 => texts::<kiln_tensor::bf16>(tensor),
        DType::I64 => texts::<i64>(tensor),
        DType::I32 => texts::<i32>(tensor),
        DType::I16 => texts::<i16>(tensor),
        DType::I8 => texts::<i8>(tensor),
        DType::U64 => texts::<u64>(tensor),
        DType::U32 => texts::<u32>(tensor),
        DType::U16 => texts::<u16>(tensor),
        DType::U8 => texts::<u8>(tensor),
        DType::Bool => texts::<bool>(tensor),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_constants_show_their_elements() {
        let text = |tensor: Tensor| summary(&Constant::new(tensor).unwrap());
        assert_eq!(text(Tensor::scalar(0.5_f32)), "0.5");
        assert_eq!(text(Tensor::scalar(true)), "true");
        assert_eq!(
            text(Tensor::from_slice(&[3], &[1_i64, 2, 3]).unwrap()),
            "[1, 2, 3]"
        );
        assert_eq!(text(Tensor::zeros(DType::BF16, &[0]).unwrap()), "[]");
        assert_eq!(
            text(Tensor::zeros(DType::F32, &[2, 2]).unwrap()),
            "f32[2, 2]"
        );
        assert_eq!(text(Tensor::zeros(DType::U8, &[5]).unwrap()), "u8[5]");
    }

    #[test]
    fn every_dtype_has_elements() {
        for dtype in [
            DType::F64,
            DType::F32,
            DType::F16,
            DType::BF16,
            DType::I64,
            DType::I32,
            DType::I16,
            DType::I8,
            DType::U64,
            DType::U32,
            DType::U16,
            DType::U8,
            DType::Bool,
        ] {
            let zero = Constant::new(Tensor::zeros(dtype, &[]).unwrap()).unwrap();
            let expected = match dtype {
                DType::Bool => "false",
                float if float.is_float() => "0.0",
                _ => "0",
            };
            assert_eq!(summary(&zero), expected, "{dtype}");
        }
    }
}
