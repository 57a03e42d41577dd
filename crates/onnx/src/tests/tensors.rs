//! Tensors inside the model file: every element type, and every wrong length.

use kiln_tensor::{DType, Tensor, bf16, f16};

use crate::proto::{GraphProto, Segment, SparseTensorProto, TensorProto};
use crate::tests::build::*;
use crate::{Error, Limits, Model, NoFiles, read_tensor};

fn load(initializer: TensorProto) -> Result<Tensor, Error> {
    let name = initializer.name.clone();
    read(&model_of(initializer))?.graph().initializers()[&name]
        .tensor()
        .cloned()
}

#[test]
fn raw_bytes_become_elements_of_every_type() {
    let types = [
        (1, DType::F32),
        (2, DType::U8),
        (3, DType::I8),
        (4, DType::U16),
        (5, DType::I16),
        (6, DType::I32),
        (7, DType::I64),
        (9, DType::Bool),
        (10, DType::F16),
        (11, DType::F64),
        (12, DType::U32),
        (13, DType::U64),
        (16, DType::BF16),
    ];
    for (number, dtype) in types {
        let bytes: Vec<u8> = (0..6 * dtype.size_in_bytes())
            .map(|byte| (byte % 2) as u8)
            .collect();
        let tensor = load(raw("w", number, &[2, 3], &bytes)).unwrap();
        assert_eq!((tensor.dtype(), tensor.shape()), (dtype, &[2, 3][..]));
        assert_eq!(tensor.as_bytes().unwrap(), bytes);
        let error = load(raw("w", number, &[2, 3], &bytes[1..])).unwrap_err();
        assert_eq!(error.code(), "E0908");
    }
}

#[test]
fn typed_lists_become_elements_of_every_type() {
    let with = |number, fill: &dyn Fn(&mut TensorProto)| {
        let mut proto = tensor("w", number, &[2]);
        fill(&mut proto);
        load(proto).unwrap()
    };
    let ints = |values: [i32; 2]| move |proto: &mut TensorProto| proto.int32_data = values.to_vec();
    let uints =
        |values: [u64; 2]| move |proto: &mut TensorProto| proto.uint64_data = values.to_vec();
    assert_eq!(
        with(1, &|proto| proto.float_data = vec![0.5, -1.0])
            .to_vec::<f32>()
            .unwrap(),
        [0.5, -1.0]
    );
    assert_eq!(
        with(11, &|proto| proto.double_data = vec![0.5, -1.0])
            .to_vec::<f64>()
            .unwrap(),
        [0.5, -1.0]
    );
    assert_eq!(
        with(7, &|proto| proto.int64_data = vec![-5, i64::MAX])
            .to_vec::<i64>()
            .unwrap(),
        [-5, i64::MAX]
    );
    assert_eq!(
        with(13, &uints([5, u64::MAX])).to_vec::<u64>().unwrap(),
        [5, u64::MAX]
    );
    assert_eq!(
        with(12, &uints([5, 0xffff_ffff])).to_vec::<u32>().unwrap(),
        [5, u32::MAX]
    );
    assert_eq!(
        with(6, &ints([-5, i32::MAX])).to_vec::<i32>().unwrap(),
        [-5, i32::MAX]
    );
    assert_eq!(with(5, &ints([-5, 7])).to_vec::<i16>().unwrap(), [-5, 7]);
    assert_eq!(
        with(4, &ints([5, 65535])).to_vec::<u16>().unwrap(),
        [5, 65535]
    );
    assert_eq!(
        with(3, &ints([-128, 127])).to_vec::<i8>().unwrap(),
        [-128, 127]
    );
    assert_eq!(with(2, &ints([0, 255])).to_vec::<u8>().unwrap(), [0, 255]);
    assert_eq!(
        with(9, &ints([0, 5])).to_vec::<bool>().unwrap(),
        [false, true]
    );
    let halves = with(10, &ints([0x3c00, 0xbc00])).to_vec::<f16>().unwrap();
    assert_eq!(halves, [f16::from_f32(1.0), f16::from_f32(-1.0)]);
    let extended = with(16, &ints([0x3f80, -0x4080])).to_vec::<bf16>().unwrap();
    assert_eq!(extended, [bf16::from_f32(1.0), bf16::from_f32(-1.0)]);
}

#[test]
fn elements_out_of_their_type_are_refused() {
    for (number, value) in [
        (2, 256),
        (2, -1),
        (3, 128),
        (4, 65536),
        (5, -32769),
        (10, 65536),
        (16, -32769),
    ] {
        let error = load(TensorProto {
            int32_data: vec![value],
            ..tensor("w", number, &[1])
        })
        .unwrap_err();
        assert_eq!(error.code(), "E0909", "{number}: {value}");
    }
    let error = load(TensorProto {
        uint64_data: vec![1 << 32],
        ..tensor("w", 12, &[1])
    })
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"tensor "w": an element is out of range for its type"#
    );
}

#[test]
fn mismatched_element_counts_are_refused_before_allocation() {
    for dims in [vec![3], vec![1 << 34], vec![], vec![1, 0]] {
        let error = load(TensorProto {
            float_data: vec![1.0, 2.0],
            ..tensor("w", 1, &dims)
        })
        .unwrap_err();
        assert_eq!(error.code(), "E0908", "{dims:?}");
    }
    let error = load(raw("w", 1, &[1 << 30], &[0; 4])).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"tensor "w": expected 4294967296 bytes of f32, found 4"#
    );
    // Elements in the list for another type are ignored.
    assert_eq!(
        load(TensorProto {
            int32_data: vec![1],
            ..tensor("w", 1, &[1])
        })
        .unwrap_err()
        .code(),
        "E0908"
    );
}

#[test]
fn sizes_at_the_boundaries_are_refused_without_overflow() {
    let boundary = [
        0,
        1,
        2,
        i64::from(i32::MAX),
        1 << 31,
        1 << 32,
        i64::MAX - 1,
        i64::MAX,
    ];
    for first in boundary {
        for second in boundary {
            for number in [1, 2, 11] {
                let result = load(tensor("w", number, &[first, second]));
                let (product, overflow) = first.overflowing_mul(second);
                match result {
                    Ok(tensor) => assert!(tensor.is_empty() && product == 0 && !overflow),
                    Err(error) => assert!(
                        ["E0902", "E0908", "E0340"].contains(&error.code()),
                        "{error}"
                    ),
                }
            }
        }
        for negative in [-1, i64::MIN] {
            assert_eq!(
                load(tensor("w", 1, &[first, negative])).unwrap_err().code(),
                "E0909"
            );
        }
    }
}

#[test]
fn empty_and_scalar_tensors_are_read() {
    assert!(
        load(raw("w", 9, &[], &[2]))
            .unwrap()
            .item::<bool>()
            .unwrap()
    );
    assert_eq!(load(tensor("w", 1, &[0, 3])).unwrap().shape(), [0, 3]);
    assert_eq!(
        load(TensorProto {
            float_data: vec![2.0],
            ..tensor("w", 1, &[])
        })
        .unwrap()
        .item::<f32>()
        .unwrap(),
        2.0
    );
}

#[test]
fn unsupported_elements_are_refused_when_they_are_needed() {
    for number in [0, 8, 14, 15, 28, 99] {
        let model = read(&model_of(tensor("w", number, &[1]))).unwrap();
        assert_eq!(
            model.graph().initializers()["w"]
                .tensor()
                .unwrap_err()
                .code(),
            "E0911"
        );
    }
}

#[test]
fn narrow_elements_become_numbers_of_a_wider_type() {
    let packed = |number, dims: &[i64], bytes: &[u8]| load(raw("w", number, dims, bytes)).unwrap();
    let nibbles = packed(22, &[3], &[0x8f, 0x07]);
    assert_eq!(nibbles.to_vec::<i8>().unwrap(), [-1, -8, 7]);
    let pairs = packed(25, &[5], &[0b11_10_01_00, 0b01]);
    assert_eq!(pairs.to_vec::<u8>().unwrap(), [0, 1, 2, 3, 1]);
    let floats = packed(17, &[2], &[0x38, 0xc0]).to_vec::<f16>().unwrap();
    assert_eq!(floats, [f16::from_f32(1.0), f16::from_f32(-2.0)]);
    let listed = load(TensorProto {
        int32_data: vec![0x21],
        ..tensor("w", 21, &[2])
    });
    assert_eq!(listed.unwrap().to_vec::<u8>().unwrap(), [1, 2]);
    let short = load(raw("w", 22, &[3], &[0x21])).unwrap_err();
    assert_eq!(short.code(), "E0908");
}

#[test]
fn segmented_or_unknown_data_locations_are_refused() {
    let segmented = TensorProto {
        segment: Some(Segment { begin: 0, end: 1 }),
        ..raw("w", 2, &[1], &[1])
    };
    let nowhere = TensorProto {
        data_location: 7,
        ..raw("w", 2, &[1], &[1])
    };
    for proto in [segmented, nowhere] {
        assert_eq!(load(proto).unwrap_err().code(), "E0909");
    }
    assert_eq!(load(tensor("w", 2, &[1; 65])).unwrap_err().code(), "E0902");
}

#[test]
fn all_tensors_together_stay_within_the_budget() {
    let limits = Limits {
        tensor_bytes: 7,
        ..Limits::default()
    };
    let graph = GraphProto {
        initializer: vec![raw("a", 2, &[4], &[0; 4]), raw("b", 2, &[4], &[0; 4])],
        ..GraphProto::default()
    };
    let bytes = prost::Message::encode_to_vec(&model(graph));
    let error = Model::from_bytes_with(&bytes, &NoFiles, &limits).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the model exceeds a limit: expected tensor_bytes of at most 7, found 8; if you trust the file, raise \
         `Limits::tensor_bytes`"
    );
}

fn sparse(
    dims: &[i64],
    values: &[u8],
    index_dims: &[i64],
    indices: &[i64],
) -> Result<Vec<u8>, Error> {
    let mut positions = tensor("", 7, index_dims);
    positions.int64_data = indices.to_vec();
    let proto = SparseTensorProto {
        values: Some(raw("w", 2, &[values.len() as i64], values)),
        indices: Some(positions),
        dims: dims.to_vec(),
    };
    let graph = GraphProto {
        sparse_initializer: vec![proto],
        ..GraphProto::default()
    };
    let model = read(&model(graph))?;
    Ok(model.graph().initializers()["w"]
        .tensor()?
        .to_vec::<u8>()
        .unwrap())
}

#[test]
fn sparse_tensors_become_dense() {
    assert_eq!(
        sparse(&[2, 3], &[7, 8], &[2], &[1, 5]).unwrap(),
        [0, 7, 0, 0, 0, 8]
    );
    assert_eq!(
        sparse(&[2, 3], &[7, 8], &[2, 2], &[0, 1, 1, 2]).unwrap(),
        [0, 7, 0, 0, 0, 8]
    );
    assert_eq!(sparse(&[4], &[], &[0], &[]).unwrap(), [0; 4]);
}

#[test]
fn malformed_sparse_tensors_are_refused() {
    for (index_dims, indices) in [
        (&[2][..], &[1, 6][..]),
        (&[2], &[-1, 2]),
        (&[2], &[2, 1]),
        (&[2], &[1, 1]),
        (&[3], &[0, 1, 2]),
        (&[2, 1], &[0, 1]),
        (&[2, 2], &[0, 1, 2, 0]),
        (&[2, 2], &[0, 1, 0, 3]),
    ] {
        assert_eq!(
            sparse(&[2, 3], &[7, 8], index_dims, indices)
                .unwrap_err()
                .code(),
            "E0909",
            "{indices:?}"
        );
    }
    assert_eq!(
        sparse(&[1 << 30], &[7], &[1], &[0]).unwrap_err().code(),
        "E0902"
    );
    let incomplete = |change: &dyn Fn(&mut SparseTensorProto)| {
        let values = Some(raw("w", 2, &[1], &[1]));
        let mut proto = SparseTensorProto {
            values,
            indices: Some(tensor("", 7, &[0])),
            dims: vec![1],
        };
        change(&mut proto);
        read(&model(GraphProto {
            sparse_initializer: vec![proto],
            ..GraphProto::default()
        }))
        .map(|_| ())
    };
    assert_eq!(
        incomplete(&|proto| proto.values = None).unwrap_err().code(),
        "E0909"
    );
    assert_eq!(
        incomplete(&|proto| proto.indices = None)
            .unwrap_err()
            .code(),
        "E0909"
    );
    assert_eq!(
        incomplete(&|proto| proto.indices = Some(tensor("", 6, &[0])))
            .unwrap_err()
            .code(),
        "E0909"
    );
    assert!(incomplete(&|proto| proto.values = Some(tensor("w", 8, &[1]))).is_ok());
}

#[test]
fn a_file_of_one_tensor_is_read() {
    let bytes = prost::Message::encode_to_vec(&raw("x", 2, &[2], &[3, 4]));
    let read = read_tensor(&bytes).unwrap();
    assert_eq!(
        (
            read.name().as_str(),
            read.tensor().unwrap().as_bytes().unwrap()
        ),
        ("x", &[3, 4][..])
    );
    assert_eq!(read_tensor(&bytes[1..]).unwrap_err().code(), "E0901");
    let elsewhere =
        prost::Message::encode_to_vec(&external("x", 2, &[1], &[entry("location", "w")]));
    assert_eq!(read_tensor(&elsewhere).unwrap_err().code(), "E0904");
}
