//! Reading the elements of constants: one number that fills a tensor, and small integer tensors.

use kiln_tensor::{DType, Element, Tensor, bf16, f16};

/// The maximum number of elements of a constant that is searched.
const SEARCH_LIMIT: usize = 1024;

/// The element that fills a constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Splat {
    /// A float; 0.0 and -0.0 differ, see [`Splat::is_float`].
    Float(f64),
    /// An integer of any width.
    Integer(i128),
    /// A bool.
    Bool(bool),
}

impl Splat {
    /// Whether it is this float, bit for bit.
    pub(crate) fn is_float(self, value: f64) -> bool {
        matches!(self, Self::Float(found) if found.to_bits() == value.to_bits())
    }

    /// Whether it is this integer.
    pub(crate) fn is_integer(self, value: i128) -> bool {
        self == Self::Integer(value)
    }

    /// Whether it is this number, integer or float.
    pub(crate) fn is_number(self, value: i32) -> bool {
        self.is_integer(value.into()) || (value != 0 && self.is_float(value.into()))
    }
}

/// The element that fills a tensor, if all elements have the same bit pattern; `None` for empty and large tensors.
pub(crate) fn splat(tensor: &Tensor) -> Option<Splat> {
    fn only<T: Element>(tensor: &Tensor) -> Option<T> {
        tensor.to_vec::<T>().ok()?.first().copied()
    }
    if tensor.is_empty() || tensor.len() > SEARCH_LIMIT {
        return None;
    }
    let bytes = tensor.as_bytes().ok()?;
    let width = tensor.dtype().size_in_bytes();
    let first = bytes.get(..width)?;
    if bytes.chunks_exact(width).any(|element| element != first) {
        return None;
    }
    Some(match tensor.dtype() {
        DType::F64 => Splat::Float(only::<f64>(tensor)?),
        DType::F32 => Splat::Float(only::<f32>(tensor)?.into()),
        DType::F16 => Splat::Float(only::<f16>(tensor)?.to_f64()),
        DType::BF16 => Splat::Float(only::<bf16>(tensor)?.to_f64()),
        DType::I64 => Splat::Integer(only::<i64>(tensor)?.into()),
        DType::I32 => Splat::Integer(only::<i32>(tensor)?.into()),
        DType::I16 => Splat::Integer(only::<i16>(tensor)?.into()),
        DType::I8 => Splat::Integer(only::<i8>(tensor)?.into()),
        DType::U64 => Splat::Integer(only::<u64>(tensor)?.into()),
        DType::U32 => Splat::Integer(only::<u32>(tensor)?.into()),
        DType::U16 => Splat::Integer(only::<u16>(tensor)?.into()),
        DType::U8 => Splat::Integer(only::<u8>(tensor)?.into()),
        DType::Bool => Splat::Bool(only::<bool>(tensor)?),
        _ => return None,
    })
}

/// The elements of a small integer tensor that fit `i64`, in row-major order.
pub(crate) fn integers(tensor: &Tensor) -> Option<Vec<i64>> {
    fn widen<T: Element + TryInto<i64>>(tensor: &Tensor) -> Option<Vec<i64>> {
        tensor
            .to_vec::<T>()
            .ok()?
            .into_iter()
            .map(|element| element.try_into().ok())
            .collect()
    }
    if tensor.len() > SEARCH_LIMIT {
        return None;
    }
    match tensor.dtype() {
        DType::I64 => widen::<i64>(tensor),
        DType::I32 => widen::<i32>(tensor),
        DType::I16 => widen::<i16>(tensor),
        DType::I8 => widen::<i8>(tensor),
        DType::U64 => widen::<u64>(tensor),
        DType::U32 => widen::<u32>(tensor),
        DType::U16 => widen::<u16>(tensor),
        DType::U8 => widen::<u8>(tensor),
        _ => None,
    }
}

/// A scalar of a number dtype that represents `value` exactly; `None` if the dtype cannot.
pub(crate) fn scalar_of(dtype: DType, value: f64) -> Option<Tensor> {
    let narrow = value as f32;
    let tensor = match dtype {
        DType::F64 => Tensor::scalar(value),
        DType::F32 => Tensor::scalar(narrow),
        DType::F16 => Tensor::scalar(f16::from_f32(narrow)),
        DType::BF16 => Tensor::scalar(bf16::from_f32(narrow)),
        _ => return None,
    };
    splat(&tensor)?.is_float(value).then_some(tensor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_splat_is_one_bit_pattern() {
        let of =
            |elements: &[f32]| splat(&Tensor::from_slice(&[elements.len()], elements).unwrap());
        assert_eq!(of(&[2.0, 2.0]), Some(Splat::Float(2.0)));
        assert_eq!(of(&[0.0, -0.0]), None);
        assert_eq!(of(&[]), None);
        assert!(of(&[-0.0]).unwrap().is_float(-0.0) && !of(&[-0.0]).unwrap().is_float(0.0));
        assert_eq!(of(&vec![1.0; SEARCH_LIMIT + 1]), None);
        assert_eq!(splat(&Tensor::scalar(true)), Some(Splat::Bool(true)));
        assert_eq!(
            splat(&Tensor::scalar(f16::from_f32(0.5))),
            Some(Splat::Float(0.5))
        );
        assert!(
            splat(&Tensor::scalar(u64::MAX))
                .unwrap()
                .is_integer(u64::MAX.into())
        );
    }

    #[test]
    fn numbers_are_read_without_loss() {
        let ones = splat(&Tensor::scalar(1_i8)).unwrap();
        assert!(ones.is_number(1) && !ones.is_number(2));
        assert!(!splat(&Tensor::scalar(-0.0_f32)).unwrap().is_number(0));
        assert_eq!(
            integers(&Tensor::from_slice(&[2], &[1_u8, 255]).unwrap()),
            Some(vec![1, 255])
        );
        assert_eq!(integers(&Tensor::scalar(u64::MAX)), None);
        assert_eq!(integers(&Tensor::scalar(1.0_f32)), None);
    }

    #[test]
    fn scalars_are_made_only_if_exact() {
        assert!(scalar_of(DType::F16, 0.125).is_some());
        assert!(scalar_of(DType::F16, 0.1).is_none());
        assert!(scalar_of(DType::F32, 1e300).is_none());
        assert!(scalar_of(DType::I32, 1.0).is_none());
    }
}
