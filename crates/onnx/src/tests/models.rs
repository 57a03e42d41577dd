//! Whole models: the parts that are preserved.

use crate::proto::{
    DimensionValue, FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, TypeValue,
    WrapperType,
};
use crate::tests::build::*;
use crate::{AttributeValue, Dim, Model, NoFiles, ValueType};

#[test]
fn names_sizes_and_metadata_are_kept() {
    let named = |name: &str| DimensionValue::Param(name.to_owned());
    let sizes = vec![
        named("batch"),
        DimensionValue::Value(3),
        named("?"),
        DimensionValue::Value(-1),
    ];
    let sequence = TypeProto {
        value: Some(TypeValue::Sequence(Box::new(WrapperType {
            elem_type: Some(Box::new(tensor_type(8, vec![]))),
        }))),
    };
    let proto = ModelProto {
        producer_name: "writer".to_owned(),
        producer_version: "2".to_owned(),
        metadata_props: vec![entry("character", "a\nb\n"), entry("author", "")],
        opset_import: vec![opset("ai.onnx", 12), opset("com.example", 3)],
        ..model(GraphProto {
            name: "main".to_owned(),
            input: vec![
                value("x", tensor_type(1, sizes)),
                value("w", tensor_type(7, vec![])),
                value("s", sequence),
            ],
            output: vec![Default::default()],
            initializer: vec![raw("w", 7, &[], &[7, 0, 0, 0, 0, 0, 0, 0])],
            ..GraphProto::default()
        })
    };
    let model = read(&proto).unwrap();
    assert_eq!(model.ir_version(), 8);
    assert_eq!(model.producer(), ("writer", "2"));
    assert_eq!(model.opsets().standard(), Some(12));
    assert_eq!(
        model.opsets().iter().collect::<Vec<_>>(),
        [("", 12), ("com.example", 3)]
    );
    assert_eq!(model.metadata()["character"], "a\nb\n");
    let graph = model.graph();
    assert_eq!(graph.name(), "main");
    assert_eq!(graph.outputs()[0].ty, None);
    let types: Vec<String> = graph
        .inputs()
        .iter()
        .flat_map(|input| &input.ty)
        .map(ValueType::to_string)
        .collect();
    assert_eq!(
        types,
        ["f32[batch, 3, ?, ?]", "i64[]", "sequence<string[]>"]
    );
    let Some(ValueType::Tensor {
        shape: Some(shape), ..
    }) = &graph.inputs()[0].ty
    else {
        panic!("a tensor")
    };
    assert_eq!(shape[2..], [Dim::Anonymous, Dim::Anonymous]);
    let required: Vec<&str> = graph
        .required_inputs()
        .map(|input| input.name.as_str())
        .collect();
    assert_eq!(required, ["x", "s"]);
    assert_eq!(
        graph.initializers()["w"]
            .tensor()
            .unwrap()
            .item::<i64>()
            .unwrap(),
        7
    );
}

#[test]
fn nodes_and_bodies_have_their_location() {
    let body = GraphProto {
        node: vec![NodeProto {
            domain: "com.example".to_owned(),
            ..node("Odd Op", vec![])
        }],
        ..GraphProto::default()
    };
    let mut then_branch = attribute("then_branch", 5);
    then_branch.g = Some(Box::new(body));
    let outer = NodeProto {
        name: "if\x1b0".to_owned(),
        domain: "ai.onnx".to_owned(),
        ..node("If", vec![then_branch])
    };
    let model = read(&model_with(outer)).unwrap();
    let outer = &model.graph().nodes()[0];
    assert_eq!(
        (
            outer.name(),
            outer.op_type(),
            outer.domain(),
            outer.overload()
        ),
        ("if\x1b0", "If", "", "")
    );
    assert_eq!(
        (outer.input(0), outer.input(1), outer.output(0)),
        (Some("x"), None, Some("y"))
    );
    assert_eq!(outer.path(), r#"node 0 "if\u{1b}0" (If)"#);
    let Some(AttributeValue::Graph(body)) = outer.attributes().value("then_branch") else {
        panic!("a graph")
    };
    assert_eq!(
        body.nodes()[0].path(),
        r#"node 0 "if\u{1b}0" (If), "then_branch" > node 0 giving "y" (com.example::"Odd Op")"#
    );
}

#[test]
fn functions_are_kept() {
    let mut reference = attribute("alpha", 1);
    reference.ref_attr_name = "slope".to_owned();
    let mut default = attribute("slope", 1);
    default.f = 0.5;
    let function = FunctionProto {
        name: "leaky".to_owned(),
        domain: "com.example".to_owned(),
        overload: "v2".to_owned(),
        input: vec!["x".to_owned()],
        output: vec!["y".to_owned()],
        attribute: vec!["bias".to_owned()],
        attribute_proto: vec![default],
        opset_import: vec![opset("", 16)],
        node: vec![node("LeakyRelu", vec![reference])],
    };
    let proto = ModelProto {
        functions: vec![function],
        ..model(GraphProto::default())
    };
    let model = read(&proto).unwrap();
    let function = &model.functions()[0];
    assert_eq!(
        (function.domain(), function.name(), function.overload()),
        ("com.example", "leaky", "v2")
    );
    assert_eq!(
        (function.inputs(), function.outputs()),
        (&["x".to_owned()][..], &["y".to_owned()][..])
    );
    assert_eq!(function.required_attributes(), ["bias"]);
    assert_eq!(function.optional_attributes()[0].name, "slope");
    assert_eq!(function.opsets().standard(), Some(16));
    let node = &function.nodes()[0];
    assert_eq!(
        node.path(),
        r#"function "leaky" > node 0 giving "y" (LeakyRelu)"#
    );
    let Some(AttributeValue::Reference(name)) = node.attributes().value("alpha") else {
        panic!("a reference")
    };
    assert_eq!(name, "slope");
}

#[test]
fn unsupported_versions_are_refused() {
    let with = |imports| {
        read(&ModelProto {
            opset_import: imports,
            ..model(GraphProto::default())
        })
    };
    for version in [1, 28] {
        assert!(with(vec![opset("", version)]).is_ok());
    }
    for version in [i64::MIN, -1, 0, 29, i64::MAX] {
        assert_eq!(with(vec![opset("", version)]).unwrap_err().code(), "E0912");
    }
    assert_eq!(with(vec![]).unwrap_err().code(), "E0913");
    assert_eq!(
        with(vec![opset("", 17), opset("ai.onnx", 18)])
            .unwrap_err()
            .code(),
        "E0913"
    );
    assert!(with(vec![opset("", 17), opset("ai.onnx", 17)]).is_ok());
    assert_eq!(
        with(vec![opset("com.example", 1)])
            .unwrap()
            .opsets()
            .standard(),
        None
    );
}

#[test]
fn a_model_without_a_graph_or_with_equal_names_is_refused() {
    assert_eq!(
        Model::from_bytes(b"", &NoFiles).unwrap_err().code(),
        "E0901"
    );
    let double = GraphProto {
        initializer: vec![raw("w", 2, &[1], &[1]), raw("w", 2, &[1], &[2])],
        ..GraphProto::default()
    };
    let nameless = GraphProto {
        initializer: vec![raw("", 2, &[1], &[1])],
        ..GraphProto::default()
    };
    for graph in [double, nameless] {
        assert_eq!(read(&model(graph)).unwrap_err().code(), "E0913");
    }
    assert_eq!(
        read(&model_with(node("", vec![]))).unwrap_err().code(),
        "E0913"
    );
}
