//! The order of a buffer's axes in memory.

use kiln_tensor::{Tensor, TensorError};
use smallvec::SmallVec;

/// Axes of a buffer in memory order, outermost first. Its elements are contiguous.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AxisOrder(SmallVec<[usize; 6]>);

impl AxisOrder {
    /// The axis order of these strides; `None` if elements are not contiguous.
    pub(crate) fn of(shape: &[usize], strides: &[i64]) -> Option<Self> {
        let mut axes: SmallVec<[usize; 6]> = (0..shape.len()).collect();
        // An axis of one element may have any stride: it goes where it fits.
        axes.sort_by_key(|&axis| {
            let stride = strides.get(axis).copied().unwrap_or(0);
            (std::cmp::Reverse(stride), shape.get(axis) != Some(&1))
        });
        if shape.contains(&0) {
            return Some(Self(axes));
        }
        let mut step = 1_i64;
        for &axis in axes.iter().rev() {
            let (size, stride) = (*shape.get(axis)?, *strides.get(axis)?);
            if size > 1 && stride != step {
                return None;
            }
            step = step.checked_mul(i64::try_from(size).ok()?)?;
        }
        Some(Self(axes))
    }

    /// A shape with its axes in this order.
    pub(crate) fn shape(&self, shape: &[usize]) -> SmallVec<[usize; 6]> {
        let in_order = self.0.iter().filter_map(|&axis| shape.get(axis));
        in_order.copied().collect()
    }

    /// A tensor of that shape, with its axes restored.
    pub(crate) fn undo(&self, tensor: &Tensor) -> Result<Tensor, TensorError> {
        let mut back: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.0.len());
        for (position, &axis) in self.0.iter().enumerate() {
            if let Some(slot) = back.get_mut(axis) {
                *slot = position;
            }
        }
        tensor.transpose(&back)
    }

    /// A tensor with its axes in this order; its elements are not moved.
    pub(crate) fn apply(&self, tensor: &Tensor) -> Result<Tensor, TensorError> {
        tensor.transpose(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_order_follows_from_strides() {
        // Channels innermost.
        let order = AxisOrder::of(&[2, 3, 4, 5], &[60, 1, 15, 3]).unwrap();
        assert_eq!(order.0.as_slice(), [0, 2, 3, 1]);
        assert_eq!(order.shape(&[2, 3, 4, 5]).as_slice(), [2, 4, 5, 3]);
        // An axis of one element, and one of none.
        assert!(AxisOrder::of(&[1, 3, 1, 5], &[15, 1, 15, 3]).is_some());
        assert!(AxisOrder::of(&[2, 3, 0, 5], &[0, 1, 15, 3]).is_some());
        // A part of a larger tensor.
        assert_eq!(AxisOrder::of(&[2, 3], &[8, 1]), None);
    }

    #[test]
    fn undoing_an_axis_order_restores_the_tensor() {
        let elements: Vec<f32> = (0..24).map(|i| i as f32).collect();
        let tensor = Tensor::from_slice(&[2, 3, 4], &elements).unwrap();
        let order = AxisOrder::of(&[2, 3, 4], &[12, 1, 3]).unwrap();
        let applied = order.apply(&tensor).unwrap().contiguous().unwrap();
        assert_eq!(applied.shape(), [2, 4, 3]);
        let undone = order.undo(&applied).unwrap();
        assert_eq!(undone.to_vec::<f32>().unwrap(), elements);
    }
}
