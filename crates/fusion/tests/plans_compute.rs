//! Plans of random graphs compute the same as the graphs: every kernel is evaluated and every other op interpreted, in
//! promoted mode.
//!
//! `KILN_TEST_GRAPHS=FIRST..END` checks other seeds than the first few hundred.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::panic,
    reason = "a test may panic, and print its progress"
)]

use arbitrary::Unstructured;
use kiln_fusion::{FusionLimits, FusionNode, FusionOptions, FusionPlan, NodeKind, plan};
use kiln_interpreter::{
    EvaluateContext, InterpretOptions, bind_symbols, evaluate_op, interpret, plan_facts_hold,
};
use kiln_ir::{Graph, Op, ValueId, text};
use kiln_kernel::Role;
use kiln_passes::{PassOptions, optimize};
use kiln_scalar::Mode;
use kiln_symbolic_shape::{Binding, DimLimits, FactSelection};
use kiln_tensor::{DType, Tensor};
use kiln_testkit::generate::{Flavor, GraphOptions, input_shapes, input_tensors, random_graph};
use kiln_testkit::laws::blobs_of;
use kiln_testkit::oracle::small_limits;
use kiln_testkit::random::seeded_bytes;
use std::collections::BTreeMap;
use std::ops::Range;

type Values = BTreeMap<ValueId, Tensor>;

/// Runs a plan; `None` if it has steps that this small runtime does not support.
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
            Tensor::from_vec(&shape, tensor.to_f64_vec().unwrap()).unwrap()
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

fn same(expected: &Tensor, found: &Tensor) -> bool {
    if expected.shape() != found.shape() {
        return false;
    }
    let pairs = expected
        .to_f64_vec()
        .unwrap()
        .into_iter()
        .zip(found.to_f64_vec().unwrap())
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
    unread: usize,
    unproved: usize,
    spent: usize,
    fused: usize,
    interpreted: usize,
    loops: usize,
}

/// The planning budget of a test.
struct Allowed {
    fusion: FusionLimits,
    dims: DimLimits,
}

fn check_seed(seed: u64, smooth: bool, allowed: &Allowed, tally: &mut Tally) -> Result<(), String> {
    let bytes = seeded_bytes(seed, 4096);
    let mut choices = Unstructured::new(&bytes);
    let options = GraphOptions {
        smooth,
        ..GraphOptions::default()
    };
    let graph = random_graph(&mut choices, &options).unwrap();
    let Some(graph) = under(&graph, &allowed.dims) else {
        tally.unread += 1;
        return Ok(());
    };
    let passes = &mut PassOptions {
        freeze: false,
        verify: false,
        ..PassOptions::default()
    };
    let graph = optimize(graph, passes).unwrap().0;
    let options = FusionOptions::new().with_limits(allowed.fusion.clone());
    // Debug builds re-infer every shape inside a node.
    let with = plan(&graph, &options)
        .map_err(|error| format!("seed {seed}: {error}\n{}", text::print(&graph)))?;
    let spent = with.to_string().contains("steps of planning were spent");
    assert_eq!(spent, with.is_budget_spent(), "{with}");
    let unproved = with.to_string().contains("steps of proofs about sizes");
    assert_eq!(unproved, graph.dims().is_prover_spent(), "{with}");
    tally.unproved += usize::from(unproved);
    tally.spent += usize::from(spent);
    let without = options.with_facts(FactSelection::None);
    let without = plan(&graph, &without).map_err(|error| error.to_string())?;
    for node in with.nodes() {
        tally.fused += usize::from(node.ops.len() > 1);
        let is_loop = |&op: &kiln_ir::OpId| matches!(graph.op(op).op, Op::Loop { .. });
        let is_kernel = node.kind == NodeKind::Kernel;
        tally.loops += usize::from(is_kernel && node.ops.iter().any(is_loop));
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
        for fact in plan.facts() {
            let value = |dim| graph.dims().evaluate(dim, &binding);
            assert_eq!(value(fact.left), value(fact.right), "seed {seed}: {fact:?}");
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
                    let (expected, found) =
                        (expected.to_f64_vec().unwrap(), found.to_f64_vec().unwrap());
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

/// The graph over a size table with other limits; `None` if one of its sizes exceeds them.
fn under(graph: &Graph, dims: &DimLimits) -> Option<Graph> {
    if *dims == DimLimits::default() {
        return Some(graph.clone());
    }
    let limits = text::ReadLimits::new(text::TextLimits::default(), dims.clone());
    let source = text::print(graph);
    let types = &mut text::AnnotatedTypes;
    text::read_within(&source, &blobs_of(graph), types, &limits).ok()
}

fn check_seeds(seeds: Range<u64>, allowed: &Allowed) -> Tally {
    let mut tally = Tally::default();
    let mut broken = Vec::new();
    for seed in seeds {
        if let Err(error) = check_seed(seed, seed % 2 == 0, allowed, &mut tally) {
            println!("{error}\n");
            broken.push(seed);
        }
    }
    println!("{tally:?}");
    assert!(broken.is_empty(), "seeds {broken:?}");
    assert!(tally.agreed > 0);
    tally
}

#[test]
fn plans_compute_the_same_as_their_graphs() {
    let seeds = match std::env::var("KILN_TEST_GRAPHS") {
        Ok(range) => {
            let (first, end) = range.split_once("..").unwrap();
            first.parse().unwrap()..end.parse().unwrap()
        }
        Err(_) => 0..60_u64,
    };
    let allowed = Allowed {
        fusion: FusionLimits::default(),
        dims: DimLimits::default(),
    };
    let tally = check_seeds(seeds, &allowed);
    assert_eq!(tally.spent, 0);
}

/// Planning limits: zero, almost zero, and one that is reached in the middle of a plan.
#[test]
fn plans_with_tiny_budgets_are_right_and_report_the_spent_budget() {
    for plan_work in [0, 1, 40, 400] {
        for kernel_nodes in [0, 1, 8] {
            let mut fusion = FusionLimits::default();
            (fusion.plan_work, fusion.kernel_nodes) = (plan_work, kernel_nodes);
            let allowed = Allowed {
                fusion,
                dims: DimLimits::default(),
            };
            let tally = check_seeds(100..108, &allowed);
            assert!(tally.spent > 0 || plan_work == 400, "{tally:?}");
            assert!(plan_work > 1 || tally.fused == 0, "{tally:?}");
        }
    }
}

/// Limits of the size table: proofs that end immediately, expressions that are truncated early.
#[test]
fn plans_over_tiny_size_tables_are_right() {
    for tiny in [0, 1, 16] {
        let limited = DimLimits {
            max_terms: tiny,
            max_degree: tiny,
            max_size: tiny,
            max_depth: tiny,
            prover_fuel: tiny as u64,
            prover_total: tiny as u64,
            max_rebuilds: tiny as u64,
            ..DimLimits::default()
        };
        let allowed = Allowed {
            fusion: FusionLimits::default(),
            dims: limited,
        };
        let tally = check_seeds(200..216, &allowed);
        assert!(tally.unproved > 0, "{tally:?}");
    }
}
