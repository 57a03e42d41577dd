//! Rebuilds the loop, with the hoisted ops before it.

use std::collections::{BTreeSet, HashMap};

use kiln_ir::{Definition, Graph, NewOp, Op, OpId, Rebuild, RegionId, TensorType, Type, ValueId};
use kiln_symbolic_shape::DimId;
use smallvec::SmallVec;

use super::find::{Found, Standing};

/// Appends the ops that are moved out of a loop, and the loop.
pub(super) fn rebuild_loop(rebuild: &mut Rebuild<'_>, into: RegionId, id: OpId, found: &Found) {
    let old = rebuild.old();
    let data = old.op(id);
    let Some(&body) = data.regions.first() else {
        return;
    };
    let region = old.region(body);
    let mut outside: HashMap<ValueId, ValueId> = HashMap::new();
    for (&parameter, &operand) in region.parameters.iter().zip(data.operands.iter().skip(1)) {
        if found.standing.get(&parameter) == Some(&Standing::Same) {
            outside.insert(parameter, rebuild.value(operand));
        }
    }
    let wanted = wanted_outside(old, body, found);
    for &op in &region.ops {
        let Some(&result) = old
            .op(op)
            .results
            .first()
            .filter(|&value| wanted.contains(value))
        else {
            continue;
        };
        let moved = match found.standing.get(&result) {
            Some(&Standing::Sliced { length, .. }) => {
                do_all(rebuild, into, op, length, found, &outside)
            }
            _ => copy(rebuild, into, op, &outside),
        };
        outside.insert(result, moved);
    }
    let mut new = rebuild.like(id);
    let copy = rebuild.new_graph_mut().add_region();
    rebuild.open_region(body, copy, |_| true, |_| true);
    let mut given: HashMap<ValueId, ValueId> = HashMap::new();
    for &root in &found.roots {
        if let Some(&value) = outside.get(&root) {
            let ty = rebuild.new_graph().ty(value).clone();
            new.operands.push(value);
            given.insert(root, rebuild.new_graph_mut().add_parameter(copy, ty));
        }
    }
    for &op in &region.ops {
        let result = old.op(op).results.first().copied();
        let root = result.and_then(|result| Some((result, *given.get(&result)?)));
        match root {
            None => rebuild.copy_op(copy, op),
            Some((root, parameter)) => match found.standing.get(&root) {
                Some(&Standing::Sliced { index, .. }) => {
                    let index = rebuild.value(index);
                    let mut gather = NewOp::new(
                        Op::Gather { axis: 0 },
                        [parameter, index],
                        [old.ty(root).clone()],
                    );
                    gather.origin.clone_from(&old.op(op).origin);
                    rebuild.append_mapped(copy, gather, &[root]);
                }
                _ => rebuild.map(root, parameter),
            },
        }
    }
    let results: Vec<ValueId> = region
        .results
        .iter()
        .map(|&value| rebuild.value(value))
        .collect();
    rebuild.new_graph_mut().set_results(copy, results);
    new.regions.push(copy);
    rebuild.append_mapped(into, new, &data.results);
}

/// The values of the region that are needed outside for its roots.
fn wanted_outside(graph: &Graph, body: RegionId, found: &Found) -> BTreeSet<ValueId> {
    let mut wanted = found.roots.clone();
    for &op in graph.region(body).ops.iter().rev() {
        let data = graph.op(op);
        let is_wanted = data.results.iter().any(|result| wanted.contains(result));
        if !is_wanted {
            continue;
        }
        let inside = |&&value: &&ValueId| {
            // The position of a slice stays in the region.
            let standing = found.standing.get(&value);
            let is_known = matches!(standing, Some(Standing::Same | Standing::Sliced { .. }));
            is_known && matches!(graph.value(value).definition, Definition::Result { .. })
        };
        wanted.extend(data.operands.iter().filter(inside));
    }
    wanted
}

/// Copies an op of the region to the outside.
fn copy(
    rebuild: &mut Rebuild<'_>,
    into: RegionId,
    id: OpId,
    outside: &HashMap<ValueId, ValueId>,
) -> ValueId {
    let old = rebuild.old();
    let data = old.op(id);
    let operands = data
        .operands
        .iter()
        .map(|operand| value_in(outside, *operand));
    let types = data.results.iter().map(|&value| old.ty(value).clone());
    let mut new = NewOp::new(data.op.clone(), operands, types);
    new.origin.clone_from(&data.origin);
    first_result(rebuild, into, new)
}

/// Copies an op of the region for all slices at once: they become its outermost axis.
fn do_all(
    rebuild: &mut Rebuild<'_>,
    into: RegionId,
    id: OpId,
    length: DimId,
    found: &Found,
    outside: &HashMap<ValueId, ValueId>,
) -> ValueId {
    let old = rebuild.old();
    let data = old.op(id);
    let dims_of = |value: ValueId| old.ty(value).innermost().dims.clone();
    let result = data.results.first().map(|&value| old.ty(value).innermost());
    let Some(result) = result else {
        unreachable!("only ops with one result are sliced");
    };
    let with_length = |dims: &[DimId]| -> Vec<DimId> {
        [length].into_iter().chain(dims.iter().copied()).collect()
    };
    if let (&Op::Gather { axis }, Some(&x)) = (&data.op, data.operands.first()) {
        let x = value_in(outside, x);
        let rank = result.rank() + 1;
        if axis == 0 {
            return x;
        }
        let permutation = [axis]
            .into_iter()
            .chain((0..rank).filter(|&other| other != axis));
        let permutation = permutation.collect();
        let ty = Type::tensor(result.dtype, with_length(&result.dims));
        let new = NewOp::new(Op::Transpose { permutation }, [x], [ty]);
        return first_result(rebuild, into, new);
    }
    let op = match &data.op {
        Op::Reshape { dims } => Op::Reshape {
            dims: with_length(dims).into_iter().collect(),
        },
        Op::Transpose { permutation } => Op::Transpose {
            permutation: [0]
                .into_iter()
                .chain(permutation.iter().map(|&axis| axis + 1))
                .collect(),
        },
        other => other.clone(),
    };
    let aligns = matches!(data.op, Op::Map { .. } | Op::Matmul { .. });
    let mut operands: SmallVec<[ValueId; 4]> = SmallVec::new();
    for &operand in &data.operands {
        let value = value_in(outside, operand);
        let is_sliced = matches!(found.standing.get(&operand), Some(Standing::Sliced { .. }));
        let dims = dims_of(operand);
        // Axes are aligned at the innermost one, so the slices' axis must be at the same depth as in the result.
        let missing = result.rank().saturating_sub(dims.len());
        if !is_sliced || !aligns || missing == 0 {
            operands.push(value);
            continue;
        }
        let one = rebuild.new_graph_mut().dims_mut().constant(1);
        let wide = std::iter::repeat_n(one, missing).chain(dims.iter().copied());
        let wide = with_length(&wide.collect::<Vec<DimId>>());
        let ty = Type::tensor(old.ty(operand).innermost().dtype, wide.clone());
        let reshape = Op::Reshape {
            dims: wide.into_iter().collect(),
        };
        operands.push(first_result(
            rebuild,
            into,
            NewOp::new(reshape, [value], [ty]),
        ));
    }
    let TensorType { dtype, dims } = result;
    let ty = Type::tensor(*dtype, with_length(dims));
    let mut new = NewOp::new(op, operands, [ty]);
    new.origin.clone_from(&data.origin);
    first_result(rebuild, into, new)
}

fn value_in(outside: &HashMap<ValueId, ValueId>, value: ValueId) -> ValueId {
    match outside.get(&value) {
        Some(&value) => value,
        None => unreachable!("ops are moved in their order, with all that they read"),
    }
}

fn first_result(rebuild: &mut Rebuild<'_>, into: RegionId, new: NewOp) -> ValueId {
    let id = rebuild.append(into, new);
    match rebuild.new_graph().op(id).results.first() {
        Some(&result) => result,
        None => unreachable!("the op was given a result type"),
    }
}
