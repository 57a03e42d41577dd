//! Attributes: every type, and the errors when another type was expected.

use kiln_tensor::Tensor;

use crate::proto::{Bytes, GraphProto, SparseTensorProto, TypeProto};
use crate::tests::build::*;
use crate::{AttributeValue, Model, ModelGraph, ModelTensor, ValueType};

fn every_attribute() -> Model {
    let mut all = vec![
        attribute("float", 1),
        attribute("int", 2),
        attribute("string", 3),
        attribute("tensor", 4),
        attribute("graph", 5),
        attribute("floats", 6),
        attribute("ints", 7),
        attribute("strings", 8),
        attribute("tensors", 9),
        attribute("graphs", 10),
        attribute("sparse", 11),
        attribute("sparses", 12),
        attribute("type", 13),
        attribute("types", 14),
        attribute("flag", 2),
        attribute("bytes", 3),
        attribute("text tensor", 4),
    ];
    let sparse = SparseTensorProto {
        values: Some(raw("v", 2, &[1], &[9])),
        indices: Some(raw("i", 7, &[1], &[1, 0, 0, 0, 0, 0, 0, 0])),
        dims: vec![3],
    };
    all[0].f = 0.5;
    all[1].i = -3;
    all[2].s = Bytes::from_static(b"same");
    all[3].t = Some(Box::new(raw("", 2, &[2], &[1, 2])));
    all[4].g = Some(Box::new(GraphProto::default()));
    all[5].floats = vec![1.0, 2.0];
    all[6].ints = vec![3, 4];
    all[7].strings = vec![Bytes::from_static(b"a"), Bytes::from_static(b"b")];
    all[8].tensors = vec![raw("", 2, &[1], &[1])];
    all[9].graphs = vec![GraphProto::default(); 2];
    all[10].sparse_tensor = Some(Box::new(sparse.clone()));
    all[11].sparse_tensors = vec![sparse];
    all[12].tp = Some(Box::new(tensor_type(1, vec![])));
    all[13].type_protos = vec![TypeProto::default()];
    all[14].i = 1;
    all[15].s = Bytes::from_static(b"\xff");
    all[16].t = Some(Box::new(tensor("", 8, &[1])));
    read(&model_with(node("Everything", all))).unwrap()
}

#[test]
fn each_type_is_read_as_itself() {
    let model = every_attribute();
    let attributes = model.graph().nodes()[0].attributes();
    assert_eq!(attributes.require::<f32>("float").unwrap(), 0.5);
    assert_eq!(attributes.require::<i64>("int").unwrap(), -3);
    assert_eq!(attributes.require::<&str>("string").unwrap(), "same");
    assert_eq!(attributes.require::<&[u8]>("bytes").unwrap(), b"\xff");
    assert!(attributes.require::<bool>("flag").unwrap());
    assert_eq!(attributes.require::<&[f32]>("floats").unwrap(), [1.0, 2.0]);
    assert_eq!(attributes.require::<&[i64]>("ints").unwrap(), [3, 4]);
    assert_eq!(
        attributes.require::<&[Vec<u8>]>("strings").unwrap(),
        [b"a", b"b"]
    );
    assert_eq!(
        attributes
            .require::<&Tensor>("tensor")
            .unwrap()
            .to_vec::<u8>()
            .unwrap(),
        [1, 2]
    );
    assert_eq!(
        attributes
            .require::<&ModelTensor>("tensor")
            .unwrap()
            .name()
            .as_str(),
        "y.tensor"
    );
    assert_eq!(
        attributes
            .require::<&Tensor>("sparse")
            .unwrap()
            .to_vec::<u8>()
            .unwrap(),
        [0, 9, 0]
    );
    assert!(
        attributes
            .require::<&ModelGraph>("graph")
            .unwrap()
            .nodes()
            .is_empty()
    );
    assert_eq!(
        attributes
            .require::<&ValueType>("type")
            .unwrap()
            .to_string(),
        "f32[]"
    );
    let kinds: Vec<&str> = attributes
        .iter()
        .map(|attribute| attribute.value.kind())
        .collect();
    assert_eq!(
        kinds.join(" "),
        "float int string tensor graph floats ints strings tensors graphs tensor tensors type types int string tensor"
    );
    let Some(AttributeValue::Graphs(graphs)) = attributes.value("graphs") else {
        panic!("graphs")
    };
    assert_eq!(graphs.len(), 2);
}

#[test]
fn absent_attributes_have_their_defaults() {
    let model = every_attribute();
    let attributes = model.graph().nodes()[0].attributes();
    assert_eq!(attributes.get::<i64>("axis").unwrap(), None);
    assert_eq!(attributes.get_or("axis", -1_i64).unwrap(), -1);
    assert_eq!(attributes.get_or("int", -1_i64).unwrap(), -3);
    let error = attributes.require::<i64>("axis").unwrap_err();
    assert_eq!(error.code(), "E0914");
    assert_eq!(
        error.to_string(),
        r#"node 0 giving "y" (Everything): expected attribute "axis" of type int, found none"#
    );
}

#[test]
fn an_attribute_of_another_type_is_an_error() {
    let model = every_attribute();
    let attributes = model.graph().nodes()[0].attributes();
    let error = attributes.get::<i64>("ints").unwrap_err();
    assert_eq!(error.code(), "E0915");
    assert_eq!(
        error.to_string(),
        r#"node 0 giving "y" (Everything): expected attribute "ints" of type int, found ints"#
    );
    assert_eq!(attributes.get::<bool>("int").unwrap_err().code(), "E0915");
    assert_eq!(attributes.get::<&str>("bytes").unwrap_err().code(), "E0915");
    assert_eq!(
        attributes.get_or::<f32>("int", 0.0).unwrap_err().code(),
        "E0915"
    );
    let error = attributes.get::<&Tensor>("text tensor").unwrap_err();
    assert_eq!(error.code(), "E0911");
    assert_eq!(
        error.to_string(),
        r#"tensor "y.text tensor": elements of type string are not supported"#
    );
}

#[test]
fn malformed_attributes_are_refused() {
    for kind in [4, 5, 11, 13, 0, 15, -1] {
        let error = read(&model_with(node("Op", vec![attribute("a", kind)]))).unwrap_err();
        assert_eq!(error.code(), "E0913", "{kind}");
    }
    let twice = vec![attribute("a", 1), attribute("a", 2)];
    let error = read(&model_with(node("Op", twice))).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"malformed model: node 0 giving "y" (Op): attribute "a" comes twice"#
    );
}
