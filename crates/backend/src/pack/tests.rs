//! Packing and its inverse, and specifications that do not match the operand.

use kiln_tensor::DType;
use proptest::prelude::*;

use super::*;

/// Where each element of the operand went: the packed array, read back through index arithmetic.
fn unpacked(spec: &PackSpec, packed: &Tensor, shape: &[usize]) -> Vec<i32> {
    let elements = packed.to_vec::<i32>().unwrap();
    let n: usize = shape.iter().product();
    let mut result = Vec::new();
    for flat in 0..n {
        let mut rest = flat;
        let mut indices = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            indices[axis] = rest % shape[axis];
            rest /= shape[axis];
        }
        let mut offset = 0;
        for (part, extent) in spec.axes.iter().zip(packed.shape()) {
            let at = match *part {
                PackAxis::Whole(axis) => indices[axis],
                PackAxis::Outer { axis, block } => indices[axis] / block,
                PackAxis::Inner { axis, block } => indices[axis] % block,
            };
            offset = offset * extent + at;
        }
        result.push(elements[offset]);
    }
    result
}

proptest! {
    #[test]
    fn unpacking_restores_the_operand_and_padding_is_zero(
        shape in proptest::collection::vec(0_usize..6, 0..4),
        blocks in proptest::collection::vec(0_usize..4, 4),
        seed in any::<u64>(),
    ) {
        let n: usize = shape.iter().product();
        let elements: Vec<i32> = (1..=n as i32).collect();
        let tensor = Tensor::from_slice(&shape, &elements).unwrap();
        let mut axes = Vec::new();
        for (axis, &block) in blocks.iter().enumerate().take(shape.len()) {
            match block {
                0 => axes.push(PackAxis::Whole(axis)),
                block => axes.extend([PackAxis::Inner { axis, block }, PackAxis::Outer { axis, block }]),
            }
        }
        let n_axes = axes.len().max(1);
        for place in 0..axes.len() {
            axes.swap(place, (seed as usize).wrapping_mul(place + 7) % n_axes);
        }
        let spec = PackSpec { buffer: 0, axes };
        let packed = spec.apply(&tensor).unwrap();
        prop_assert_eq!(packed.shape(), spec.packed_shape(&shape).unwrap());
        prop_assert_eq!(unpacked(&spec, &packed, &shape), elements.clone());
        let operand = spec.undo(&packed, DType::I32, &shape).unwrap();
        prop_assert_eq!(operand.to_vec::<i32>().unwrap(), elements);
        let not_zero = packed.to_vec::<i32>().unwrap().iter().filter(|&&value| value != 0).count();
        prop_assert_eq!(not_zero, n);
    }
}

#[test]
fn every_dtype_and_views_are_packed() {
    let spec = PackSpec {
        buffer: 0,
        axes: vec![PackAxis::Whole(1), PackAxis::Whole(0)],
    };
    for dtype in DType::ALL {
        let packed = spec.apply(&Tensor::zeros(dtype, &[2, 3]).unwrap()).unwrap();
        assert_eq!((packed.dtype(), packed.shape()), (dtype, [3, 2].as_slice()));
    }
    let view = Tensor::from_slice(&[3, 2], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let view = view.transpose(&[1, 0]).unwrap();
    let packed = spec.apply(&view).unwrap();
    assert_eq!(
        packed.to_vec::<f32>().unwrap(),
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    );
}

#[test]
fn memory_of_another_size_is_not_unpacked() {
    let spec = PackSpec {
        buffer: 0,
        axes: vec![
            PackAxis::Outer { axis: 0, block: 4 },
            PackAxis::Inner { axis: 0, block: 4 },
        ],
    };
    let packed = Tensor::zeros(DType::U8, &[16]).unwrap();
    assert!(spec.undo(&packed, DType::U8, &[13]).is_ok());
    assert!(spec.undo(&packed, DType::F32, &[3]).is_ok());
    for (dtype, size) in [(DType::U8, 12), (DType::U8, 17), (DType::F32, 5)] {
        let error = spec.undo(&packed, dtype, &[size]).unwrap_err();
        assert_eq!(error.code(), "E0268", "{error}");
    }
}

#[test]
fn invalid_pack_specifications_are_errors() {
    let tensor = Tensor::zeros(DType::F32, &[2, 3]).unwrap();
    let code = |axes: Vec<PackAxis>| {
        let error = PackSpec { buffer: 0, axes }.apply(&tensor).unwrap_err();
        assert!(!error.to_string().is_empty());
        error.code()
    };
    let (outer, inner) = (
        |block| PackAxis::Outer { axis: 1, block },
        |block| PackAxis::Inner { axis: 1, block },
    );
    let whole = PackAxis::Whole;
    assert_eq!(code(vec![whole(0)]), "E0247");
    assert_eq!(code(vec![whole(0), whole(1), whole(1)]), "E0247");
    assert_eq!(code(vec![whole(0), whole(1), whole(2)]), "E0246");
    assert_eq!(code(vec![whole(0), outer(2)]), "E0247");
    assert_eq!(code(vec![whole(0), outer(2), inner(3)]), "E0247");
    assert_eq!(code(vec![whole(0), outer(0), inner(0)]), "E0247");
    assert_eq!(code(vec![whole(0), outer(2), inner(2), outer(2)]), "E0247");
    assert_eq!(
        code(vec![whole(0), outer(usize::MAX), inner(usize::MAX)]),
        "E0249"
    );
    let huge = usize::MAX / 8;
    assert_eq!(code(vec![whole(0), outer(huge), inner(huge)]), "E0249");
}

#[test]
fn pack_specifications_round_trip_through_json() {
    let spec = PackSpec {
        buffer: 2,
        axes: vec![
            PackAxis::Outer { axis: 0, block: 16 },
            PackAxis::Whole(1),
            PackAxis::Inner { axis: 0, block: 16 },
        ],
    };
    let text = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<PackSpec>(&text).unwrap(), spec);
}
