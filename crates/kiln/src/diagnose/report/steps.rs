//! The steps of a report, from a profile: what each computes, and the fraction of the machine's best rates that it
//! reaches.

use super::seen::{Seen, milliseconds, runs};
use super::{CallReport, Edge, ReportedStep};
use crate::diagnose::StepProfile;
use crate::diagnose::explained::{origins, value_name};
use kiln_ir::{Graph, Op, OpId, ValueId};
use kiln_program::{Action, Step};
use kiln_symbolic_shape::Binding;
use std::collections::{BTreeMap, BTreeSet};

/// Adds steps with their median times, their runs in a typical call, and the values between them; returns the ops of each
/// step.
pub(super) fn add(
    report: &mut CallReport,
    seen: &Seen<'_>,
    profile: &[StepProfile],
    typical: &[StepProfile],
) -> Vec<Vec<OpId>> {
    let mut order: Vec<usize> = (0..profile.len()).collect();
    order.sort_by_key(|&run| profile[run].begin);
    // A step runs more than once in a loop.
    let mut step_of = vec![0; profile.len()];
    let mut known: BTreeMap<&[OpId], usize> = BTreeMap::new();
    let mut ops_of: Vec<&[OpId]> = Vec::new();
    for run in order {
        let profiled = &profile[run];
        let next = report.steps.len();
        let step = *known.entry(&profiled.ops).or_insert(next);
        if step == next {
            report.steps.push(described(seen, profiled));
            ops_of.push(&profiled.ops);
        }
        step_of[run] = step;
        let reported = &mut report.steps[step];
        reported.n_runs += 1;
        reported.ms += milliseconds(profiled.time);
        reported.bytes += profiled.bytes;
        reported.tasks = reported.tasks.max(profiled.tasks);
        reported.operations = match (reported.operations, profiled.operations) {
            (Some(before), Some(more)) => Some(before + more),
            (before, more) => before.or(more),
        };
    }
    // Control steps contain the runs of their blocks.
    let total: f64 = report
        .steps
        .iter()
        .filter(|step| !is_control(step))
        .map(|step| step.ms)
        .sum();
    for step in &mut report.steps {
        step.share = if total > 0.0 { step.ms / total } else { 0.0 };
        if let Some(rates) = seen
            .rates
            .filter(|_| step.ms > 0.0 && step.kind == "kernel")
        {
            let runs = step.n_runs.max(1);
            let operations = step.operations.map(|operations| operations / runs as f64);
            let (least, bound) = rates.least(step.bytes / runs as u64, operations);
            step.of_roofline = Some(milliseconds(least) * runs as f64 / step.ms);
            step.bound = Some(bound.to_owned());
        }
    }
    report.runs = runs(typical, &step_of);
    report.edges = edges(seen, &ops_of);
    ops_of.into_iter().map(<[OpId]>::to_vec).collect()
}

/// Whether a step runs other steps.
pub(super) fn is_control(step: &ReportedStep) -> bool {
    matches!(step.kind.as_str(), "if" | "loop")
}

/// A step without its times.
fn described(seen: &Seen<'_>, profiled: &StepProfile) -> ReportedStep {
    let graph = seen.graph;
    let inside: BTreeSet<OpId> = profiled.ops.iter().copied().collect();
    let (reads, writes) = boundary(graph, &inside);
    let planned = planned(seen, &profiled.ops);
    let kernel = planned.and_then(|(program, step)| match &step.action {
        Action::Kernel(launch) => Some(program.kernels()[launch.kernel].name.clone()),
        _ => None,
    });
    let reason = planned.and_then(|(_, step)| match &step.action {
        Action::Interpret { reason, .. } => Some(format!("interpreted: {reason}")),
        _ => None,
    });
    let node = profiled.ops.first().and_then(|&op| seen.fusion.node_of(op));
    let notes = node.map_or_else(Vec::new, |node| seen.fusion.node(node).notes.clone());
    ReportedStep {
        name: profiled.step.clone(),
        nodes: origins(graph, &profiled.ops),
        ops: profiled.ops.iter().map(|&op| op_text(graph, op)).collect(),
        kind: profiled.kind.to_owned(),
        class: profiled.class.map(str::to_owned),
        kernel,
        schedule: profiled.variant.clone(),
        reads: reads
            .into_iter()
            .map(|value| value_text(graph, value))
            .collect(),
        writes: writes
            .into_iter()
            .map(|value| value_text(graph, value))
            .collect(),
        notes: reason
            .into_iter()
            .chain(notes.iter().map(ToString::to_string))
            .collect(),
        ..ReportedStep::default()
    }
}

/// The planned step of these ops, in the program that has it.
fn planned<'a>(seen: &Seen<'a>, ops: &[OpId]) -> Option<(&'a kiln_program::Program, &'a Step)> {
    seen.programs.iter().find_map(|program| {
        let step = program.steps().find(|step| step.ops == ops)?;
        Some((program, step))
    })
}

/// The values that ops read from elsewhere, constants excluded, and the results of theirs that other ops read.
fn boundary(graph: &Graph, inside: &BTreeSet<OpId>) -> (Vec<ValueId>, Vec<ValueId>) {
    let mut made = BTreeSet::new();
    let mut read = Vec::new();
    for &op in inside {
        made.extend(graph.op(op).results.iter().copied());
    }
    for &op in inside {
        for &operand in &graph.op(op).operands {
            if !made.contains(&operand) && !is_constant(graph, operand) && !read.contains(&operand)
            {
                read.push(operand);
            }
        }
    }
    let read_inside: BTreeSet<ValueId> = inside
        .iter()
        .flat_map(|&op| graph.op(op).operands.iter().copied())
        .collect();
    let outputs: BTreeSet<ValueId> = graph.outputs().iter().copied().collect();
    let given = made
        .iter()
        .copied()
        .filter(|value| !read_inside.contains(value) || outputs.contains(value));
    (read, given.collect())
}

fn is_constant(graph: &Graph, value: ValueId) -> bool {
    match graph.value(value).definition {
        kiln_ir::Definition::Result { op, .. } => matches!(graph.op(op).op, Op::Constant(_)),
        _ => false,
    }
}

/// The values between steps; views, which no step computes, are skipped.
fn edges(seen: &Seen<'_>, ops_of: &[&[OpId]]) -> Vec<Edge> {
    let graph = seen.graph;
    let mut step_of: BTreeMap<OpId, usize> = BTreeMap::new();
    for (step, ops) in ops_of.iter().enumerate() {
        for &op in *ops {
            step_of.entry(op).or_insert(step);
        }
    }
    let mut edges = Vec::new();
    let mut seen_pairs = BTreeSet::new();
    for (to, ops) in ops_of.iter().enumerate() {
        let operands = ops
            .iter()
            .flat_map(|&op| graph.op(op).operands.iter().copied());
        for operand in operands {
            for (from, value) in makers(graph, &step_of, operand) {
                if from != to && seen_pairs.insert((from, to, value)) {
                    edges.push(Edge {
                        from,
                        to,
                        value: value_text(graph, value),
                        bytes: bytes_of(graph, value, seen.binding),
                    });
                }
            }
        }
    }
    edges
}

/// The steps from which a value comes, with the value that each of them makes.
fn makers(graph: &Graph, step_of: &BTreeMap<OpId, usize>, value: ValueId) -> Vec<(usize, ValueId)> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::from([value]);
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        let kiln_ir::Definition::Result { op, .. } = graph.value(value).definition else {
            continue;
        };
        match step_of.get(&op) {
            Some(&step) => found.push((step, value)),
            None => {
                let operands = graph.op(op).operands.iter().copied();
                pending.extend(operands.filter(|operand| seen.insert(*operand)));
            }
        }
    }
    found
}

/// The bytes of a value at the sizes of the call, as far as they are known.
pub(super) fn bytes_of(graph: &Graph, value: ValueId, binding: &Binding) -> Option<u64> {
    let ty = graph.tensor_ty(value)?;
    let sizes = graph.dims().evaluate_all(&ty.dims, binding).ok()?;
    let element = ty.dtype.size_in_bytes() as u64;
    sizes.into_iter().try_fold(element, |bytes, size| {
        bytes.checked_mul(u64::try_from(size).ok()?)
    })
}

/// `%y: f32[batch, 8]`.
pub(super) fn value_text(graph: &Graph, value: ValueId) -> String {
    format!(
        "{}: {}",
        value_name(graph, value),
        graph.ty(value).display(graph.dims())
    )
}

/// `add %y: f32[batch, 8]`.
fn op_text(graph: &Graph, op: OpId) -> String {
    let data = graph.op(op);
    let results = data.results.iter().map(|&value| value_text(graph, value));
    format!(
        "{} {}",
        data.op.mnemonic(),
        results.collect::<Vec<_>>().join(", ")
    )
}
