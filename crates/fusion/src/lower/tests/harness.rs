//! Lowers a graph to one kernel and compares it with the interpreter in promoted mode: both must agree up to rounding.

use std::collections::BTreeMap;

use kiln_interpreter::{InterpretOptions, interpret};
use kiln_ir::{BlobMap, Definition, Graph, Op, ValueId};
use kiln_kernel::{Class, Role, VerifiedKernel};
use kiln_scalar::Mode;
use kiln_shape_inference::read_graph;
use kiln_symbolic_shape::{Binding, DimId};
use kiln_tensor::{DType, Tensor};

use crate::lower::{LowerError, LoweredKernel, Region, lower};

/// Values of symbols, by name.
pub(super) type Case<'a> = &'a [(&'a str, i64)];

/// The whole graph as one kernel.
fn lower_all(graph: &Graph) -> Result<LoweredKernel, LowerError> {
    let ops = &graph.region(graph.body()).ops;
    let facts = graph.dims().plan_facts();
    let region = Region {
        ops,
        outputs: graph.outputs(),
        facts,
        name: "test",
    };
    lower(graph, &region)
}

fn read(text: &str) -> Graph {
    let graph = read_graph(text, &BlobMap::new());
    graph.unwrap_or_else(|error| panic!("{}\n{text}", error.render(text)))
}

/// The reason that a graph is rejected.
pub(super) fn refused(text: &str) -> String {
    let error = lower_all(&read(text)).expect_err("the graph is refused");
    format!("{} {error}", error.code())
}

/// Lowers, verifies, and compares for all cases; inputs are generated.
pub(super) fn check(text: &str, cases: &[Case<'_>]) -> VerifiedKernel {
    check_with(text, cases, &|_, _| None)
}

/// The class of the kernel of a graph.
pub(super) fn class_of(text: &str) -> Class {
    check(text, &[]).classification().class
}

/// The same with some inputs given.
pub(super) fn check_with(
    text: &str,
    cases: &[Case<'_>],
    given: &dyn Fn(&str, &[usize]) -> Option<Tensor>,
) -> VerifiedKernel {
    let graph = read(text);
    let lowered = lower_all(&graph).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let printed = kiln_kernel::text::print(&lowered.kernel);
    let verified = kiln_kernel::verify(lowered.kernel.clone())
        .unwrap_or_else(|errors| panic!("{errors}\n{printed}\n{text}"));
    for case in cases {
        compare(&graph, &lowered, case, given, &printed);
    }
    verified
}

fn compare(
    graph: &Graph,
    lowered: &LoweredKernel,
    case: Case<'_>,
    given: &dyn Fn(&str, &[usize]) -> Option<Tensor>,
    printed: &str,
) {
    let mut binding = Binding::new();
    for &(name, value) in case {
        if let Some(symbol) = graph.dims().symbol_named(name) {
            binding.set(symbol, value).expect("a value");
        }
    }
    let size = |dim: DimId| graph.dims().evaluate(dim, &binding).expect("a size");
    let mut values: BTreeMap<ValueId, Tensor> = BTreeMap::new();
    for (at, &input) in graph.inputs().iter().enumerate() {
        let ty = graph.tensor_ty(input).expect("a tensor");
        let shape: Vec<usize> = ty.dims.iter().map(|&dim| size(dim) as usize).collect();
        let tensor = given(&graph.input_name(input), &shape)
            .unwrap_or_else(|| made_up(ty.dtype, &shape, at as u64));
        values.insert(input, tensor);
    }
    let inputs: Vec<Tensor> = graph.inputs().iter().map(|id| values[id].clone()).collect();
    let options = InterpretOptions {
        mode: Mode::Promoted,
        ..InterpretOptions::default()
    };
    let expected = interpret(graph, &inputs, &options);

    let symbols: Vec<i64> = lowered.symbols.iter().map(|&dim| size(dim)).collect();
    let table = lowered.kernel.dims();
    let bound: Binding = table.symbols().zip(symbols.iter().copied()).collect();
    let unmet = lowered
        .requirements
        .iter()
        .find(|(predicate, _)| table.holds(predicate, &bound) != Ok(true));
    if let Some((_, what)) = unmet {
        assert!(expected.is_err(), "needs {what} without reason\n{printed}");
        return;
    }
    let mut buffers = Vec::new();
    for ((id, buffer), value) in lowered.kernel.buffers().iter().zip(&lowered.operands) {
        let shape: Vec<usize> = buffer
            .shape
            .iter()
            .map(|&dim| table.evaluate(dim, &bound).expect("a size") as usize)
            .collect();
        buffers.push(match buffer.role {
            Role::Out => Tensor::zeros(buffer.dtype, &shape).expect("memory"),
            Role::InOut => match lowered.initialise {
                Some((initialised, from)) if initialised == id => content(graph, &values, from),
                _ => panic!("an inout buffer that nothing initialises"),
            },
            Role::In | Role::Const => content(graph, &values, *value),
        });
    }
    let done = kiln_kernel::evaluate(&lowered.kernel, &symbols, &mut buffers, Mode::Promoted);
    let expected = match (expected, done) {
        (Ok(expected), Ok(())) => expected,
        (Err(_), Err(_)) => return,
        (Ok(_), Err(error)) => panic!("{case:?}: {error}\n{printed}"),
        (Err(error), Ok(())) => panic!("{case:?}: no fault, expected {error}\n{printed}"),
    };
    for (output, expected) in graph.outputs().iter().zip(&expected) {
        let at = lowered.operands.iter().rposition(|value| value == output);
        let found = &buffers[at.expect("a buffer per output")];
        assert_eq!(found.shape(), expected.shape(), "{case:?}\n{printed}");
        for (at, (found, expected)) in found
            .to_f64_vec()
            .unwrap()
            .iter()
            .zip(expected.to_f64_vec().unwrap())
            .enumerate()
        {
            let near = (found - expected).abs() <= 1e-9 * expected.abs().max(1.0);
            let same = near || *found == expected || (found.is_nan() && expected.is_nan());
            assert!(same, "{case:?} at {at}: {found} for {expected}\n{printed}");
        }
    }
}

fn content(graph: &Graph, values: &BTreeMap<ValueId, Tensor>, value: ValueId) -> Tensor {
    if let Some(tensor) = values.get(&value) {
        return tensor.clone();
    }
    let Definition::Result { op, .. } = graph.value(value).definition else {
        panic!("an input without a value")
    };
    match &graph.op(op).op {
        Op::Constant(constant) => constant.tensor(),
        _ => panic!("a buffer for what the region computes"),
    }
}

/// Small numbers, different for each input.
fn made_up(dtype: DType, shape: &[usize], seed: u64) -> Tensor {
    let count: usize = shape.iter().product();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1u32 << 24)
    };
    let numbers: Vec<f64> = (0..count).map(|_| next() * 4.0 - 2.0).collect();
    let tensor = match dtype {
        DType::Bool => Tensor::from_vec(shape, numbers.iter().map(|&x| x > 0.0).collect()),
        DType::F64 => Tensor::from_vec(shape, numbers),
        DType::F32 => Tensor::from_vec(shape, numbers.iter().map(|&x| x as f32).collect()),
        DType::F16 => {
            let narrow = numbers.iter().map(|&x| kiln_tensor::f16::from_f64(x));
            Tensor::from_vec(shape, narrow.collect())
        }
        DType::BF16 => {
            let narrow = numbers.iter().map(|&x| kiln_tensor::bf16::from_f64(x));
            Tensor::from_vec(shape, narrow.collect())
        }
        DType::I64 => Tensor::from_vec(shape, numbers.iter().map(|&x| (x * 2.0) as i64).collect()),
        DType::I32 => Tensor::from_vec(shape, numbers.iter().map(|&x| (x * 2.0) as i32).collect()),
        DType::I8 => Tensor::from_vec(shape, numbers.iter().map(|&x| (x * 60.0) as i8).collect()),
        DType::U64 => Tensor::from_vec(shape, numbers.iter().map(|&x| x.to_bits()).collect()),
        DType::U8 => Tensor::from_vec(
            shape,
            numbers.iter().map(|&x| (x * 60.0 + 120.0) as u8).collect(),
        ),
        other => panic!("no inputs of {other}"),
    };
    tensor.expect("a tensor")
}
