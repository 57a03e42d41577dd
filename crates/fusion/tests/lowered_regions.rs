//! Regions of random graphs as kernels, against the interpreter: each op alone, and runs of several.
//!
//! The interpreter's values, in promoted mode, are the kernels' operands and expected results.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::RefCell;
use std::collections::BTreeMap;

use arbitrary::Unstructured;
use kiln_fusion::{LoweredKernel, Region, lower::lower};
use kiln_interpreter::{InterpretOptions, bind_symbols, interpret};
use kiln_ir::{Graph, Op, OpId, ValueId};
use kiln_kernel::Role;
use kiln_scalar::Mode;
use kiln_symbolic_shape::{Binding, PlanFact};
use kiln_tensor::{DType, Tensor};
use kiln_testkit::generate::{Flavor, GraphOptions, input_shapes, input_tensors, random_graph};
use kiln_testkit::oracle::{Tolerance, compare, small_limits};
use kiln_testkit::random::seeded_bytes;

type Values = BTreeMap<ValueId, Tensor>;

/// A graph with the interpreter's values for some inputs; `None` if it fails.
fn interpreted(seed: u64) -> Option<(Graph, Binding, Values)> {
    let bytes = seeded_bytes(seed, 4096);
    let mut choices = Unstructured::new(&bytes);
    let options = GraphOptions {
        max_ops: 12,
        smooth: false,
    };
    let graph = random_graph(&mut choices, &options).ok()?;
    let shapes = input_shapes(&mut choices, &graph).ok()??;
    let inputs = input_tensors(&mut choices, &graph, &shapes, Flavor::Small).ok()?;
    let binding = bind_symbols(&graph, &shapes).ok()?;
    let values = RefCell::new(Values::new());
    let options = InterpretOptions {
        mode: Mode::Promoted,
        limits: small_limits(),
        trace: Some(&|event| {
            values
                .borrow_mut()
                .insert(event.value, event.tensor.clone());
        }),
        ..InterpretOptions::default()
    };
    interpret(&graph, &inputs, &options).ok()?;
    let mut values = values.into_inner();
    values.extend(graph.inputs().iter().copied().zip(inputs));
    Some((graph, binding, values))
}

/// The results of a run of ops that are used outside of it.
fn outputs_of(graph: &Graph, run: &[OpId]) -> Vec<ValueId> {
    let uses = graph.use_counts();
    let results = run
        .iter()
        .flat_map(|&op| graph.op(op).results.iter().copied());
    let used_within = |value| -> u32 {
        let operands = run.iter().flat_map(|&op| graph.op(op).operands.iter());
        operands.filter(|&&operand| operand == value).count() as u32
    };
    results
        .filter(|&value| uses[value] > used_within(value) || uses[value] == 0)
        .collect()
}

/// Lowers a run of ops and compares; whether it is a kernel.
fn check(graph: &Graph, binding: &Binding, values: &Values, run: &[OpId], seed: u64) -> bool {
    let holds = |fact: &&PlanFact| {
        let size = |dim| graph.dims().evaluate(dim, binding).ok();
        size(fact.left).is_some() && size(fact.left) == size(fact.right)
    };
    let facts: Vec<PlanFact> = graph
        .dims()
        .plan_facts()
        .iter()
        .filter(holds)
        .cloned()
        .collect();
    let outputs = outputs_of(graph, run);
    let region = Region {
        ops: run,
        outputs: &outputs,
        facts: &facts,
        name: "run",
    };
    let Ok(lowered) = lower(graph, &region) else {
        return false;
    };
    let text = kiln_kernel::text::print(&lowered.kernel);
    if let Err(errors) = kiln_kernel::verify(lowered.kernel.clone()) {
        panic!(
            "seed {seed}: {errors}\n{text}\n{}",
            kiln_ir::text::print(graph)
        );
    }
    if let Err(what) = evaluate(graph, binding, values, &lowered, &outputs) {
        panic!(
            "seed {seed}: {what}\n{text}\n{}",
            kiln_ir::text::print(graph)
        );
    }
    true
}

fn evaluate(
    graph: &Graph,
    binding: &Binding,
    values: &Values,
    lowered: &LoweredKernel,
    outputs: &[ValueId],
) -> Result<(), String> {
    let size = |&dim| graph.dims().evaluate(dim, binding);
    let Ok(symbols) = lowered
        .symbols
        .iter()
        .map(size)
        .collect::<Result<Vec<i64>, _>>()
    else {
        // A size that comes only from data.
        return Ok(());
    };
    let table = lowered.kernel.dims();
    let bound: Binding = table
        .symbols()
        .zip(symbols.iter().copied())
        .filter(|&(symbol, _)| table.definition(symbol).is_none())
        .collect();
    for (predicate, what) in &lowered.requirements {
        if table.holds(predicate, &bound) != Ok(true) {
            return Err(format!("requires {what}"));
        }
    }
    let content = |value: &ValueId| match graph.value(*value).definition {
        kiln_ir::Definition::Result { op, .. } => match &graph.op(op).op {
            Op::Constant(constant) => constant.tensor(),
            _ => values[value].clone(),
        },
        kiln_ir::Definition::Parameter { .. } => values[value].clone(),
    };
    let mut buffers = Vec::new();
    for ((id, buffer), value) in lowered.kernel.buffers().iter().zip(&lowered.operands) {
        buffers.push(match buffer.role {
            Role::In | Role::Const => content(value),
            Role::InOut => match lowered.initialise {
                Some((initialised, from)) if initialised == id => content(&from),
                _ => return Err("nothing initialises a buffer".to_owned()),
            },
            Role::Out => Tensor::zeros(buffer.dtype, values[value].shape()).unwrap(),
        });
    }
    kiln_kernel::evaluate(&lowered.kernel, &symbols, &mut buffers, Mode::Promoted)
        .map_err(|error| error.to_string())?;
    for value in outputs {
        let at = lowered
            .operands
            .iter()
            .rposition(|operand| operand == value);
        let (found, expected) = (&buffers[at.unwrap()], &values[value]);
        let tolerance = match expected.dtype() {
            DType::F64 => Tolerance::OfLargest(1e-9),
            _ => Tolerance::Exact,
        };
        compare(expected, found, tolerance).map_err(|error| format!("{value}: {error}"))?;
    }
    Ok(())
}

#[test]
fn regions_of_random_graphs_agree_with_the_interpreter() {
    let (mut alone, mut joined) = (0, 0);
    let seeds: u64 = std::env::var("SEEDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(60);
    for seed in 0..seeds {
        let Some((graph, binding, values)) = interpreted(seed) else {
            continue;
        };
        let ops = &graph.region(graph.body()).ops;
        let ops: Vec<OpId> = ops
            .iter()
            .copied()
            .filter(|&op| !matches!(graph.op(op).op, Op::Constant(_)))
            .collect();
        for length in [1, 2, 3, 5] {
            for run in ops.windows(length) {
                let is_kernel = check(&graph, &binding, &values, run, seed);
                let counter = if length == 1 { &mut alone } else { &mut joined };
                *counter += u32::from(is_kernel);
            }
        }
    }
    assert!(alone > 50 && joined > 20, "{alone} ops, {joined} regions");
}
