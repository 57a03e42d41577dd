//! Rejected models, and their error messages.

use insta::assert_snapshot;
use kiln_shape_inference::Mode;
use kiln_symbolic_shape::SymbolicDimension;
use kiln_tensor::{DType, Tensor};

use super::net::*;
use crate::proto::{GraphProto, NodeProto, TensorType, TypeProto, TypeValue};
use crate::tests::build::{tensor_type, value};
use crate::{Error, ImportOptions};

fn one_input(nodes: Vec<NodeProto>) -> GraphProto {
    graph(
        vec![input("x", DType::F32, &["N", "3"])],
        vec![],
        nodes,
        &["y"],
    )
}

fn error(net: GraphProto) -> Error {
    error_with(net, &ImportOptions::new())
}

fn error_with(net: GraphProto, options: &ImportOptions) -> Error {
    imported(&of_version(net, 17), options).unwrap_err()
}

#[test]
fn one_error_lists_every_unsupported_operator() {
    let mut nodes: Vec<NodeProto> = (0..5)
        .map(|index| node("StringSplit", "x", &format!("s{index}"), vec![]))
        .collect();
    let inner = graph(
        vec![],
        vec![],
        vec![node("Frobnicate\u{1b}[2J", "x", "b", vec![])],
        &["b"],
    );
    let branches = vec![
        body("then_branch", inner.clone()),
        body("else_branch", inner),
    ];
    nodes.push(node("If", "nowhere", "i", branches));
    nodes.push(node("Gelu", "x", "y", vec![]));
    let error = error(one_input(nodes));
    assert_eq!(error.code(), "E0916");
    assert_snapshot!(error, @r#"the model uses operators that are not supported: "Frobnicate\u{1b}[2J" (2 nodes: node 5 giving "i" (If), "then_branch" > node 0 giving "b" ("Frobnicate\u{1b}[2J"), node 5 giving "i" (If), "else_branch" > node 0 giving "b" ("Frobnicate\u{1b}[2J")); Gelu of version 17 (1 node: node 6 giving "y" (Gelu)); StringSplit (5 nodes: node 0 giving "s0" (StringSplit), node 1 giving "s1" (StringSplit), node 2 giving "s2" (StringSplit), …); add them with `ImportOptions::operator`, or export the model without them"#);
}

#[test]
fn names_that_do_not_fit_together_are_refused() {
    let undefined = error(one_input(vec![node("Add", "x z", "y", vec![])]));
    assert_snapshot!(undefined, @r#"node 0 giving "y" (Add): its operand "z" is undefined"#);
    let twice = error(one_input(vec![
        node("Relu", "x", "y", vec![]),
        node("Relu", "x", "y", vec![]),
    ]));
    assert_snapshot!(twice, @r#"node 1 giving "y" (Relu): expected a new name for each result, found "y" a second time"#);
    let absent = error(one_input(vec![node("Relu", "x", "z", vec![])]));
    assert_snapshot!(absent, @r#"malformed model: the output "y" is undefined"#);
    let operand = error(one_input(vec![node("Add", "x", "y", vec![])]));
    assert_snapshot!(operand, @r#"node 0 giving "y" (Add): operand 1: expected a value, found none"#);
    let mut inputs = one_input(vec![]);
    inputs.input.push(inputs.input[0].clone());
    assert_snapshot!(error(inputs), @r#"malformed model: two inputs have the name "x""#);
}

#[test]
fn a_missing_importer_result_is_refused_at_its_reader() {
    let norm = |outputs: &str| node("BatchNormalization", "p s s s s", outputs, vec![]);
    let net = |nodes| {
        graph(
            vec![
                input("p", DType::F32, &["N", "1", "L"]),
                input("s", DType::F32, &["1"]),
            ],
            vec![],
            nodes,
            &["y"],
        )
    };
    assert!(
        imported(
            &of_version(net(vec![norm("y indices")]), 17),
            &ImportOptions::new()
        )
        .is_ok()
    );
    let read = net(vec![
        norm("m indices"),
        node("Identity", "indices", "y", vec![]),
    ]);
    assert_snapshot!(error(read), @r#"node 0 giving "m" (BatchNormalization): not supported: its result "indices", which node 1 giving "y" (Identity) reads"#);
    assert_snapshot!(error(net(vec![norm("m y")])), @r#"node 0 giving "m" (BatchNormalization): not supported: its result "y""#);
}

#[test]
fn inputs_of_unsupported_types_are_refused() {
    let with = |ty: TypeProto| {
        let nodes = vec![node("Identity", "x", "y", vec![])];
        error(graph(vec![value("x", ty)], vec![], nodes, &["y"]))
    };
    assert_snapshot!(with(tensor_type(8, vec![])), @r#"input "x": expected a tensor of a supported element type, found a tensor of string"#);
    let unranked = TypeProto {
        value: Some(TypeValue::Tensor(TensorType {
            elem_type: 1,
            shape: None,
        })),
    };
    assert_snapshot!(with(unranked), @r#"input "x": expected a known rank, found none; give one with the option `rank` (`--rank` on the command line)"#);
    let mut untyped = graph(
        vec![output("x")],
        vec![],
        vec![node("Identity", "x", "y", vec![])],
        &["y"],
    );
    assert_snapshot!(error(untyped.clone()), @r#"input "x": expected a tensor of a supported element type, found no type"#);
    untyped.input[0].r#type = Some(TypeProto { value: None });
    assert_eq!(error(untyped).code(), "E0923");
}

#[test]
fn errors_of_inference_name_the_node_the_operands_and_both_shapes() {
    let mut wrong = node("MatMul", "x x", "y", vec![]);
    wrong.name = "head/MatMul".to_owned();
    let net = graph(
        vec![input("x", DType::F32, &["N", "2", "3"])],
        vec![],
        vec![wrong],
        &["y"],
    );
    let error = error(net);
    assert_eq!(error.code(), "E0331");
    assert_snapshot!(error, @r#"node 0 "head/MatMul" (MatMul): matmul (head/MatMul): inner sizes of %x: f32[N, 2, 3] and %x: f32[N, 2, 3] differ: expected 3, found 2"#);
}

#[test]
fn caller_options_must_fit_the_model() {
    let net = || one_input(vec![node("Relu", "x", "y", vec![])]);
    let dims = ImportOptions::new().dim("seq", SymbolicDimension::named("seq"));
    assert_snapshot!(error_with(net(), &dims), @r#"expected one of the model's sizes ["N"], found "seq""#);
    let rank = ImportOptions::new().rank("z", 2);
    assert_snapshot!(error_with(net(), &rank), @r#"expected one of the model's inputs ["x"], found "z""#);
    let fixed = ImportOptions::new().fix("x", Tensor::scalar(1_i64));
    assert_snapshot!(error_with(net(), &fixed), @r#"input "x": expected a constant of f32[N, 3], found i64[]"#);
    let fixed = ImportOptions::new().fix("x", f32s(&[1, 2], &[0.0; 2]));
    assert_eq!(error_with(net(), &fixed).code(), "E0925");
}

#[test]
fn a_stated_type_that_is_wrong_is_refused_in_strict_mode_alone() {
    let mut net = one_input(vec![node("Relu", "x", "y", vec![])]);
    net.output = vec![input("y", DType::F32, &["N", "4"])];
    let strict = ImportOptions::new().mode(Mode::Strict);
    assert_snapshot!(error_with(net.clone(), &strict), @r#"stated type of "y": builder: type of %y: expected f32[N, 3], found f32[N, 4]"#);
    let graph = imported(&of_version(net, 17), &ImportOptions::new()).unwrap();
    assert_eq!(output_type(&graph), "f32[N, 3]");
}

#[test]
fn cyclic_nodes_are_refused_with_the_cycle() {
    let nodes = vec![
        node("Relu", "x", "h", vec![]),
        node("Add", "h c", "a", vec![]),
        node("Neg", "a", "b", vec![]),
        node("Exp", "b", "c", vec![]),
        node("Neg", "c", "y", vec![]),
    ];
    let longer = error(one_input(nodes));
    assert_eq!(longer.code(), "E0944");
    assert_snapshot!(longer, @r#"expected nodes that can run one after the other, found a cycle: node 1 giving "a" (Add), node 3 giving "c" (Exp), node 2 giving "b" (Neg)"#);
    let own = error(one_input(vec![node("Add", "x y", "y", vec![])]));
    assert_snapshot!(own, @r#"expected nodes that can run one after the other, found a cycle: node 0 giving "y" (Add)"#);
}

#[test]
fn an_attribute_that_became_an_operand_is_refused() {
    let clip = || one_input(vec![node("Clip", "x", "y", vec![float("max", 6.0)])]);
    assert!(imported(&of_version(clip(), 6), &ImportOptions::new()).is_ok());
    let error = error(clip());
    assert_eq!(error.code(), "E0921");
    assert_snapshot!(error, @r#"node 0 giving "y" (Clip): attribute "max": expected an operand instead, as required since version 11, found an attribute"#);
}

#[test]
fn stated_sizes_that_operators_do_not_confirm_are_ignored() {
    let stating = |first: &str, second: &str| {
        let nodes = vec![
            node("Relu", "x", "h", vec![]),
            node("Neg", "h", "y", vec![]),
        ];
        let mut net = one_input(nodes);
        net.value_info = vec![input("h", DType::F32, &[first, "3"])];
        net.output = vec![input("y", DType::F32, &[second, "3"])];
        crate::tests::build::read(&of_version(net, 17)).unwrap()
    };
    let import = |model, mode| crate::import_reporting(&model, &ImportOptions::new().mode(mode));
    // The operators imply N: other shapes declared by the model do not constrain calls.
    for second in ["8", "9"] {
        let imported = import(stating("8", second), Mode::Lenient).unwrap();
        assert_eq!(output_type(&imported.graph), "f32[N, 3]");
        assert!(imported.graph.dims().contract_facts().is_empty());
        let wrong: Vec<_> = imported
            .wrong_types
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            wrong,
            [
                r#"type of "h": the model states f32[8, 3], its operators give f32[N, 3]; the latter is used"#
                    .to_owned(),
                format!(
                    r#"type of "y": the model states f32[{second}, 3], its operators give f32[N, 3]; the latter is used"#
                ),
            ]
        );
        let error = import(stating("8", second), Mode::Strict).unwrap_err();
        assert!(
            error.to_string().starts_with(r#"stated type of "h""#),
            "{error}"
        );
    }
    let confirmed = import(stating("N", "N"), Mode::Strict).unwrap();
    assert!(confirmed.wrong_types.is_empty());
}

#[test]
fn a_tensor_of_an_unsupported_element_type_is_refused_where_it_is_used() {
    let strings = |name: &str| crate::tests::build::tensor(name, 8, &[1]);
    let mut net = one_input(vec![node("Relu", "x", "y", vec![])]);
    net.initializer = vec![strings("labels")];
    assert!(imported(&of_version(net.clone(), 17), &ImportOptions::new()).is_ok());
    net.node = vec![node("Identity", "labels", "y", vec![])];
    assert_snapshot!(error(net), @r#"tensor "labels": elements of type string are not supported"#);
}
