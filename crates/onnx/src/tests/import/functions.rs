//! Functions of the model, and custom operators.

use kiln_ir::ValueId;
use kiln_tensor::DType;

use super::net::*;
use crate::proto::{AttributeProto, FunctionProto, ModelProto, NodeProto};
use crate::tests::build::{attribute, opset};
use crate::{Error, ImportOptions, NodeContext};

fn function(name: &str, inputs: &str, outputs: &str, nodes: Vec<NodeProto>) -> FunctionProto {
    let names = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    FunctionProto {
        name: name.to_owned(),
        domain: "local".to_owned(),
        input: names(inputs),
        output: names(outputs),
        node: nodes,
        opset_import: vec![opset("", 17), opset("local", 1)],
        ..FunctionProto::default()
    }
}

fn call(name: &str, inputs: &str, outputs: &str, attributes: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        domain: "local".to_owned(),
        ..node(name, inputs, outputs, attributes)
    }
}

fn refers(name: &str, to: &str) -> AttributeProto {
    AttributeProto {
        ref_attr_name: to.to_owned(),
        ..attribute(name, 1)
    }
}

fn with_functions(nodes: Vec<NodeProto>, functions: Vec<FunctionProto>) -> ModelProto {
    let net = graph(vec![input("x", DType::F32, &["N"])], vec![], nodes, &["y"]);
    ModelProto {
        functions,
        opset_import: vec![opset("", 17), opset("local", 1)],
        ..of_version(net, 17)
    }
}

fn result(model: &ModelProto, x: &[f32]) -> Vec<f32> {
    let graph = imported(model, &ImportOptions::new()).unwrap();
    run(&graph, &[f32s(&[x.len()], x)])[0].to_vec().unwrap()
}

#[test]
fn calls_are_inlined_with_their_attributes() {
    let leaky = FunctionProto {
        attribute: vec!["slope".to_owned()],
        ..function(
            "Leaky",
            "a",
            "b",
            vec![node("LeakyRelu", "a", "b", vec![refers("alpha", "slope")])],
        )
    };
    let twice = FunctionProto {
        attribute_proto: vec![float("slope", 0.5)],
        ..function(
            "Twice",
            "a",
            "c",
            vec![
                call("Leaky", "a", "b", vec![refers("slope", "slope")]),
                call("Leaky", "b", "c", vec![refers("slope", "slope")]),
            ],
        )
    };
    let functions = vec![leaky, twice];
    let default = with_functions(vec![call("Twice", "x", "y", vec![])], functions.clone());
    assert_eq!(result(&default, &[-4.0, 3.0]), [-1.0, 3.0]);
    let given = vec![call("Twice", "x", "y", vec![float("slope", 0.25)])];
    let given = with_functions(given, functions.clone());
    assert_eq!(result(&given, &[-4.0, 3.0]), [-0.25, 3.0]);
    let missing = with_functions(vec![call("Leaky", "x", "y", vec![])], functions);
    let error = imported(&missing, &ImportOptions::new()).unwrap_err();
    assert_eq!(error.code(), "E0914");
}

#[test]
fn inlined_operations_name_their_call() {
    let mut inner = node("Relu", "a", "b", vec![]);
    inner.name = "activation".to_owned();
    let mut outer = call("Act", "x", "y", vec![]);
    outer.name = "layer.0".to_owned();
    let model = with_functions(vec![outer], vec![function("Act", "a", "b", vec![inner])]);
    let graph = imported(&model, &ImportOptions::new()).unwrap();
    let (_, op) = graph.ops().next().unwrap();
    assert_eq!(op.origin.as_deref(), Some("layer.0/activation"));
}

#[test]
fn an_operand_left_out_of_a_call_is_left_out_inside() {
    let clip = function(
        "Clamp",
        "a low high",
        "b",
        vec![node("Clip", "a low high", "b", vec![])],
    );
    let model = with_functions(vec![call("Clamp", "x", "y", vec![])], vec![clip]);
    assert_eq!(result(&model, &[-9.0, 9.0]), [-9.0, 9.0]);
}

#[test]
fn functions_that_call_each_other_hit_a_limit() {
    let recursive = function("Loop", "a", "b", vec![call("Loop", "a", "b", vec![])]);
    let model = with_functions(vec![call("Loop", "x", "y", vec![])], vec![recursive]);
    let error = imported(&model, &ImportOptions::new()).unwrap_err();
    assert!(error.to_string().contains("call_depth"), "{error}");
    // Each level calls the one below twice: 2^25 nodes from a small file.
    let level = |depth: usize| {
        let below = if depth == 0 {
            "Identity".to_owned()
        } else {
            format!("L{}", depth - 1)
        };
        let step = |from: &str, to: &str| {
            if depth == 0 {
                node(&below, from, to, vec![])
            } else {
                call(&below, from, to, vec![])
            }
        };
        function(
            &format!("L{depth}"),
            "a",
            "c",
            vec![step("a", "b"), step("b", "c")],
        )
    };
    let levels = (0..25).map(level).collect();
    let model = with_functions(vec![call("L24", "x", "y", vec![])], levels);
    let limits = crate::Limits {
        inlined_nodes: 10_000,
        ..crate::Limits::default()
    };
    let error = imported(&model, &ImportOptions::new().limits(limits)).unwrap_err();
    assert!(error.to_string().contains("inlined_nodes"), "{error}");
}

fn shifted_relu(ctx: &mut NodeContext<'_>) -> Result<Vec<ValueId>, Error> {
    let x = ctx.input(0)?;
    let shift = ctx.attributes().get_or("shift", 0.0_f32)?;
    let dtype = ctx.dtype(x)?;
    let y = ctx.build(|builder| {
        let shift = builder.scalar(dtype, f64::from(shift))?;
        let sum = builder.add(x, shift)?;
        builder.relu(sum)
    })?;
    assert_eq!(
        (ctx.version(), ctx.n_inputs(), ctx.is_nested()),
        (1, 1, false)
    );
    Ok(vec![y])
}

#[test]
fn operators_of_the_caller_are_imported_by_the_caller() {
    let model = with_functions(
        vec![call("ShiftedRelu", "x", "y", vec![float("shift", 1.0)])],
        vec![],
    );
    let error = imported(&model, &ImportOptions::new()).unwrap_err();
    insta::assert_snapshot!(error, @r#"the model uses operators that are not supported: local::ShiftedRelu (1 node: node 0 giving "y" (local::ShiftedRelu)); add them with `ImportOptions::operator`, or export the model without them"#);
    let options = ImportOptions::new().operator("local", "ShiftedRelu", shifted_relu);
    let graph = imported(&model, &options).unwrap();
    let y = run(&graph, &[f32s(&[3], &[-2.0, -0.5, 1.0])]);
    assert_eq!(y[0].to_vec::<f32>().unwrap(), [0.0, 0.5, 2.0]);
    assert!(format!("{options:?}").contains("ShiftedRelu"));
}

#[test]
fn the_caller_may_replace_a_standard_operator() {
    let net = graph(
        vec![input("x", DType::F32, &["N"])],
        vec![],
        vec![node("Relu", "x", "y", vec![])],
        &["y"],
    );
    let negate = |ctx: &mut NodeContext<'_>| {
        let x = ctx.input(0)?;
        Ok(vec![ctx.map("neg", &[x])?])
    };
    let options = ImportOptions::new().operator("ai.onnx", "Relu", negate);
    let graph = imported(&of_version(net, 17), &options).unwrap();
    assert_eq!(
        run(&graph, &[f32s(&[1], &[2.0])])[0]
            .to_vec::<f32>()
            .unwrap(),
        [-2.0]
    );
}
