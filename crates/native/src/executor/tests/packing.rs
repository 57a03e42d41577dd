//! Packed constants: the backend crate tests the specification, this file the resulting memory.

use super::*;
use kiln_backend::{PackAxis, PackSpec};

fn spec(axes: &[PackAxis]) -> PackSpec {
    PackSpec {
        buffer: 1,
        axes: axes.to_vec(),
    }
}

#[test]
fn packed_constants_are_device_memory() {
    let cpu = NativeExecutor::new();
    let x = Tensor::from_slice(&[3], &[1.0f64, 2.0, 3.0]).unwrap();
    let blocks = [
        PackAxis::Outer { axis: 0, block: 2 },
        PackAxis::Inner { axis: 0, block: 2 },
    ];
    let packed = cpu.pack(&x, &spec(&blocks)).unwrap();
    assert_eq!(packed.bytes(), 32);
    let back = cpu.download(&packed, 0, DType::F64, &[2, 2]).unwrap();
    let back = back.as_slice::<f64>().unwrap();
    assert_eq!(back, [1.0, 2.0, 3.0, 0.0]);
    assert!(back.as_ptr().addr().is_multiple_of(64));
}

#[test]
fn mismatched_pack_specifications_are_errors() {
    let x = Tensor::zeros(DType::F32, &[4, 6]).unwrap();
    let error = NativeExecutor::new().pack(&x, &spec(&[PackAxis::Whole(2)]));
    let error = error.unwrap_err();
    assert!(error.code.starts_with("E02"), "{error}");
    assert!(!error.out_of_memory);
}
