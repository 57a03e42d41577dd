//! Sizes and names that survive the import: symbols, constraints, declared types, exporters' idioms.

use insta::assert_snapshot;
use kiln_symbolic_shape::SymbolicDimension;
use kiln_tensor::{DType, Tensor};

use super::net::*;
use crate::ImportOptions;
use crate::proto::{GraphProto, ModelProto, NodeProto};
use crate::tests::build::entry;

fn type_of(net: GraphProto) -> String {
    type_with(net, &ImportOptions::new())
}

fn type_with(net: GraphProto, options: &ImportOptions) -> String {
    output_type(&imported(&of_version(net, 17), options).unwrap())
}

fn over(dims: &[&str], constants: &[(&str, Tensor)], nodes: Vec<NodeProto>) -> GraphProto {
    let constants = constants
        .iter()
        .map(|(name, tensor)| initializer(name, tensor))
        .collect();
    graph(vec![input("x", DType::F32, dims)], constants, nodes, &["y"])
}

#[test]
fn names_of_sizes_are_kept_and_unnamed_ones_are_symbols_of_their_own() {
    let nodes = || vec![node("Relu", "x", "y", vec![])];
    assert_eq!(
        type_of(over(&["batch", "p2o.Dim.0", "3"], &[], nodes())),
        "f32[batch, p2o.Dim.0, 3]"
    );
    assert_eq!(
        type_of(over(&["?", "-1", ""], &[], nodes())),
        "f32[x_0, x_1, x_2]"
    );
    assert_eq!(
        type_of(over(&["past + 1", "x_2", "?"], &[], nodes())),
        "f32[past___1, x_2, x_2_1]"
    );
}

#[test]
fn inputs_with_one_name_for_a_size_share_it() {
    let inputs = vec![
        input("ids", DType::I64, &["B", "S"]),
        input("mask", DType::I64, &["B", "S"]),
    ];
    let net = graph(
        inputs,
        vec![],
        vec![node("Add", "ids mask", "y", vec![])],
        &["y"],
    );
    assert_eq!(type_of(net), "i64[B, S]");
}

#[test]
fn the_caller_can_narrow_and_fix_sizes_and_set_ranks() {
    let net = || over(&["N", "S"], &[], vec![node("Relu", "x", "y", vec![])]);
    let range = SymbolicDimension::range("S", 1..=512)
        .unwrap()
        .multiple_of(8)
        .unwrap();
    let options = ImportOptions::new()
        .dim("N", SymbolicDimension::known(4))
        .dim("S", range);
    let graph = imported(&of_version(net(), 17), &options).unwrap();
    assert_eq!(output_type(&graph), "f32[4, S]");
    let symbol = graph.dims().symbol_named("S").unwrap();
    let info = graph.dims().symbol_info(symbol);
    assert_eq!((info.min(), info.max(), info.multiple()), (8, Some(512), 8));

    let mut unranked = net();
    unranked.input[0].r#type = Some(crate::proto::TypeProto {
        value: Some(crate::proto::TypeValue::Tensor(crate::proto::TensorType {
            elem_type: 1,
            shape: None,
        })),
    });
    assert_eq!(
        type_with(unranked, &ImportOptions::new().rank("x", 2)),
        "f32[x_0, x_1]"
    );

    let fixed = ImportOptions::new().fix("x", f32s(&[1, 2], &[-1.0, 2.0]));
    let graph = imported(&of_version(net(), 17), &fixed).unwrap();
    assert!(graph.inputs().is_empty());
    assert_eq!(run(&graph, &[])[0].to_vec::<f32>().unwrap(), [0.0, 2.0]);
}

#[test]
fn initializers_that_are_also_inputs_are_constants() {
    let mut net = over(
        &["N", "2"],
        &[("w", f32s(&[2], &[1.0, 2.0]))],
        vec![node("Add", "x w", "y", vec![])],
    );
    net.input.push(input("w", DType::F32, &["2"]));
    let graph = imported(&of_version(net, 17), &ImportOptions::new()).unwrap();
    assert_eq!(graph.inputs().len(), 1);
}

#[test]
fn names_origins_and_metadata_are_kept() {
    let mut named = node("Relu", "x", "h", vec![]);
    named.name = "block/relu".to_owned();
    let net = over(&["N"], &[], vec![named, node("Neg", "h", "y", vec![])]);
    let model = ModelProto {
        metadata_props: vec![entry("character", "a\nb")],
        ..of_version(net, 17)
    };
    let graph = imported(&model, &ImportOptions::new()).unwrap();
    assert_snapshot!(kiln_ir::text::print(&graph), @r#"
    graph @net(%x: f32[N]) -> f32[N]
      meta "character" = "a\nb"
    {
      %h: f32[N] = relu %x from "block/relu"
      %y: f32[N] = neg %h from "Neg:y"
      return %y
    }
    "#);
}

#[test]
fn sizes_that_travel_as_data_become_sizes_again() {
    // Shape -> Gather -> Unsqueeze -> Concat -> Reshape, as exporters write `x.view(b, s, 4, -1)`.
    let pick = |index: i64, name: &str| {
        let gathered = format!("{name}_size");
        vec![
            node("Shape", "x", &format!("{name}_shape"), vec![]),
            node(
                "Gather",
                &format!("{name}_shape at{index}"),
                &gathered,
                vec![int("axis", 0)],
            ),
            node("Unsqueeze", &format!("{gathered} axes"), name, vec![]),
        ]
    };
    let mut nodes = pick(0, "b");
    nodes.extend(pick(1, "s"));
    nodes.push(node("Concat", "b s rest", "shape", vec![int("axis", 0)]));
    nodes.push(node("Reshape", "x shape", "y", vec![]));
    let constants = [
        ("at0", Tensor::scalar(0_i64)),
        ("at1", Tensor::scalar(1_i64)),
        ("axes", i64s(&[1], &[0])),
        ("rest", i64s(&[2], &[4, -1])),
    ];
    assert_eq!(
        type_of(over(&["B", "S", "12"], &constants, nodes)),
        "f32[B, S, 4, 3]"
    );
}

#[test]
fn expand_by_a_shape_with_minus_ones_replaced_keeps_its_symbols() {
    // Where(shape == -1, ones, shape): how exporters write `expand(-1, ..)`.
    let nodes = vec![
        node("Shape", "x", "s", vec![]),
        node(
            "ConstantOfShape",
            "two",
            "ones",
            vec![crate::proto::AttributeProto {
                t: Some(Box::new(initializer("", &i64s(&[1], &[1])))),
                ..crate::tests::build::attribute("value", 4)
            }],
        ),
        node("Equal", "s minus", "is_minus", vec![]),
        node("Where", "is_minus ones s", "shape", vec![]),
        node("Expand", "one shape", "y", vec![]),
    ];
    let constants = [
        ("two", i64s(&[1], &[2])),
        ("minus", i64s(&[2], &[-1, -1])),
        ("one", f32s(&[1, 1], &[1.0])),
    ];
    assert_eq!(type_of(over(&["B", "S"], &constants, nodes)), "f32[B, S]");
}

#[test]
fn windows_resizes_and_slices_have_symbolic_sizes() {
    let conv = |attributes| {
        let w = Tensor::zeros(DType::F32, &[8, 3, 3, 3]).unwrap();
        over(
            &["N", "3", "H", "W"],
            &[("w", w)],
            vec![node("Conv", "x w", "y", attributes)],
        )
    };
    let strided = vec![ints("strides", &[2, 2]), ints("pads", &[1, 1, 1, 1])];
    assert_snapshot!(type_of(conv(strided)), @"f32[N, 8, (H + 1) / 2, (W + 1) / 2]");
    assert_snapshot!(type_of(conv(vec![text("auto_pad", "SAME_UPPER")])), @"f32[N, 8, H, W]");
    let pool = vec![
        ints("kernel_shape", &[3, 3]),
        ints("strides", &[2, 2]),
        int("ceil_mode", 1),
    ];
    let net = over(
        &["N", "3", "H", "W"],
        &[],
        vec![node("MaxPool", "x", "y", pool)],
    );
    assert_snapshot!(type_of(net), @"f32[N, 3, H / 2, W / 2]");
    let scales = ("s", f32s(&[4], &[1.0, 1.0, 2.0, 0.5]));
    let net = over(
        &["N", "3", "H", "W"],
        &[scales],
        vec![node("Resize", "x - s", "y", vec![])],
    );
    assert_snapshot!(type_of(net), @"f32[N, 3, 2*H, W / 2]");
    let bounds = [
        ("from", i64s(&[1], &[1])),
        ("to", i64s(&[1], &[i64::MAX])),
        ("at", i64s(&[1], &[1])),
    ];
    let net = over(
        &["N", "L"],
        &bounds,
        vec![node("Slice", "x from to at", "y", vec![])],
    );
    assert_snapshot!(type_of(net), @"f32[N, max(0, L - 1)]");
}

#[test]
fn paths_of_different_strides_meet_under_a_plan_fact() {
    // One path halves and doubles the size, the other keeps it: they are equal only for even sizes.
    let nodes = vec![
        node(
            "MaxPool",
            "x",
            "half",
            vec![
                ints("kernel_shape", &[2]),
                ints("strides", &[2]),
                int("ceil_mode", 1),
            ],
        ),
        node("Resize", "half - s", "back", vec![]),
        node("Add", "x back", "y", vec![]),
    ];
    let net = over(
        &["1", "1", "W"],
        &[("s", f32s(&[3], &[1.0, 1.0, 2.0]))],
        nodes,
    );
    let graph = imported(&of_version(net, 17), &ImportOptions::new()).unwrap();
    let facts = graph.dims().plan_facts();
    assert_eq!(facts.len(), 1, "{facts:?}");
    let y = run(&graph, &[f32s(&[1, 1, 4], &[1.0, 2.0, 3.0, 4.0])]);
    assert_eq!(y[0].to_vec::<f32>().unwrap(), [3.0, 4.0, 7.0, 8.0]);
}

#[test]
fn a_stale_result_size_does_not_refuse_calls() {
    let mut net = over(
        &["N"],
        &[],
        vec![node("Concat", "x x", "y", vec![int("axis", 0)])],
    );
    net.output = vec![input("y", DType::F32, &["6"])];
    let graph = imported(&of_version(net, 17), &ImportOptions::new()).unwrap();
    let x = |size: usize| Tensor::zeros(DType::F32, &[size]).unwrap();
    let options = kiln_interpreter::InterpretOptions::default();
    for size in [3, 4] {
        let outputs = kiln_interpreter::interpret(&graph, &[x(size)], &options).unwrap();
        assert_eq!(outputs[0].shape(), [2 * size]);
    }
}

/// In ONNX the 0 would copy the operand's size, which has no elements either.
#[test]
fn a_computed_size_of_zero_is_a_size_and_copies_nothing() {
    let nodes = vec![
        node("Shape", "x", "shape", vec![]),
        node("Gather", "shape order", "turned", vec![]),
        node("Reshape", "x turned", "y", vec![]),
    ];
    let constants = [("order", i64s(&[3], &[0, 2, 1]))];
    let net = over(&["B", "S", "4"], &constants, nodes);
    let graph = imported(&of_version(net, 17), &ImportOptions::new()).unwrap();
    assert_eq!(output_type(&graph), "f32[B, 4, S]");
    for (batch, seq) in [(2, 3), (0, 3), (2, 0), (0, 0)] {
        let x = Tensor::zeros(DType::F32, &[batch, seq, 4]).unwrap();
        assert_eq!(run(&graph, &[x])[0].shape(), [batch, 4, seq]);
    }
}

#[test]
fn squeezing_without_axes_requires_symbolic_sizes_not_to_be_one() {
    let net = over(
        &["N", "1", "3"],
        &[],
        vec![node("Squeeze", "x", "y", vec![])],
    );
    let graph = imported(&of_version(net, 17), &ImportOptions::new()).unwrap();
    assert_eq!(output_type(&graph), "f32[N, 3]");
    let options = kiln_interpreter::InterpretOptions::default();
    let run = |rows: usize| {
        let x = Tensor::zeros(DType::F32, &[rows, 1, 3]).unwrap();
        kiln_interpreter::interpret(&graph, &[x], &options)
            .map(|outputs| outputs[0].shape().to_vec())
    };
    assert_eq!(run(2).unwrap(), [2, 3]);
    assert!(run(1).is_err());
}
