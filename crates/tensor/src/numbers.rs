//! Elements of any dtype as `f64`, for statistics and comparisons, which do not depend on the dtype.

use half::{bf16, f16};

use crate::{DType, Element, Tensor, TensorError};

impl Tensor {
    /// The elements as `f64` in row-major order, true as 1. 64-bit integers beyond 2^53 lose digits.
    ///
    /// # Errors
    /// When memory cannot be allocated.
    pub fn to_f64_vec(&self) -> Result<Vec<f64>, TensorError> {
        fn convert<T: Element>(
            tensor: &Tensor,
            number: impl Fn(T) -> f64,
        ) -> Result<Vec<f64>, TensorError> {
            let mut numbers = Vec::new();
            let bytes = tensor.len().saturating_mul(size_of::<f64>());
            numbers
                .try_reserve_exact(tensor.len())
                .map_err(|_| TensorError::Allocation { bytes })?;
            numbers.extend(tensor.to_vec::<T>()?.into_iter().map(number));
            Ok(numbers)
        }
        match self.dtype() {
            DType::F64 => convert::<f64>(self, |x| x),
            DType::F32 => convert::<f32>(self, f64::from),
            DType::F16 => convert::<f16>(self, f64::from),
            DType::BF16 => convert::<bf16>(self, f64::from),
            DType::I64 => convert::<i64>(self, |x| x as f64),
            DType::I32 => convert::<i32>(self, f64::from),
            DType::I16 => convert::<i16>(self, f64::from),
            DType::I8 => convert::<i8>(self, f64::from),
            DType::U64 => convert::<u64>(self, |x| x as f64),
            DType::U32 => convert::<u32>(self, f64::from),
            DType::U16 => convert::<u16>(self, f64::from),
            DType::U8 => convert::<u8>(self, f64::from),
            DType::Bool => convert::<bool>(self, |x| f64::from(u8::from(x))),
        }
    }

    /// A tensor of any dtype from numbers: floats are rounded, integers truncated and saturated, a bool is whether it is
    /// nonzero.
    ///
    /// # Errors
    /// When the number of elements is not that of the shape, or memory cannot be allocated.
    pub fn from_f64_slice(
        dtype: DType,
        shape: &[usize],
        numbers: &[f64],
    ) -> Result<Tensor, TensorError> {
        fn convert<T: Element>(
            shape: &[usize],
            numbers: &[f64],
            element: impl Fn(f64) -> T,
        ) -> Result<Tensor, TensorError> {
            let elements: Vec<T> = numbers.iter().map(|&number| element(number)).collect();
            Tensor::from_vec(shape, elements)
        }
        match dtype {
            DType::F64 => convert(shape, numbers, |x| x),
            DType::F32 => convert(shape, numbers, |x| x as f32),
            DType::F16 => convert(shape, numbers, f16::from_f64),
            DType::BF16 => convert(shape, numbers, bf16::from_f64),
            DType::I64 => convert(shape, numbers, |x| x as i64),
            DType::I32 => convert(shape, numbers, |x| x as i32),
            DType::I16 => convert(shape, numbers, |x| x as i16),
            DType::I8 => convert(shape, numbers, |x| x as i8),
            DType::U64 => convert(shape, numbers, |x| x as u64),
            DType::U32 => convert(shape, numbers, |x| x as u32),
            DType::U16 => convert(shape, numbers, |x| x as u16),
            DType::U8 => convert(shape, numbers, |x| x as u8),
            DType::Bool => convert(shape, numbers, |x| x != 0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_elements_of_every_dtype() {
        for dtype in [
            DType::F64,
            DType::F32,
            DType::F16,
            DType::BF16,
            DType::I64,
            DType::I8,
            DType::U64,
            DType::U8,
            DType::Bool,
        ] {
            let tensor = Tensor::from_f64_slice(dtype, &[2], &[0.0, 1.0]).unwrap();
            assert_eq!(tensor.dtype(), dtype);
            assert_eq!(tensor.to_f64_vec().unwrap(), [0.0, 1.0], "{dtype}");
        }
        let bytes = Tensor::from_f64_slice(DType::U8, &[2], &[-3.0, 1e9]).unwrap();
        assert_eq!(bytes.to_f64_vec().unwrap(), [0.0, 255.0]);
        assert!(Tensor::from_f64_slice(DType::F32, &[3], &[1.0]).is_err());
    }

    #[test]
    fn every_dtype_has_numbers() {
        fn numbers<T: Element>(elements: &[T]) {
            let tensor = Tensor::from_slice(&[elements.len()], elements).unwrap();
            assert_eq!(tensor.to_f64_vec().unwrap(), [0.0, 1.0]);
        }
        numbers(&[false, true]);
        numbers(&[0u8, 1]);
        numbers(&[0u16, 1]);
        numbers(&[0u32, 1]);
        numbers(&[0u64, 1]);
        numbers(&[0i8, 1]);
        numbers(&[0i16, 1]);
        numbers(&[0i32, 1]);
        numbers(&[0i64, 1]);
        numbers(&[f16::ZERO, f16::ONE]);
        numbers(&[bf16::ZERO, bf16::ONE]);
    }
}
