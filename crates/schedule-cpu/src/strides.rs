//! Strides of buffers, packed operands and locals.

use kiln_backend::{PackAxis, PackSpec, Quantity};
use kiln_kernel::seeded::{Fault, is_on};
use kiln_kernel::{AxisId, BufferId, StageId, VerifiedKernel};

/// An upper bound on the points of an axis.
pub fn bound(kernel: &VerifiedKernel, axis: AxisId) -> Quantity {
    Quantity::of(kernel.dims(), kernel.axis(axis).extent.bound())
}

/// Strides, per axis of an unpacked buffer.
pub(crate) fn buffer_strides(kernel: &VerifiedKernel, id: BufferId) -> Vec<Quantity> {
    let buffer = kernel.buffer(id);
    if let Some(strides) = &buffer.strides {
        let mut strides = strides.clone();
        if let [first, second, ..] = strides.as_mut_slice()
            && is_on(Fault::SwappedStrides)
        {
            std::mem::swap(first, second);
        }
        let strides = strides.iter();
        return strides
            .map(|&stride| Quantity::of(kernel.dims(), stride))
            .collect();
    }
    let sizes = buffer.shape.iter();
    dense_strides(sizes.map(|&size| Quantity::of(kernel.dims(), size))).0
}

/// Strides, per axis of a packed operand, and its number of elements.
pub fn packed_strides(kernel: &VerifiedKernel, spec: &PackSpec) -> (Vec<Quantity>, Quantity) {
    let buffer = BufferId::from_u32(spec.buffer as u32);
    let points = spec.axes.iter();
    dense_strides(points.map(|&axis| packed_points(kernel, buffer, axis)))
}

/// Points along an axis of a packed operand.
pub fn packed_points(kernel: &VerifiedKernel, buffer: BufferId, axis: PackAxis) -> Quantity {
    let size = |axis: usize| match kernel.buffer(buffer).shape.get(axis) {
        Some(&size) => Quantity::of(kernel.dims(), size),
        None => unreachable!("packing names axes of the buffer"),
    };
    match axis {
        PackAxis::Whole(axis) => size(axis),
        PackAxis::Outer { axis, block } => size(axis).ceil_div(Quantity::constant(block as i64)),
        PackAxis::Inner { block, .. } => Quantity::constant(block as i64),
    }
}

/// Strides, per axis of a stage's local.
pub fn local_strides(kernel: &VerifiedKernel, stage: StageId) -> Vec<Quantity> {
    let axes = kernel.stage(stage).axes.iter();
    dense_strides(axes.map(|&axis| bound(kernel, axis))).0
}

/// The strides of a row-major array in the order of its axes, and its number of elements.
fn dense_strides(sizes: impl DoubleEndedIterator<Item = Quantity>) -> (Vec<Quantity>, Quantity) {
    let mut product = Quantity::constant(1);
    let strides = sizes.rev().map(|size| {
        let stride = product.clone();
        product = product.clone() * size;
        stride
    });
    let mut strides: Vec<Quantity> = strides.collect();
    strides.reverse();
    (strides, product)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix() -> VerifiedKernel {
        let text = "kernel @copy(%x: in f32[5, 7] strides [1, 5], %o: out f32[5, 7]) {
               outer m < 5, n < 7
               store %o[m, n] = %x[m, n]
             }";
        kiln_kernel::verify(kiln_kernel::text::read(text).unwrap()).unwrap()
    }

    fn numbers(strides: &[Quantity]) -> Vec<i64> {
        let constant = |stride: &Quantity| stride.as_constant().unwrap();
        strides.iter().map(constant).collect()
    }

    #[test]
    fn a_buffer_without_strides_is_dense() {
        let kernel = matrix();
        let of = |position| numbers(&buffer_strides(&kernel, BufferId::from_u32(position)));
        assert_eq!([of(0), of(1)], [[1, 5], [7, 1]]);
    }

    #[test]
    fn partial_blocks_occupy_whole_blocks() {
        let spec = PackSpec {
            buffer: 1,
            axes: vec![
                PackAxis::Outer { axis: 1, block: 4 },
                PackAxis::Whole(0),
                PackAxis::Inner { axis: 1, block: 4 },
            ],
        };
        let (strides, elements) = packed_strides(&matrix(), &spec);
        assert_eq!(numbers(&strides), [20, 4, 1]);
        assert_eq!(elements.as_constant(), Some(2 * 5 * 4));
    }
}
