//! Control flow, data-dependent sizes, modes, limits, traces and custom ops.

use crate::support::{error, graph, output, run, tensor, zeros};
use insta::assert_snapshot;
use kiln_interpreter::{
    CustomOp, CustomOps, EvaluateContext, InterpretError, InterpretLimits, InterpretOptions,
    evaluate_op, interpret,
};
use kiln_ir::{Dims, Graph, NewOp, Op, Type};
use kiln_scalar::{Function, Mode};
use kiln_shape_inference::{GraphBuilder, InferError, LoopBody};
use kiln_symbolic_shape::{Binding, DimTable};
use kiln_tensor::{DType, Tensor, TensorError, f16};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

const BRANCH: &str = "graph @g(%c: bool[], %x: f32[N]) -> f32[N] {
    %y: f32[N] = if %c, %x
        region(%a: f32[N]) { %0: f32[N] = neg %a yield %0 }
        region(%b: f32[N]) { yield %b }
    return %y
}";

#[test]
fn only_the_taken_branch_runs() {
    let x = tensor(&[2], &[1.0f32, 2.0]);
    assert_eq!(
        output::<f32>(BRANCH, &[Tensor::scalar(true), x.clone()]),
        [-1.0, -2.0]
    );
    assert_eq!(
        output::<f32>(BRANCH, &[Tensor::scalar(false), x]),
        [1.0, 2.0]
    );
}

/// A vector whose size doubles each time, and the sizes it had.
fn doubling() -> Graph {
    let mut builder = GraphBuilder::new("doubling");
    let n = builder.symbol("N").unwrap();
    let trips = builder.input("trips", DType::I64, &[]);
    let x = builder.input("x", DType::F32, &[n]);
    let always = builder.constant(Tensor::scalar(true)).unwrap();
    let results = builder
        .loop_::<InferError>(
            trips,
            always,
            &[x],
            &[],
            |builder, iteration, carried, _| {
                let doubled = builder.concat(&[carried[0], carried[0]], 0)?;
                let condition = builder.constant(Tensor::scalar(true))?;
                Ok(LoopBody {
                    condition,
                    carried: vec![doubled],
                    stacked: vec![iteration],
                })
            },
        )
        .unwrap();
    builder
        .finish(&[("last", results[0]), ("iterations", results[1])])
        .unwrap()
}

#[test]
fn carried_sizes_may_change_in_each_iteration() {
    let graph = doubling();
    let x = tensor(&[1], &[5.0f32]);
    for (trips, length) in [(0i64, 1), (-3, 1), (1, 2), (4, 16)] {
        let outputs = interpret(
            &graph,
            &[Tensor::scalar(trips), x.clone()],
            &InterpretOptions::default(),
        )
        .unwrap();
        assert_eq!(outputs[0].shape(), [length]);
        let iterations: Vec<i64> = (0..trips.max(0)).collect();
        assert_eq!(outputs[1].to_vec::<i64>().unwrap(), iterations);
    }
}

#[test]
fn loops_end_before_a_false_condition_and_at_limits() {
    let text = "graph @g(%trips: i64[], %x: i64[]) -> i64[] {
        %go: bool[] = constant [true]
        %y: i64[] = loop %trips, %go, %x {carried = 1}
            region(%i: i64[], %a: i64[]) {
                %two: i64[] = constant [2]
                %0: i64[] = mul %a, %two
                %limit: i64[] = constant [100]
                %1: bool[] = lt %0, %limit
                yield %1, %0
            }
        return %y
    }";
    assert_eq!(
        output::<i64>(text, &[Tensor::scalar(i64::MAX), Tensor::scalar(3i64)]),
        [192]
    );
    assert_eq!(
        output::<i64>(text, &[Tensor::scalar(2i64), Tensor::scalar(3i64)]),
        [12]
    );
    let graph = graph(text);
    let options = InterpretOptions {
        limits: InterpretLimits {
            iterations: 3,
            ..Default::default()
        },
        ..Default::default()
    };
    let error = interpret(
        &graph,
        &[Tensor::scalar(9i64), Tensor::scalar(0i64)],
        &options,
    )
    .unwrap_err();
    assert_snapshot!(format!("{}: {error}", error.code()), @"E0833: expected at most 3 loop iterations, found more at loop (%9): raise the limit");
}

#[test]
fn found_sizes_are_bound() {
    let text = "graph @g(%x: f32[N]) -> i64[1, count] {
        %all: i64[1, N], %n: i64[] = non_zero %x
        bind %n -> (count)
        %y: i64[1, count] = slice %all {starts = [0, 0], sizes = [1, count], steps = [1, 1]}
        return %y
    }";
    let x = tensor(&[5], &[0.0f32, 1.0, 0.0, 2.0, 0.0]);
    assert_eq!(output::<i64>(text, &[x]), [1, 3]);
    assert!(output::<i64>(text, &[zeros(&[3])]).is_empty());
}

#[test]
fn data_dependent_sizes_obey_their_bounds_and_facts() {
    let text = r#"graph @g(%x: f32[N], %k: i64[]) -> f32[k] where k >= 1, k <= N {
        bind %k -> (k) from "model/k"
        %y: f32[k] = slice %x {starts = [0], sizes = [k], steps = [1]}
        return %y
    }"#;
    let x = tensor(&[3], &[1.0f32, 2.0, 3.0]);
    assert_eq!(
        output::<f32>(text, &[x.clone(), Tensor::scalar(2i64)]),
        [1.0, 2.0]
    );
    assert_snapshot!(error(text, &[x.clone(), Tensor::scalar(0i64)]), @"E0815: expected k in 1.., found 0 from bind (model/k)");
    assert_snapshot!(error(text, &[x, Tensor::scalar(4i64)]), @"E0816: expected k <= N (declared), found k = 4 from bind (model/k), N = 3 from input x axis 0");
}

#[test]
fn promoted_runs_keep_every_float_in_f64() {
    let text = "graph @g(%x: f16[2], %n: i32[2]) -> (f16[2], i32[2]) {
        %c: f16[1] = constant [1.0]
        %0: f16[2] = add %x, %c
        %1: f32[2] = cast %0 {to = f32}
        %2: f16[2] = cast %1 {to = f16}
        %3: f16[2] = sub %2, %c
        return %3, %n
    }";
    let graph = graph(text);
    let small = f16::from_f32(f32::powi(2.0, -12));
    let inputs = [tensor(&[2], &[small, f16::ONE]), tensor(&[2], &[1i32, 2])];
    let declared = interpret(&graph, &inputs, &InterpretOptions::default()).unwrap();
    assert_eq!(declared[0].to_vec::<f16>().unwrap(), [f16::ZERO, f16::ONE]);
    let options = InterpretOptions {
        mode: Mode::Promoted,
        ..Default::default()
    };
    let promoted = interpret(&graph, &inputs, &options).unwrap();
    assert_eq!(
        promoted[0].to_vec::<f64>().unwrap(),
        [f64::powi(2.0, -12), 1.0]
    );
    assert_eq!(promoted[1].dtype(), DType::I32);
    let wide = [tensor(&[2], &[0.5f64, 1.0]), inputs[1].clone()];
    assert!(interpret(&graph, &wide, &options).is_ok());
    assert_eq!(
        interpret(&graph, &wide, &InterpretOptions::default())
            .unwrap_err()
            .code(),
        "E0811"
    );
}

#[test]
fn every_intermediate_is_traced() {
    let events = RefCell::new(Vec::new());
    let trace = |event: kiln_interpreter::TraceEvent<'_>| {
        let line = format!(
            "{} {} {:?}",
            event.value,
            event.op.op.mnemonic(),
            event.tensor.shape()
        );
        events.borrow_mut().push(line);
    };
    let options = InterpretOptions {
        trace: Some(&trace),
        ..Default::default()
    };
    interpret(
        &graph(BRANCH),
        &[Tensor::scalar(true), zeros(&[2])],
        &options,
    )
    .unwrap();
    assert_snapshot!(events.borrow().join("\n"), @"
    %3 neg [2]
    %5 if [2]
    ");
}

#[test]
fn live_bytes_are_bounded_by_values_still_needed() {
    let chain: String = (1..50)
        .map(|i| format!("%{i}: f32[N] = neg %{}\n", i - 1))
        .collect();
    let text = format!("graph @g(%0: f32[N]) -> f32[N] {{ {chain} return %49 }}");
    let graph = graph(&text);
    let limits = |live_bytes| InterpretOptions {
        limits: InterpretLimits {
            live_bytes,
            ..Default::default()
        },
        ..Default::default()
    };
    // One result and its operand are live at a time.
    assert!(interpret(&graph, &[zeros(&[1000])], &limits(8000)).is_ok());
    let error = interpret(&graph, &[zeros(&[1000])], &limits(7999)).unwrap_err();
    assert_snapshot!(format!("{}: {error}", error.code()), @"E0832: expected at most 7999 bytes of live values, found 8000 at neg (%2): raise the limit or use smaller shapes");
    // A broadcast takes no additional memory.
    let wide = crate::support::graph(
        "graph @g(%x: f32[]) -> f32[] {
        %0: f32[1000, 1000] = broadcast %x {dims = [1000, 1000]}
        %1: f32[1, 1] = slice %0 {starts = [0, 0], sizes = [1, 1], steps = [1, 1]}
        %2: f32[] = reshape %1 {dims = []}
        return %2
    }",
    );
    assert!(interpret(&wide, &[Tensor::scalar(1.0f32)], &limits(16)).is_ok());
    // As an output it does, since outputs are copied.
    let output = crate::support::graph(
        "graph @g(%x: f32[]) -> f32[1000, 1000] {
        %0: f32[1000, 1000] = broadcast %x {dims = [1000, 1000]}
        return %0
    }",
    );
    let error = interpret(&output, &[Tensor::scalar(1.0f32)], &limits(8000)).unwrap_err();
    assert_snapshot!(format!("{}: {error}", error.code()), @"E0832: expected at most 8000 bytes of live values, found 4000000 at return (0): raise the limit or use smaller shapes");
}

#[test]
fn loops_release_old_carried_values() {
    let graph = doubling();
    let options = InterpretOptions {
        limits: InterpretLimits {
            live_bytes: 3 * 4 * 1024 + 200,
            ..Default::default()
        },
        ..Default::default()
    };
    let x = tensor(&[1], &[1.0f32]);
    assert!(interpret(&graph, &[Tensor::scalar(10i64), x.clone()], &options).is_ok());
    let error = interpret(&graph, &[Tensor::scalar(12i64), x], &options).unwrap_err();
    assert_eq!(error.code(), "E0832");
}

#[test]
fn a_run_can_be_cancelled() {
    let asked = Cell::new(0);
    let cancelled = || {
        asked.set(asked.get() + 1);
        asked.get() > 100
    };
    let options = InterpretOptions {
        cancelled: Some(&cancelled),
        ..Default::default()
    };
    let inputs = [Tensor::scalar(0i64), zeros(&[1])];
    assert!(interpret(&doubling(), &inputs, &options).is_ok());
    let forever = graph(
        "graph @g(%trips: i64[]) -> i64[] {
        %go: bool[] = constant [true]
        %y: i64[] = loop %trips, %go, %trips, %go {carried = 1}
            region(%i: i64[], %a: i64[], %c: bool[]) { yield %c, %a }
        return %y
    }",
    );
    let error = interpret(&forever, &[Tensor::scalar(i64::MAX)], &options).unwrap_err();
    assert!(matches!(error, InterpretError::Cancelled));
    assert_eq!(error.code(), "E0835");
}

/// Makes each allocation of a run fail once: the error states the size, and the next run works.
#[test]
fn an_allocation_failure_is_an_error_and_a_retry_works() {
    let graph = graph("graph @g(%x: f32[N, 2, 4], %w: f32[2, 2, 3], %c: bool[]) -> f32[N, 2, 2] {
        %0: f32[N, 2, 2] = conv %x, %w {strides = [1], dilations = [1], low = [0], high = [0], groups = 1, out = f32}
        %1: f32[N, 2, 2] = softplus %0
        %2: f32[N, 2, 2] = cumulate %1 {function = sum, axis = 1}
        return %2
    }");
    let inputs = [zeros(&[2, 2, 4]), zeros(&[2, 2, 3]), Tensor::scalar(true)];
    let run = || interpret(&graph, &inputs, &InterpretOptions::default());
    let expected = run().unwrap();
    let mut failures = 0;
    for n in 0.. {
        match kiln_tensor::fault::with_failing_allocation(n, run) {
            Ok(outputs) => {
                assert!(outputs[0].bit_equal(&expected[0]));
                break;
            }
            Err(error) => {
                failures += 1;
                assert_eq!(error.code(), "E0840");
                assert!(run().is_ok());
            }
        }
    }
    assert!(failures >= 4, "{failures}");
}

struct Scale;

impl CustomOp for Scale {
    fn evaluate(&self, arguments: &str, operands: &[Tensor]) -> Result<Vec<Tensor>, String> {
        let factor: f32 = arguments
            .parse()
            .map_err(|_| format!("expected a number, found {arguments}"))?;
        let scaled = operands[0]
            .to_vec::<f32>()
            .map_err(|error: TensorError| error.to_string())?;
        let scaled = scaled.into_iter().map(|x| x * factor).collect();
        Ok(vec![
            Tensor::from_vec(operands[0].shape(), scaled).map_err(|error| error.to_string())?,
        ])
    }
}

fn custom_graph(arguments: &str) -> Graph {
    let mut graph = Graph::new("custom");
    let n = graph.dims_mut().symbol("N").unwrap();
    let ty = Type::tensor(DType::F32, [n]);
    let x = graph.add_input("x", ty.clone());
    let op = Op::Custom {
        name: "scale".to_owned(),
        arguments: arguments.to_owned(),
    };
    let op = graph.append(graph.body(), NewOp::new(op, [x], [ty]));
    graph.set_outputs([("y", graph.op(op).results[0])]);
    graph
}

#[test]
fn custom_ops_run_and_fail_with_their_name() {
    let mut ops = CustomOps::new();
    assert!(ops.register("scale", Arc::new(Scale)).is_none());
    assert_eq!(format!("{ops:?}"), r#"{"scale"}"#);
    let options = InterpretOptions {
        custom_ops: Some(&ops),
        ..Default::default()
    };
    let x = [tensor(&[2], &[1.0f32, 2.0])];
    let outputs = interpret(&custom_graph("3"), &x, &options).unwrap();
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [3.0, 6.0]);
    let promoted = InterpretOptions {
        mode: Mode::Promoted,
        ..options
    };
    assert_eq!(
        interpret(&custom_graph("3"), &x, &promoted).unwrap()[0]
            .to_vec::<f64>()
            .unwrap(),
        [3.0, 6.0]
    );
    let error = interpret(&custom_graph("three"), &x, &options).unwrap_err();
    assert_snapshot!(format!("{}: {error}", error.code()), @"E0831: custom op scale failed: expected a number, found three in custom (%1)");
    let error = interpret(&custom_graph("3"), &x, &InterpretOptions::default()).unwrap_err();
    assert_snapshot!(format!("{}: {error}", error.code()), @"E0830: expected custom op scale to be registered in the options, found none in custom (%1)");
}

#[test]
fn results_are_compared_with_declared_types() {
    // A graph whose types have not been checked.
    let mut graph = Graph::new("wrong");
    let (two, three) = (graph.dims_mut().constant(2), graph.dims_mut().constant(3));
    let x = graph.add_input("x", Type::tensor(DType::F32, [two]));
    let neg = Op::map(Function::by_name("neg").unwrap());
    let op = graph.append(
        graph.body(),
        NewOp::new(neg, [x], [Type::tensor(DType::F32, [three])]),
    );
    graph.set_outputs([("y", graph.op(op).results[0])]);
    let error = interpret(&graph, &[zeros(&[2])], &InterpretOptions::default()).unwrap_err();
    assert_snapshot!(format!("{}: {error}", error.code()), @"E0828: expected a result of f32[3], found f32[2] in neg (%1)");
}

#[test]
fn one_op_can_be_evaluated_alone() {
    let (mut dims, binding) = (DimTable::new(), Binding::new());
    let sizes: Dims = [dims.constant(2), dims.constant(1)].into_iter().collect();
    let n = dims.symbol("N").unwrap();
    let ctx = EvaluateContext::new(&dims, &binding);
    let x = tensor(&[2], &[1i64, 2]);
    let folded = evaluate_op(&ctx, &Op::Reshape { dims: sizes }, std::slice::from_ref(&x)).unwrap();
    assert_eq!(folded[0].shape(), [2, 1]);
    let open = Op::Broadcast {
        dims: [n].into_iter().collect(),
    };
    let unknown = evaluate_op(&ctx, &open, std::slice::from_ref(&x)).unwrap_err();
    assert_eq!(
        (unknown.code(), unknown.to_string().contains('N')),
        ("E0827", true)
    );
    for op in [Op::If, Op::Bind, Op::Loop { carried: 0 }, Op::NonZero] {
        assert_eq!(evaluate_op(&ctx, &op, &[]).unwrap_err().code(), "E0829");
    }
}

/// Nested regions run on a small stack.
#[test]
fn deep_nesting_needs_little_stack() {
    let depth = kiln_ir::REGION_DEPTH_LIMIT - 1;
    let mut text = String::from("graph @deep(%c: bool[], %x: f32[]) -> f32[] {\n");
    text.push_str("%y: f32[] = if %c, %c, %x ");
    fn nested(depth: usize) -> String {
        if depth == 0 {
            return "region(%c: bool[], %x: f32[]) { yield %x }".to_owned();
        }
        let inner = nested(depth - 1);
        format!(
            "region(%c: bool[], %x: f32[]) {{ %y: f32[] = if %c, %c, %x {inner} region(%c: bool[], %x: f32[]) {{ yield %x }} yield %y }}"
        )
    }
    text.push_str(&nested(depth - 1));
    text.push_str(" region(%c: bool[], %x: f32[]) { yield %x }\nreturn %y }");
    let graph = graph(&text);
    let run = move || {
        let inputs = [Tensor::scalar(true), Tensor::scalar(2.0f32)];
        interpret(&graph, &inputs, &InterpretOptions::default())
            .map(|outputs| outputs[0].item::<f32>())
    };
    let result = std::thread::Builder::new()
        .stack_size(128 << 10)
        .spawn(run)
        .unwrap()
        .join()
        .unwrap();
    assert_eq!(result.unwrap().unwrap(), 2.0);
}

#[test]
fn a_long_chain_takes_linear_time_and_little_stack() {
    let n = 20_000;
    let chain: String = (1..=n)
        .map(|i| format!("%{i}: f32[1] = neg %{}\n", i - 1))
        .collect();
    let graph = graph(&format!(
        "graph @g(%0: f32[1]) -> f32[1] {{ {chain} return %{n} }}"
    ));
    let run = move || {
        interpret(
            &graph,
            &[tensor(&[1], &[1.0f32])],
            &InterpretOptions::default(),
        )
    };
    let outputs = std::thread::Builder::new()
        .stack_size(128 << 10)
        .spawn(run)
        .unwrap()
        .join()
        .unwrap();
    assert_eq!(outputs.unwrap()[0].to_vec::<f32>().unwrap(), [1.0]);
}

#[test]
fn malformed_programs_give_errors_not_panics() {
    let swapped = run(BRANCH, &[zeros(&[]), zeros(&[1])]).unwrap_err();
    assert_eq!(swapped.code(), "E0811");
    assert!(format!("{:?}", InterpretOptions::default()).contains("Declared"));
}
