//! `.npy` files: NumPy's output is read, our output equals NumPy's, and hostile headers are errors.

use proptest::prelude::*;

use super::*;
use crate::DType;

/// A version 1 file with this header text.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn read(bytes: &[u8]) -> Result<Tensor, TensorError> {
    read_npy(&mut { bytes })
}

fn written(tensor: &Tensor) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_npy(tensor, &mut bytes).unwrap();
    bytes
}

#[test]
fn npy_bytes_equal_those_of_numpy() {
    // numpy.save of numpy.array([[1, 2, 3], [4, 5, 6]], dtype='<i2').
    let mut expected =
        b"\x93NUMPY\x01\x00\x76\x00{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }"
            .to_vec();
    expected.resize(127, b' ');
    expected.push(b'\n');
    expected.extend([1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0]);
    let tensor = Tensor::from_slice(&[2, 3], &[1i16, 2, 3, 4, 5, 6]).unwrap();
    assert_eq!(written(&tensor), expected);
    assert!(read(&expected).unwrap().bit_equal(&tensor));
    let one_dim = written(&Tensor::zeros(DType::U8, &[3]).unwrap());
    assert!(String::from_utf8_lossy(&one_dim).contains("'shape': (3,), }"));
}

#[test]
fn every_dtype_round_trips() {
    for dtype in DType::ALL {
        for shape in [&[][..], &[0], &[3], &[2, 0, 3], &[2, 3, 4]] {
            let n = element_count(dtype, shape).unwrap() * dtype.size_in_bytes();
            let bytes: Vec<u8> = (0..n).map(|i| (i * 37) as u8).collect();
            let tensor = Tensor::from_bytes(dtype, shape, &bytes).unwrap();
            let mut out = Vec::new();
            match write_npy(&tensor, &mut out) {
                Ok(()) => assert!(read(&out).unwrap().bit_equal(&tensor), "{dtype} {shape:?}"),
                Err(error) => assert_eq!((dtype, error.code()), (DType::BF16, "E0941")),
            }
        }
    }
}

#[test]
fn other_byte_and_axis_orders_are_read() {
    let big = file(
        "{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}",
        &1.5f32.to_be_bytes(),
    );
    assert_eq!(read(&big).unwrap().to_vec::<f32>().unwrap(), [1.5]);
    let columns = file(
        "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }",
        &[1, 4, 2, 5, 3, 6],
    );
    let tensor = read(&columns).unwrap();
    assert!(tensor.is_contiguous());
    assert_eq!(tensor.shape(), [2, 3]);
    assert_eq!(tensor.to_vec::<u8>().unwrap(), [1, 2, 3, 4, 5, 6]);
    let python2 = file(
        "{'shape': (2L,), \"descr\": \"|b1\", 'fortran_order': False}",
        &[0, 9],
    );
    assert_eq!(
        read(&python2).unwrap().to_vec::<bool>().unwrap(),
        [false, true]
    );
}

#[test]
fn a_strided_tensor_is_written_in_row_major_order() {
    let tensor = Tensor::from_slice(&[2, 2], &[1u8, 2, 3, 4])
        .unwrap()
        .transpose(&[1, 0])
        .unwrap();
    assert_eq!(
        read(&written(&tensor)).unwrap().to_vec::<u8>().unwrap(),
        [1, 3, 2, 4]
    );
}

#[test]
fn hostile_headers_are_errors() {
    let cases: &[(&str, &str)] = &[
        ("", "E0940"),
        ("{}", "E0940"),
        ("{'descr': '<f4'}", "E0940"),
        ("{'descr': '<f4', 'descr': '<f4'", "E0940"),
        ("{'descr': '<f4', 'fortran_order': 1, 'shape': ()}", "E0940"),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
            "E0940",
        ),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}",
            "E0940",
        ),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
            "E0940",
        ),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': ()} x",
            "E0940",
        ),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'more': 1}",
            "E0940",
        ),
        ("{'descr': '<f4", "E0940"),
        ("((((((((((((((((((((", "E0940"),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
            "E0340",
        ),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296)}",
            "E0340",
        ),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846976,)}",
            "E0942",
        ),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
            "E0942",
        ),
        (
            "{'descr': '<c8', 'fortran_order': False, 'shape': ()}",
            "E0941",
        ),
        (
            "{'descr': 'f4', 'fortran_order': False, 'shape': ()}",
            "E0941",
        ),
        (
            "{'descr': '|O', 'fortran_order': False, 'shape': ()}",
            "E0941",
        ),
        (
            "{'descr': '<V2', 'fortran_order': False, 'shape': ()}",
            "E0941",
        ),
        (
            "{'descr': '', 'fortran_order': False, 'shape': ()}",
            "E0941",
        ),
        (
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}",
            "E0941",
        ),
    ];
    for (header, code) in cases {
        assert_eq!(
            read(&file(header, &[1, 2, 3])).unwrap_err().code(),
            *code,
            "{header}"
        );
    }
    let deep = "(".repeat(60_000);
    assert_eq!(read(&file(&deep, &[])).unwrap_err().code(), "E0940");
    let many = format!(
        "{{'descr': '<f4', 'fortran_order': False, 'shape': ({})}}",
        "1,".repeat(65)
    );
    assert_eq!(read(&file(&many, &[])).unwrap_err().code(), "E0940");
}

#[test]
fn announced_lengths_are_limited_and_versions_are_known() {
    assert_eq!(
        read(b"\x93NUMPY\x02\x00\xff\xff\xff\xff")
            .unwrap_err()
            .code(),
        "E0940"
    );
    assert_eq!(
        read(b"\x93NUMPY\x09\x00\x00\x00").unwrap_err().code(),
        "E0941"
    );
    assert_eq!(read(b"PK\x03\x04....").unwrap_err().code(), "E0940");
    assert_eq!(read(b"\x93NUM").unwrap_err().code(), "E0940");
    assert_eq!(
        read(b"\x93NUMPY\x01\x00\x02\x00\xff\xff")
            .unwrap_err()
            .code(),
        "E0940"
    );
    let mut version2 = b"\x93NUMPY\x02\x00\x39\x00\x00\x00".to_vec();
    version2.extend(b"{'descr': '|i1', 'fortran_order': False, 'shape': (1,), }");
    version2.push(0xff);
    assert_eq!(read(&version2).unwrap().to_vec::<i8>().unwrap(), [-1]);
}

proptest! {
    #[test]
    fn a_changed_file_never_panics(position in 0usize..130, byte: u8, length in 0usize..200) {
        let mut bytes = written(&Tensor::from_slice(&[2, 3], &[1.0f32; 6]).unwrap());
        if let Some(at) = bytes.get_mut(position) {
            *at = byte;
        }
        bytes.truncate(length);
        let _ = read(&bytes);
    }
}
