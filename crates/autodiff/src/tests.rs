//! Graphs that are rejected, and the error messages.

use crate::{
    GradientContext, GradientError, GradientRequest, GradientRules, append_gradients,
    differentiate, differentiate_with,
};
use kiln_interpreter::{InterpretOptions, interpret};
use kiln_ir::{BlobMap, Definition, Graph, Type, ValueId};
use kiln_shape_inference::{GraphBuilder, InferError};
use kiln_shape_inference::{Inferred, ShapeInferenceEngine, read_graph, read_graph_with};
use kiln_tensor::{DType, Tensor};
use std::sync::Arc;

fn graph(text: &str) -> Graph {
    let text = format!("graph @main{text}");
    read_graph(&text, &BlobMap::new()).unwrap_or_else(|errors| panic!("{}", errors.render(&text)))
}

fn refusal(text: &str, request: &GradientRequest) -> (String, &'static str) {
    let error = differentiate(&graph(text), request).expect_err("it is refused");
    (error.to_string(), error.code())
}

#[test]
fn inputs_and_outputs_that_do_not_fit_are_refused() {
    let text = "(%x: f32[N], %i: i64[N]) -> (f32[N], i64[N]) { return \"y\" = %x, \"j\" = %i }";
    let with = GradientRequest::with_cotangents;
    assert_eq!(
        refusal(text, &with(&[0], &[2])),
        ("there is no input 2: the graph has 2".to_owned(), "E0601")
    );
    assert_eq!(
        refusal(text, &with(&[1], &[0])),
        (
            "output `j` cannot be differentiated: expected a tensor of floats, found i64[N]"
                .to_owned(),
            "E0602"
        )
    );
    assert_eq!(
        refusal(text, &with(&[0], &[1])),
        (
            "input `i` cannot be differentiated: expected a tensor of floats, found i64[N]"
                .to_owned(),
            "E0602"
        )
    );
    let (message, code) = refusal(text, &GradientRequest::of_scalar(0, &[0]));
    assert!(
        message.starts_with("output `y` has type f32[N]"),
        "{message}"
    );
    assert_eq!(code, "E0603");
}

#[test]
fn an_op_without_a_derivative_is_named_with_its_path() {
    let text = "(%x: f32[N]) -> f32[N] { %a = exp %x %b = floor %a %c = neg %b return \"y\" = %c }";
    let (message, code) = refusal(text, &GradientRequest::with_cotangents(&[0], &[0]));
    assert_eq!(
        message,
        "input `x` reaches the outputs only through floor (%2), which has no derivative; path: exp (%1) -> floor (%2) -> \
         neg (%3); mark an operand with `stop_gradient` if its gradient is to be zero"
    );
    assert_eq!(code, "E0604");
}

#[test]
fn a_stopped_or_unused_input_has_a_gradient_of_zero() {
    let text = "(%x: f32[N], %y: f32[N]) -> f32[N] { %a = stop_gradient %x %b = floor %a return \"z\" = %b }";
    let request = GradientRequest::with_cotangents(&[0], &[0, 1]);
    let joint = differentiate(&graph(text), &request).expect("the path is stopped");
    assert_eq!(joint.gradients, [1, 2]);
    let names: Vec<&str> = joint
        .graph
        .output_names()
        .iter()
        .map(|name| &**name)
        .collect();
    assert_eq!(names, ["z", "d_x", "d_y"]);
    for &output in &joint.graph.outputs()[1..] {
        let shown = joint
            .graph
            .ty(output)
            .display(joint.graph.dims())
            .to_string();
        assert_eq!(shown, "f32[N]");
    }
}

#[test]
fn a_path_around_an_op_without_a_derivative_is_enough() {
    let text = "(%x: f32[N]) -> f32[N] { %a = floor %x %b = mul %a, %x return \"y\" = %b }";
    let request = GradientRequest::with_cotangents(&[0], &[0]);
    assert!(differentiate(&graph(text), &request).is_ok());
}

/// An engine and a graph with one custom op.
fn custom() -> (ShapeInferenceEngine, Graph) {
    let mut engine = ShapeInferenceEngine::new();
    engine.register_custom("twice", |ctx, node| {
        Ok(Inferred::of(Type::Tensor(ctx.tensor(node, 0)?)))
    });
    let text = "graph @main(%x: f32[N]) -> f32[N] { %y: f32[N] = custom %x {name = \"twice\", arguments = \"\"} return \"y\" = %y }";
    let graph = read_graph_with(text, &BlobMap::new(), &engine)
        .unwrap_or_else(|errors| panic!("{}", errors.render(text)));
    (engine, graph)
}

#[test]
fn custom_ops_use_their_registered_gradient() {
    let (engine, graph) = custom();
    let request = GradientRequest::with_cotangents(&[0], &[0]);
    let refused = differentiate_with(&graph, &request, &GradientRules::new(), &engine);
    assert!(
        matches!(&refused, Err(error) if error.code() == "E0605"),
        "{refused:?}"
    );

    let mut rules = GradientRules::new();
    let twice =
        |context: &mut GradientContext<'_, '_>| -> Result<Vec<Option<ValueId>>, GradientError> {
            let cotangent = context.cotangent(0)?;
            Ok(vec![Some(context.builder.add(cotangent, cotangent)?)])
        };
    rules.register("twice", Arc::new(twice));
    let joint = differentiate_with(&graph, &request, &rules, &engine).expect("there is a gradient");
    assert_eq!(joint.gradients.len(), 1);

    let none = |_: &mut GradientContext<'_, '_>| Ok(Vec::new());
    rules.register("twice", Arc::new(none));
    let refused = differentiate_with(&graph, &request, &rules, &engine);
    assert!(
        matches!(&refused, Err(error) if error.code() == "E0606"),
        "{refused:?}"
    );
}

#[test]
fn a_loop_whose_carried_sizes_change_is_refused() {
    let text = "(%x: f32[N], %n: i64[]) -> f32[] {
        %t: bool[] = constant [true]
        %y: f32[m] = loop %n, %t, %x {carried = 1} -> (m)
          region(%i: i64[], %s: f32[k]) -> (k) {
            %c: bool[] = constant [true]
            %sq = square %s
            %d = concat %sq, %s {axis = 0}
            yield %c, %d
          }
        %sum = reduce %y {function = sum, axes = [0]}
        return \"sum\" = %sum
    }";
    let (message, code) = refusal(text, &GradientRequest::of_scalar(0, &[0]));
    assert_eq!(code, "E0607");
    assert!(
        message.contains("the size of carried value 0 changes"),
        "{message}"
    );
}

/// `sum(h_3)` with `h_(t+1) = tanh(w * h_t)` and `h_0 = x`.
fn recurrence(b: &mut GraphBuilder) -> Result<[ValueId; 3], InferError> {
    let n = b.symbol("N")?;
    let (x, w) = (
        b.input("x", DType::F64, &[n]),
        b.input("w", DType::F64, &[n]),
    );
    let trips = b.scalar(DType::I64, 3.0)?;
    let last = b.repeat(trips, &[x], &[w], |b, _, carried, captures| {
        let product = b.mul(carried[0], captures[0])?;
        Ok::<_, InferError>((vec![b.tanh(product)?], Vec::new()))
    })?;
    Ok([x, w, b.reduce_sum(last[0], &[0], false)?])
}

#[test]
fn appended_gradients_equal_those_of_the_joint_graph() {
    let inputs = [[0.3, -0.7], [1.1, 0.4]].map(|row| Tensor::from_slice(&[2], &row).unwrap());
    let run = |graph: &Graph| -> Vec<Vec<f64>> {
        let outputs = interpret(graph, &inputs, &InterpretOptions::default()).unwrap();
        outputs
            .iter()
            .map(|output| output.to_vec().unwrap())
            .collect()
    };
    let mut b = GraphBuilder::new("main");
    let [_, _, sum] = recurrence(&mut b).unwrap();
    let plain = b.finish(&[("sum", sum)]).unwrap();
    let joint = differentiate(&plain, &GradientRequest::of_scalar(0, &[0, 1])).unwrap();

    let mut b = GraphBuilder::new("main");
    let [x, w, sum] = recurrence(&mut b).unwrap();
    let slopes = append_gradients(&mut b, &[(sum, None)], &[x, w], &GradientRules::new()).unwrap();
    let appended = b
        .finish(&[("sum", sum), ("d_x", slopes[0]), ("d_w", slopes[1])])
        .unwrap();
    assert_eq!(run(&joint.graph), run(&appended));
}

#[test]
fn a_gradient_with_respect_to_an_intermediate_value_is_complete() {
    let mut b = GraphBuilder::new("main");
    let n = b.symbol("N").unwrap();
    let x = b.input("x", DType::F64, &[n]);
    let y = b.square(x).unwrap();
    let z = b.mul(y, y).unwrap();
    let sum = b.reduce_sum(z, &[0], false).unwrap();
    let slopes = append_gradients(&mut b, &[(sum, None)], &[y, x], &GradientRules::new()).unwrap();
    let graph = b.finish(&[("d_y", slopes[0]), ("d_x", slopes[1])]).unwrap();
    let x = Tensor::from_slice(&[1], &[3.0_f64]).unwrap();
    let outputs = interpret(&graph, &[x], &InterpretOptions::default()).unwrap();
    // z = x^4 = y^2.
    assert_eq!(outputs[0].to_vec::<f64>().unwrap(), [18.0]);
    assert_eq!(outputs[1].to_vec::<f64>().unwrap(), [108.0]);
}

#[test]
fn equal_maxima_of_a_reduction_share_the_gradient() {
    let graph = graph(
        "(%x: f64[N]) -> f64[] { %y = reduce %x {function = max, axes = [0]} return \"y\" = %y }",
    );
    let joint = differentiate(&graph, &GradientRequest::of_scalar(0, &[0])).unwrap();
    let x = Tensor::from_slice(&[3], &[2.0_f64, 2.0, 1.0]).unwrap();
    let outputs = interpret(&joint.graph, &[x], &InterpretOptions::default()).unwrap();
    assert_eq!(outputs[1].to_vec::<f64>().unwrap(), [0.5, 0.5, 0.0]);
}

#[test]
fn of_equal_elements_of_a_window_the_first_gets_the_gradient() {
    let gradient = |window: &str, x: &[f64]| -> Vec<f64> {
        let text = format!(
            "(%x: f64[1, 1, W]) -> f64[] {{
               %y = pool %x {{function = max, {window}, dilations = [1]}}
               %s = reduce %y {{function = sum, axes = [0, 1, 2]}}
               return \"s\" = %s
             }}"
        );
        let joint = differentiate(&graph(&text), &GradientRequest::of_scalar(0, &[0])).unwrap();
        let scatters = joint
            .graph
            .ops()
            .filter(|(_, data)| data.op.mnemonic().starts_with("scatter"));
        assert_eq!(scatters.count(), 0);
        let x = Tensor::from_slice(&[1, 1, x.len()], x).unwrap();
        let outputs = interpret(&joint.graph, &[x], &InterpretOptions::default()).unwrap();
        outputs[1].to_vec().unwrap()
    };
    let apart = "size = [2], strides = [2], low = [0], high = [0]";
    assert_eq!(
        gradient(apart, &[1.0, 1.0, 2.0, 2.0, 7.0]),
        [1.0, 0.0, 1.0, 0.0, 0.0]
    );
    let overlapping = "size = [3], strides = [1], low = [1], high = [1]";
    assert_eq!(
        gradient(overlapping, &[3.0, 3.0, 1.0, 3.0]),
        [2.0, 1.0, 0.0, 1.0]
    );
    // Padding is lower than any element, and a window that contains only padding has no maximum.
    let padded = "size = [2], strides = [2], low = [3], high = [4]";
    let lowest = f64::NEG_INFINITY;
    assert_eq!(gradient(padded, &[lowest, lowest, lowest]), [1.0, 1.0, 0.0]);
}

/// Whether the gradient of a recurrence's matrix is one product after the loop, rather than a sum that the loop
/// carries.
fn is_product_after_the_loop(width: usize, batch: usize) -> bool {
    let text = format!(
        "(%x: f64[T, {batch}, {width}], %w: f64[{width}, {width}], %h: f64[{batch}, {width}]) -> f64[] {{
           %0 = dims {{sizes = [T]}}
           %n = reshape %0 {{dims = []}}
           %t: bool[] = constant [true]
           %last = loop %n, %t, %h, %x, %w {{carried = 1}}
             region(%i: i64[], %s: f64[{batch}, {width}], %xs: f64[T, {batch}, {width}], %ws: f64[{width}, {width}]) {{
               %c: bool[] = constant [true]
               %row = gather %xs, %i {{axis = 0}}
               %p = matmul %s, %ws
               %q = add %p, %row
               %z = tanh %q
               yield %c, %z
             }}
           %sum = reduce %last {{function = sum, axes = [0, 1]}}
           return \"sum\" = %sum
         }}"
    );
    let joint = differentiate(&graph(&text), &GradientRequest::of_scalar(0, &[1])).unwrap();
    let gradient = joint.graph.outputs()[joint.gradients[0]];
    let Definition::Result { op, .. } = joint.graph.value(gradient).definition else {
        panic!("a gradient is computed")
    };
    joint.graph.op(op).op.mnemonic() == "matmul"
}

#[test]
fn products_with_a_matrix_leave_the_loop_where_that_moves_fewer_bytes() {
    assert!(is_product_after_the_loop(128, 8));
    // Stacking 4096 rows of 3 costs more than adding a matrix of 9 elements.
    assert!(!is_product_after_the_loop(3, 4096));
}
