//! Conversion to and from `ndarray`, by copying.

use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

use crate::{Element, Tensor, TensorError};

/// A copy of an array of any layout, owned or viewed.
impl<T: Element, S: Data<Elem = T>, D: Dimension> TryFrom<&ArrayBase<S, D>> for Tensor {
    type Error = TensorError;

    fn try_from(array: &ArrayBase<S, D>) -> Result<Tensor, TensorError> {
        match array.as_slice() {
            Some(elements) => Tensor::from_slice(array.shape(), elements),
            None => {
                let mut tensor = Tensor::zeros(T::DTYPE, array.shape())?;
                for (to, from) in tensor.as_mut_slice::<T>()?.iter_mut().zip(array) {
                    *to = *from;
                }
                Ok(tensor)
            }
        }
    }
}

/// A copy of an owned array; see the conversion from a reference.
impl<T: Element, D: Dimension> TryFrom<ndarray::Array<T, D>> for Tensor {
    type Error = TensorError;

    fn try_from(array: ndarray::Array<T, D>) -> Result<Tensor, TensorError> {
        Tensor::try_from(&array)
    }
}

/// A row-major copy of the elements, which must be of type `T`.
impl<T: Element> TryFrom<&Tensor> for ArrayD<T> {
    type Error = TensorError;

    fn try_from(tensor: &Tensor) -> Result<ArrayD<T>, TensorError> {
        let elements = tensor.to_vec::<T>()?;
        let found = elements.len();
        ArrayD::from_shape_vec(IxDyn(tensor.shape()), elements).map_err(|_| {
            TensorError::LengthMismatch {
                expected: tensor.len(),
                found,
                unit: "elements",
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, arr2, s};

    use super::*;

    #[test]
    fn arrays_of_any_layout_round_trip() {
        let array = arr2(&[[1i32, 2, 3], [4, 5, 6]]);
        let tensor = Tensor::try_from(array.clone()).unwrap();
        assert_eq!(tensor.to_vec::<i32>().unwrap(), [1, 2, 3, 4, 5, 6]);
        let view = array.slice(s![.., ..;-2]);
        let strided = Tensor::try_from(&view).unwrap();
        assert_eq!(strided.shape(), [2, 2]);
        assert_eq!(strided.to_vec::<i32>().unwrap(), [3, 1, 6, 4]);
        let back = ArrayD::<i32>::try_from(&tensor.transpose(&[1, 0]).unwrap()).unwrap();
        assert_eq!(back, array.t().into_dyn());
    }

    #[test]
    fn another_element_type_is_refused_and_empty_arrays_are_fine() {
        let tensor = Tensor::try_from(Array2::<bool>::default((0, 3))).unwrap();
        assert_eq!(tensor.shape(), [0, 3]);
        assert_eq!(ArrayD::<bool>::try_from(&tensor).unwrap().shape(), [0, 3]);
        assert_eq!(ArrayD::<u8>::try_from(&tensor).unwrap_err().code(), "E0342");
    }
}
