//! The census agrees with the decoder about the contents of a file.

use prost::Message;

use super::*;
use crate::proto::{DimensionValue, TypeValue};

/// Each known message once, with the resulting numbers of messages and strings.
fn one_of_each() -> (ModelProto, u64) {
    let text = || "t".to_owned();
    let entry = || StringStringEntryProto {
        key: text(),
        value: text(),
    };
    let entries = 3;
    let tensor = || TensorProto {
        dims: vec![1, 2],
        data_type: 1,
        segment: Some(Segment { begin: 1, end: 2 }),
        float_data: vec![1.0; 3],
        int32_data: vec![300; 3],
        int64_data: vec![-1; 3],
        name: text(),
        raw_data: Bytes::from_static(b"raw"),
        double_data: vec![1.0; 3],
        uint64_data: vec![u64::MAX; 3],
        external_data: vec![entry()],
        data_location: 1,
    };
    let tensors = 4 + entries;
    let sparse = || SparseTensorProto {
        values: Some(tensor()),
        indices: Some(tensor()),
        dims: vec![3],
    };
    let sparses = 1 + 2 * tensors;
    let dimension = Dimension {
        value: Some(DimensionValue::Param(text())),
    };
    let shape = TensorShapeProto {
        dim: vec![dimension],
    };
    let tensor_type = || TensorType {
        elem_type: 1,
        shape: Some(shape.clone()),
    };
    let ty = |value| TypeProto { value: Some(value) };
    let wrap = |inner| {
        Box::new(WrapperType {
            elem_type: Some(Box::new(inner)),
        })
    };
    let types = || {
        let map = MapType {
            key_type: 1,
            value_type: Some(Box::new(ty(TypeValue::Opaque(OpaqueType {
                domain: text(),
                name: text(),
            })))),
        };
        vec![
            ty(TypeValue::Sequence(wrap(ty(TypeValue::Tensor(
                tensor_type(),
            ))))),
            ty(TypeValue::Optional(wrap(ty(TypeValue::SparseTensor(
                tensor_type(),
            ))))),
            ty(TypeValue::Map(Box::new(map))),
        ]
    };
    let all_types = 2 * (3 + 4) + (2 + 1 + 3);
    let attribute = || AttributeProto {
        name: text(),
        ref_attr_name: text(),
        kind: 1,
        f: 1.0,
        i: 1,
        s: Bytes::from_static(b"s"),
        t: Some(Box::new(tensor())),
        g: Some(Box::new(GraphProto {
            name: text(),
            ..GraphProto::default()
        })),
        sparse_tensor: Some(Box::new(sparse())),
        tp: Some(Box::new(TypeProto::default())),
        floats: vec![1.0; 3],
        ints: vec![-1; 3],
        strings: vec![Bytes::from_static(b"s"); 2],
        tensors: vec![tensor()],
        graphs: vec![GraphProto::default()],
        sparse_tensors: vec![sparse()],
        type_protos: types(),
    };
    let attributes = 6 + 2 * tensors + 3 + 2 * sparses + 1 + all_types;
    let node = || NodeProto {
        input: vec![text(), text()],
        output: vec![text()],
        name: text(),
        op_type: text(),
        domain: text(),
        overload: text(),
        attribute: vec![attribute()],
    };
    let nodes = 8 + attributes;
    let import = || OperatorSetIdProto {
        domain: text(),
        version: 1,
    };
    let value = || ValueInfoProto {
        name: text(),
        r#type: Some(TypeProto::default()),
    };
    let graph = GraphProto {
        node: vec![node()],
        name: text(),
        initializer: vec![tensor()],
        sparse_initializer: vec![sparse()],
        input: vec![value()],
        value_info: vec![],
        output: vec![value()],
    };
    let graphs = 2 + nodes + tensors + sparses + 2 * 3;
    let function = FunctionProto {
        name: text(),
        input: vec![text()],
        output: vec![text()],
        attribute: vec![text()],
        attribute_proto: vec![attribute()],
        node: vec![node()],
        opset_import: vec![import()],
        domain: text(),
        overload: text(),
    };
    let functions = 7 + attributes + nodes + 2;
    let model = ModelProto {
        ir_version: 1,
        opset_import: vec![import()],
        producer_name: text(),
        producer_version: text(),
        domain: text(),
        model_version: 1,
        graph: Some(graph),
        metadata_props: vec![entry()],
        functions: vec![function],
    };
    (model, 4 + 2 + graphs + entries + functions)
}

#[test]
fn every_known_message_and_string_is_counted() {
    let (model, count) = one_of_each();
    let bytes = model.encode_to_vec();
    assert_eq!(ModelProto::decode(&*bytes).unwrap(), model);
    let census = |messages| {
        take_census(
            &bytes,
            Kind::Model,
            &Limits {
                messages,
                ..Limits::default()
            },
        )
    };
    census(count).unwrap();
    let error = census(count - 1).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Limit {
                kind: LimitKind::Messages,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn unknown_fields_are_skipped() {
    let (model, _) = one_of_each();
    let mut bytes = model.encode_to_vec();
    // Field 20, training information, with content that is not a message; then one of each fixed width.
    bytes.extend([0xa2, 0x01, 0x03, 0xff, 0xff, 0xff]);
    bytes.extend([
        0xf1, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0xf5, 0x01, 0, 0, 0, 0, 0xf8, 0x01, 0x07,
    ]);
    take_census(&bytes, Kind::Model, &Limits::default()).unwrap();
    assert_eq!(ModelProto::decode(&*bytes).unwrap(), model);
}
