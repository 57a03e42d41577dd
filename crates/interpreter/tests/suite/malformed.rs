//! Unverified graphs: every one ends in a typed error.

use crate::support::{tensor, zeros};
use kiln_interpreter::{InterpretOptions, interpret};
use kiln_ir::{Graph, NewOp, Op, RegionId, Type, ValueId};
use kiln_scalar::Function;
use kiln_tensor::{DType, Tensor};

fn scalar(dtype: DType) -> Type {
    Type::tensor(dtype, [])
}

/// A graph with one op on its inputs, built by `op` from its regions.
fn one_op(
    inputs: &[Type],
    result_types: &[Type],
    op: impl FnOnce(&mut Graph, &[ValueId]) -> NewOp,
) -> Graph {
    let mut graph = Graph::new("malformed");
    for (index, ty) in inputs.iter().enumerate() {
        graph.add_input(&format!("x{index}"), ty.clone());
    }
    let operands = graph.inputs().to_vec();
    let mut new = op(&mut graph, &operands);
    new.result_types = result_types.iter().cloned().collect();
    let op = graph.append(graph.body(), new);
    let results = graph.op(op).results.clone();
    graph.set_outputs(results.iter().map(|&value| (value.to_string(), value)));
    graph
}

fn code(graph: &Graph, inputs: &[Tensor]) -> String {
    let error =
        interpret(graph, inputs, &InterpretOptions::default()).expect_err("expected an error");
    assert!(!error.to_string().is_empty());
    error.code().to_owned()
}

/// A region that yields its parameters.
fn region(graph: &mut Graph, parameters: &[Type], n_results: usize) -> RegionId {
    let region = graph.add_region();
    let values: Vec<ValueId> = parameters
        .iter()
        .map(|ty| graph.add_parameter(region, ty.clone()))
        .collect();
    graph.set_results(region, values.into_iter().take(n_results));
    region
}

#[test]
fn too_few_operands_or_results_is_an_error() {
    let f32s = scalar(DType::F32);
    for name in ["add", "neg", "select"] {
        let function = Function::by_name(name).unwrap();
        let graph = one_op(&[], std::slice::from_ref(&f32s), |_, _| {
            NewOp::new(Op::map(function), [], [])
        });
        assert!(code(&graph, &[]).starts_with("E0"), "{name}");
    }
    let neg = Op::map(Function::by_name("neg").unwrap());
    let graph = one_op(std::slice::from_ref(&f32s), &[], |_, x| {
        NewOp::new(neg, x.iter().copied(), [])
    });
    assert_eq!(code(&graph, &[Tensor::scalar(1.0f32)]), "E0829");
}

#[test]
fn control_ops_without_regions_or_operands_are_errors() {
    let (flag, count) = (scalar(DType::Bool), scalar(DType::I64));
    let yes = Tensor::scalar(true);
    let three = Tensor::scalar(3i64);
    let graph = one_op(std::slice::from_ref(&flag), &[], |_, x| {
        NewOp::new(Op::If, x.iter().copied(), [])
    });
    assert_eq!(code(&graph, std::slice::from_ref(&yes)), "E0829");
    let graph = one_op(std::slice::from_ref(&count), &[], |graph, x| {
        let mut new = NewOp::new(Op::If, x.iter().copied(), []);
        new.regions = [region(graph, &[], 0), region(graph, &[], 0)]
            .into_iter()
            .collect();
        new
    });
    assert_eq!(code(&graph, std::slice::from_ref(&three)), "E0342");
    let looping = |inputs: &[Type], results: &[Type], carried, yielded, parameters: &[Type]| {
        one_op(inputs, results, |graph, x| {
            let mut new = NewOp::new(Op::Loop { carried }, x.iter().copied(), []);
            new.regions = [region(graph, parameters, yielded)].into_iter().collect();
            new
        })
    };
    let inputs = [count.clone(), flag.clone()];
    let values = [three.clone(), yes.clone()];
    let short = looping(&inputs, &[], 1, 0, std::slice::from_ref(&count));
    assert_eq!(code(&short, &values), "E0829");
    let yields_nothing = looping(&inputs, &[], 0, 0, std::slice::from_ref(&count));
    assert_eq!(code(&yields_nothing, &values), "E0829");
    let yields_a_number = looping(&inputs, &[], 0, 1, std::slice::from_ref(&count));
    assert_eq!(code(&yields_a_number, &values), "E0342");
    let extra_parameter = looping(&inputs, &[], 0, 1, &[count.clone(), flag.clone()]);
    assert_eq!(code(&extra_parameter, &values), "E0829");
    let without_region = one_op(&inputs, &[], |_, x| {
        NewOp::new(Op::Loop { carried: 0 }, x.iter().copied(), [])
    });
    assert_eq!(code(&without_region, &values), "E0829");
    let swapped = one_op(&[flag, count], &[], |graph, x| {
        let mut new = NewOp::new(Op::Loop { carried: 0 }, x.iter().copied(), []);
        new.regions = [region(graph, &[], 0)].into_iter().collect();
        new
    });
    assert_eq!(code(&swapped, &[yes, three]), "E0342");
}

#[test]
fn region_argument_mismatch_is_an_error() {
    let mut graph = Graph::new("malformed");
    let (two, three) = (graph.dims_mut().constant(2), graph.dims_mut().constant(3));
    let c = graph.add_input("c", scalar(DType::Bool));
    let x = graph.add_input("x", Type::tensor(DType::F32, [two]));
    let taken = region(&mut graph, &[Type::tensor(DType::F32, [three])], 1);
    let mut new = NewOp::new(Op::If, [c, x], [Type::tensor(DType::F32, [two])]);
    new.regions = [taken, taken].into_iter().collect();
    let op = graph.append(graph.body(), new);
    graph.set_outputs([("y", graph.op(op).results[0])]);
    assert_eq!(code(&graph, &[Tensor::scalar(true), zeros(&[2])]), "E0828");
}

#[test]
fn data_that_cannot_bind_symbols_is_an_error() {
    let bind = |dtype: DType, n: i64| {
        let mut graph = Graph::new("bind");
        let n = graph.dims_mut().constant(n);
        let x = graph.add_input("x", Type::tensor(dtype, [n]));
        let symbol = graph.dims_mut().fresh("k");
        let mut new = NewOp::new(Op::Bind, [x], []);
        new.symbols = [symbol].into_iter().collect();
        graph.append(graph.body(), new);
        graph.set_outputs([("x", x)]);
        graph
    };
    assert_eq!(
        code(&bind(DType::I64, 2), &[tensor(&[2], &[1i64, 2])]),
        "E0829"
    );
    assert_eq!(
        code(&bind(DType::F32, 1), &[tensor(&[1], &[1.0f32])]),
        "E0829"
    );
    assert_eq!(
        code(&bind(DType::U64, 1), &[tensor(&[1], &[u64::MAX])]),
        "E0825"
    );
    assert_eq!(
        code(&bind(DType::I64, 1), &[tensor(&[1], &[-1i64])]),
        "E0815"
    );
}

#[test]
fn non_tensor_values_are_errors() {
    let sequence = Type::Sequence(Box::new(scalar(DType::F32)));
    let mut graph = Graph::new("sequences");
    let x = graph.add_input("x", sequence.clone());
    graph.set_outputs([("y", x)]);
    assert_eq!(code(&graph, &[Tensor::scalar(1.0f32)]), "E0817");
    assert_eq!(
        kiln_interpreter::bind_symbols::<Vec<usize>>(&graph, &[vec![]])
            .unwrap_err()
            .code(),
        "E0817"
    );
    let neg = Op::map(Function::by_name("neg").unwrap());
    let graph = one_op(&[scalar(DType::F32)], &[sequence], |_, x| {
        NewOp::new(neg, x.iter().copied(), [])
    });
    assert_eq!(code(&graph, &[Tensor::scalar(1.0f32)]), "E0817");
}

#[test]
fn values_of_another_region_are_errors() {
    let mut graph = Graph::new("elsewhere");
    let other = graph.add_region();
    let stray = graph.add_parameter(other, scalar(DType::F32));
    graph.set_outputs([("y", stray)]);
    assert_eq!(code(&graph, &[]), "E0829");
    let neg = Op::map(Function::by_name("neg").unwrap());
    let op = graph.append(graph.body(), NewOp::new(neg, [stray], [scalar(DType::F32)]));
    graph.set_outputs([("y", graph.op(op).results[0])]);
    assert_eq!(code(&graph, &[]), "E0829");
}

#[test]
fn unbound_sizes_are_errors() {
    let mut graph = Graph::new("unbound");
    let n = graph.dims_mut().symbol("N").unwrap();
    let k = graph.dims_mut().symbol("K").unwrap();
    let x = graph.add_input("x", Type::tensor(DType::F32, [n]));
    let op = Op::Reshape {
        dims: [k].into_iter().collect(),
    };
    let op = graph.append(
        graph.body(),
        NewOp::new(op, [x], [Type::tensor(DType::F32, [n])]),
    );
    graph.set_outputs([("y", graph.op(op).results[0])]);
    assert_eq!(code(&graph, &[zeros(&[2])]), "E0827");
    let twice = graph.dims_mut().add(k, k).unwrap();
    graph.add_input("z", Type::tensor(DType::F32, [twice]));
    assert_eq!(code(&graph, &[zeros(&[2]), zeros(&[2])]), "E0827");
}

#[test]
fn too_deeply_nested_regions_are_an_error() {
    let mut graph = Graph::new("deep");
    let flag = scalar(DType::Bool);
    let c = graph.add_input("c", flag.clone());
    let mut inner = region(&mut graph, std::slice::from_ref(&flag), 1);
    for _ in 0..=kiln_ir::REGION_DEPTH_LIMIT {
        let outer = graph.add_region();
        let parameter = graph.add_parameter(outer, flag.clone());
        let mut new = NewOp::new(Op::If, [parameter, parameter], [flag.clone()]);
        new.regions = [inner, inner].into_iter().collect();
        let op = graph.append(outer, new);
        let result = graph.op(op).results[0];
        graph.set_results(outer, [result]);
        inner = outer;
    }
    let mut new = NewOp::new(Op::If, [c, c], [flag]);
    new.regions = [inner, inner].into_iter().collect();
    let op = graph.append(graph.body(), new);
    graph.set_outputs([("y", graph.op(op).results[0])]);
    assert_eq!(code(&graph, &[Tensor::scalar(true)]), "E0834");
}
