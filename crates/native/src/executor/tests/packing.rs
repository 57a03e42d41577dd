//! Packed constants, compared element by element with what the specification says.

use super::*;
use kiln_kernel::{PackAxis, PackSpec};
use kiln_tensor::{bf16, f16};

fn packed<T: Element>(tensor: &Tensor, axes: &[PackAxis]) -> Vec<T> {
    let spec = PackSpec {
        buffer: 1,
        axes: axes.to_vec(),
    };
    elements(&NativeExecutor::new().pack(tensor, &spec).unwrap())
}

fn outer(axis: usize, block: usize) -> PackAxis {
    PackAxis::Outer { axis, block }
}

fn inner(axis: usize, block: usize) -> PackAxis {
    PackAxis::Inner { axis, block }
}

/// The element at each place, computed from the place alone.
fn expected(shape: [usize; 2], axes: &[PackAxis]) -> Vec<i32> {
    let sizes = axes.iter().map(|axis| match *axis {
        PackAxis::Whole(axis) => shape[axis],
        PackAxis::Outer { axis, block } => shape[axis].div_ceil(block),
        PackAxis::Inner { block, .. } => block,
    });
    let sizes: Vec<usize> = sizes.collect();
    let places = 0..sizes.iter().product::<usize>();
    let element = |mut place: usize| {
        let mut position = [0, 0];
        for (axis, size) in axes.iter().zip(&sizes).rev() {
            let at = place % size;
            place /= size;
            match *axis {
                PackAxis::Whole(axis) | PackAxis::Inner { axis, .. } => position[axis] += at,
                PackAxis::Outer { axis, block } => position[axis] += at * block,
            }
        }
        let inside = position[0] < shape[0] && position[1] < shape[1];
        if inside {
            (position[0] * shape[1] + position[1] + 1) as i32
        } else {
            0
        }
    };
    places.map(element).collect()
}

#[test]
fn any_order_of_axes_and_blocks() {
    use PackAxis::Whole;
    for shape in [[5, 7], [4, 8], [1, 1], [3, 0], [0, 4], [9, 2]] {
        let n = shape[0] * shape[1];
        let x = Tensor::from_vec(&shape, (1..=n as i32).collect()).unwrap();
        for axes in [
            &[Whole(0), Whole(1)][..],
            &[Whole(1), Whole(0)],
            &[outer(1, 4), Whole(0), inner(1, 4)],
            &[outer(0, 2), outer(1, 3), inner(1, 3), inner(0, 2)],
            &[inner(0, 4), outer(1, 2), inner(1, 2), outer(0, 4)],
            &[Whole(1), inner(0, 1), outer(0, 1)],
            &[outer(1, 16), inner(1, 16), outer(0, 3), inner(0, 3)],
        ] {
            assert_eq!(
                packed::<i32>(&x, axes),
                expected(shape, axes),
                "{shape:?} {axes:?}"
            );
        }
    }
}

#[test]
fn elements_of_any_size_and_views() {
    let axes = [outer(0, 2), inner(0, 2)];
    let x = Tensor::from_slice(&[3], &[1u8, 2, 3]).unwrap();
    assert_eq!(packed::<u8>(&x, &axes), [1, 2, 3, 0]);
    let halves = [1.0, 2.0, 3.0].map(f16::from_f32);
    let x = Tensor::from_slice(&[3], &halves).unwrap();
    assert_eq!(packed::<f16>(&x, &axes)[2..], [halves[2], f16::ZERO]);
    let brains = [1.0, 2.0, 3.0].map(bf16::from_f32);
    let x = Tensor::from_slice(&[3], &brains).unwrap();
    assert_eq!(packed::<bf16>(&x.reverse(0).unwrap(), &axes)[0], brains[2]);
    let x = Tensor::from_slice(&[3], &[1.0f64, 2.0, 3.0]).unwrap();
    assert_eq!(packed::<f64>(&x, &axes), [1.0, 2.0, 3.0, 0.0]);
    assert_eq!(packed::<f32>(&Tensor::scalar(5.0f32), &[]), [5.0]);
}

#[test]
fn specifications_that_do_not_fit() {
    use PackAxis::Whole;
    let x = Tensor::zeros(DType::F32, &[4, 6]).unwrap();
    for axes in [
        &[Whole(0)][..],
        &[Whole(0), Whole(2)],
        &[Whole(0), Whole(1), Whole(1)],
        &[Whole(0), outer(1, 2)],
        &[Whole(0), inner(1, 2)],
        &[Whole(0), outer(1, 2), inner(1, 3)],
        &[Whole(0), outer(1, 0), inner(1, 0)],
        &[Whole(0), Whole(1), outer(1, 2), inner(1, 2)],
    ] {
        let spec = PackSpec {
            buffer: 1,
            axes: axes.to_vec(),
        };
        let error = NativeExecutor::new().pack(&x, &spec).unwrap_err();
        assert_eq!(error.code, "E0861", "{axes:?}");
        assert!(
            error
                .to_string()
                .starts_with("the packing of buffer 1: expected ")
        );
    }
    let spec = PackSpec {
        buffer: 0,
        axes: vec![Whole(0), outer(1, usize::MAX), inner(1, usize::MAX)],
    };
    let error = NativeExecutor::new().pack(&x, &spec).unwrap_err();
    assert_eq!(error.code, "E0340");
}
