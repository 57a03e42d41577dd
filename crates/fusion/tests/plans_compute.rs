//! Plans of random graphs compute what the graphs compute: every kernel evaluated, every other op
//! interpreted, in promoted mode.
//!
//! `KILN_TEST_GRAPHS=FIRST..END` checks other seeds than the first few hundred.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::panic,
    reason = "a test may panic, and say what it did"
)]

use arbitrary::Unstructured;
use kiln_fusion::{FusionNode, FusionOptions, FusionPlan, NodeKind, plan};
use kiln_interpreter::{
    EvaluateContext, InterpretOptions, bind_symbols, evaluate_op, interpret, plan_facts_hold,
};
use kiln_ir::{Graph, Op, ValueId, text};
use kiln_kernel::Role;
use kiln_passes::{PassOptions, optimize};
use kiln_scalar::Mode;
use kiln_symbolic_shape::Binding;
use kiln_tensor::{DType, Tensor};
use kiln_testkit::generate::{Flavor, GraphOptions, input_shapes, input_tensors, random_graph};
use kiln_testkit::oracle::small_limits;
use kiln_testkit::random::seeded_bytes;
use std::collections::BTreeMap;

type Values = BTreeMap<ValueId, Tensor>;

/// Runs a plan; `None` where it has steps that this little runtime does not know.
fn run(
    graph: &Graph,
    plan: &FusionPlan,
    inputs: &[Tensor],
    binding: &Binding,
) -> Option<Result<Vec<Tensor>, String>> {
    let mut values: Values = graph
        .inputs()
        .iter()
        .copied()
        .zip(inputs.iter().map(promoted))
        .collect();
    for &id in plan.nodes_of(graph.body()) {
        let node = plan.node(id);
        let done = match node.kind {
            NodeKind::Control | NodeKind::Bind => return None,
            NodeKind::Kernel => run_kernel(graph, node, &mut values, binding),
            _ => run_ops(graph, node, &mut values, binding),
        };
        if let Err(error) = done {
            return Some(Err(format!("{}: {error}", node.name)));
        }
    }
    Some(Ok(graph
        .outputs()
        .iter()
        .map(|value| values[value].clone())
        .collect()))
}

fn promoted(tensor: &Tensor) -> Tensor {
    match Mode::Promoted.stored(tensor.dtype()) {
        DType::F64 if tensor.dtype() != DType::F64 => {
            let shape = tensor.shape().to_vec();
            Tensor::from_vec(&shape, numbers(tensor)).unwrap()
        }
        _ => tensor.clone(),
    }
}

fn run_ops(
    graph: &Graph,
    node: &FusionNode,
    values: &mut Values,
    binding: &Binding,
) -> Result<(), String> {
    for op in node.all_ops() {
        let data = graph.op(op);
        let operands: Vec<Tensor> = data
            .operands
            .iter()
            .map(|value| values[value].clone())
            .collect();
        let ctx = EvaluateContext::new(graph.dims(), binding).with_mode(Mode::Promoted);
        let results = evaluate_op(&ctx, &data.op, &operands).map_err(|error| error.to_string())?;
        values.extend(data.results.iter().copied().zip(results));
    }
    Ok(())
}

fn run_kernel(
    graph: &Graph,
    node: &FusionNode,
    values: &mut Values,
    binding: &Binding,
) -> Result<(), String> {
    let lowered = node.kernel.as_ref().unwrap();
    let table = lowered.kernel.dims();
    let symbols: Vec<i64> = lowered
        .symbols
        .iter()
        .map(|&dim| graph.dims().evaluate(dim, binding).unwrap())
        .collect();
    let bound: Binding = table.symbols().zip(symbols.iter().copied()).collect();
    for (predicate, what) in &lowered.requirements {
        if table.holds(predicate, &bound) != Ok(true) {
            return Err(format!("needs {what}"));
        }
    }
    let mut buffers = Vec::new();
    for ((id, buffer), value) in lowered.kernel.buffers().iter().zip(&lowered.operands) {
        let shape: Vec<usize> = buffer
            .shape
            .iter()
            .map(|&dim| usize::try_from(table.evaluate(dim, &bound).unwrap()).unwrap())
            .collect();
        let read = |value: &ValueId| match values.get(value) {
            Some(tensor) => tensor.clone(),
            None => panic!("{} reads {value}, which has no value yet", node.name),
        };
        buffers.push(match (buffer.role, lowered.initialise) {
            (Role::InOut, Some((initialised, from))) if initialised == id => read(&from),
            (Role::Out | Role::InOut, _) => {
                Tensor::zeros(Mode::Promoted.stored(buffer.dtype), &shape).unwrap()
            }
            (Role::In | Role::Const, _) => read(value),
        });
        if !matches!(buffer.role, Role::Out) {
            let tensor: &Tensor = buffers.last().unwrap();
            assert_eq!(tensor.shape(), shape, "{} reads {value}", node.name);
        }
    }
    kiln_kernel::evaluate(&lowered.kernel, &symbols, &mut buffers, Mode::Promoted)
        .map_err(|error| error.to_string())?;
    for ((_, buffer), (value, tensor)) in lowered
        .kernel
        .buffers()
        .iter()
        .zip(lowered.operands.iter().zip(buffers))
    {
        if buffer.role.is_written() {
            values.insert(*value, tensor);
        }
    }
    Ok(())
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    kiln_tensor::match_dtype!(tensor.dtype(), T => {
        let elements = tensor.to_vec::<T>().unwrap();
        elements.into_iter().map(|x| kiln_scalar::ScalarValue::from(x).to_f64()).collect()
    })
}

fn same(expected: &Tensor, found: &Tensor) -> bool {
    if expected.shape() != found.shape() {
        return false;
    }
    let pairs = numbers(expected)
        .into_iter()
        .zip(numbers(found))
        .collect::<Vec<_>>();
    pairs.into_iter().all(|(a, b)| {
        (a - b).abs() <= 1e-6 * a.abs().max(1.0) || a == b || (a.is_nan() && b.is_nan())
    })
}

#[derive(Default, Debug)]
struct Tally {
    agreed: usize,
    skipped: usize,
    failed: usize,
    unplanned: usize,
    fused: usize,
    interpreted: usize,
}

fn check_seed(seed: u64, smooth: bool, tally: &mut Tally) -> Result<(), String> {
    let bytes = seeded_bytes(seed, 4096);
    let mut choices = Unstructured::new(&bytes);
    let options = GraphOptions {
        smooth,
        ..GraphOptions::default()
    };
    let graph = random_graph(&mut choices, &options).unwrap();
    let passes = &mut PassOptions {
        freeze: false,
        verify: false,
        ..PassOptions::default()
    };
    let graph = optimize(graph, passes).unwrap().0;
    let with = plan(&graph, &FusionOptions::new()).map_err(|error| error.to_string())?;
    let without = FusionOptions::new().with_plan_facts(false);
    let without = plan(&graph, &without).map_err(|error| error.to_string())?;
    for node in with.nodes() {
        node.validate_fusion(&graph)
            .map_err(|error| format!("seed {seed}: {error}\n{}", text::print(&graph)))?;
        tally.fused += usize::from(node.ops.len() > 1);
        tally.interpreted += usize::from(
            node.kind == NodeKind::Interpret
                && !matches!(graph.op(node.ops[0]).op, Op::Custom { .. }),
        );
    }
    for _ in 0..3 {
        let flavor = *choices.choose(&[Flavor::Small, Flavor::Edges]).unwrap();
        let Some(shapes) = input_shapes(&mut choices, &graph).unwrap() else {
            tally.skipped += 1;
            continue;
        };
        let inputs = input_tensors(&mut choices, &graph, &shapes, flavor).unwrap();
        let options = InterpretOptions {
            mode: Mode::Promoted,
            limits: small_limits(),
            ..InterpretOptions::default()
        };
        let Ok(expected) = interpret(&graph, &inputs, &options) else {
            tally.failed += 1;
            continue;
        };
        let binding = bind_symbols(&graph, &shapes).unwrap();
        let holds = plan_facts_hold(&graph, &binding)
            .iter()
            .all(|fact| fact.holds() == Some(true));
        let plan = if holds { &with } else { &without };
        if holds {
            plan.check_facts(graph.dims(), &binding)
                .map_err(|error| error.to_string())?;
        }
        let show = |what: String| {
            format!(
                "seed {seed} {shapes:?} facts {holds}: {what}\n{}\n{plan}",
                text::print(&graph)
            )
        };
        match run(&graph, plan, &inputs, &binding) {
            None => tally.unplanned += 1,
            Some(Err(error)) => return Err(show(error)),
            Some(Ok(found)) => {
                let mut pairs = expected.iter().zip(&found).enumerate();
                let wrong = pairs.find(|(_, (expected, found))| !same(expected, found));
                if let Some((position, (expected, found))) = wrong {
                    let (expected, found) = (numbers(expected), numbers(found));
                    return Err(show(format!(
                        "output {position}: {found:?} for {expected:?}"
                    )));
                }
                tally.agreed += 1;
            }
        }
    }
    Ok(())
}

#[test]
fn plans_compute_what_their_graphs_do() {
    let seeds = match std::env::var("KILN_TEST_GRAPHS") {
        Ok(range) => {
            let (first, end) = range.split_once("..").unwrap();
            first.parse().unwrap()..end.parse().unwrap()
        }
        Err(_) => 0..60_u64,
    };
    let mut tally = Tally::default();
    let mut broken = Vec::new();
    for seed in seeds {
        if let Err(error) = check_seed(seed, seed % 2 == 0, &mut tally) {
            println!("{error}\n");
            broken.push(seed);
        }
    }
    println!("{tally:?}");
    assert!(broken.is_empty(), "seeds {broken:?}");
    assert!(tally.agreed > 0);
}
