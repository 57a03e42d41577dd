//! Merges axes that are always used together: an elementwise kernel over `[B, S, D]` becomes one over `[B*S*D]`.
//!
//! Adjacent axes `a` and `b` can be merged if each index list that uses one uses both, side by side, and nothing else
//! uses either except [positions](Positions) `a * |b| + b` and [comparisons](Steps) of `a`, which may be shifted. The
//! indexed axes of the buffer or stage must then merge too, and so must every other index of those, up to a fixed
//! point. The memory layout allows it if a step of the left axis equals the length of the right one in steps of that
//! axis.

use std::collections::BTreeSet;

use kiln_scalar::ScalarValue;
use kiln_symbolic_shape::DimId;

use super::positions::Positions;
use super::steps::Steps;
use crate::form::{
    Axes, AxisId, BufferId, Extent, Item, Kernel, Node, NodeId, StageId, StageOperation,
};
use crate::verify::used_nodes;

/// The maximum number of pairs tried in one kernel.
const MAX_TRIES: usize = 64;

pub(crate) fn merge_axes(mut kernel: Kernel) -> Kernel {
    let mut tries = 0;
    'again: loop {
        for pair in neighbours(&kernel) {
            tries += 1;
            if tries > MAX_TRIES {
                return kernel;
            }
            if let Some(merge) = together(&kernel, pair) {
                match merged(kernel.clone(), &merge) {
                    Some(merged) => kernel = merged,
                    None => continue,
                }
                continue 'again;
            }
        }
        return kernel;
    }
}

/// The indexed object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Indexed {
    Buffer(BufferId),
    Stage(StageId),
}

/// A list of indices.
struct Access {
    of: Indexed,
    indices: Vec<NodeId>,
}

/// Axes, and places of indexed objects, that are merged with the next.
#[derive(Default)]
struct Merge {
    axes: BTreeSet<(AxisId, AxisId)>,
    places: BTreeSet<(Indexed, usize)>,
}

/// Axes that are adjacent in the loops over them.
fn neighbours(kernel: &Kernel) -> Vec<(AxisId, AxisId)> {
    let mut found = Vec::new();
    for axes in binders(kernel) {
        found.extend(axes.windows(2).map(|pair| (pair[0], pair[1])));
    }
    found
}

fn binders(kernel: &Kernel) -> Vec<Axes> {
    let mut found = vec![kernel.outer.clone()];
    for stage in kernel.stages.values() {
        found.push(stage.axes.clone());
        if let StageOperation::Reduce { axes, .. } = &stage.operation {
            found.push(axes.clone());
        }
    }
    let stores = crate::form::stores(kernel).into_iter();
    found.extend(stores.map(|store| store.axes.clone()));
    found
}

fn accesses(kernel: &Kernel) -> Vec<Access> {
    let mut found = Vec::new();
    for node in used_nodes(kernel) {
        let (of, indices) = match kernel.node(node) {
            Node::Load(load) => (Indexed::Buffer(load.buffer), &load.indices),
            Node::Local { stage, indices }
            | Node::Previous { stage, indices }
            | Node::Last { stage, indices } => (Indexed::Stage(*stage), indices),
            _ => continue,
        };
        found.push(Access {
            of,
            indices: indices.to_vec(),
        });
    }
    for store in crate::form::stores(kernel) {
        found.push(Access {
            of: Indexed::Buffer(store.buffer),
            indices: store.indices.to_vec(),
        });
    }
    found
}

/// Everything that must be merged together with a pair of axes; `None` if that is not possible.
fn together(kernel: &Kernel, pair: (AxisId, AxisId)) -> Option<Merge> {
    let accesses = accesses(kernel);
    let neighbours: BTreeSet<_> = neighbours(kernel).into_iter().collect();
    let plain = |node: NodeId| match kernel.node(node) {
        Node::Axis(axis) => Some(*axis),
        _ => None,
    };
    let steps = Steps::of_axes(kernel, &value_roots(kernel));
    let shift = |node: NodeId| {
        let mut axes = steps.iter();
        let axis = axes.find(|(_, steps)| steps.shifts.contains(&node));
        axis.map(|(&axis, _)| axis)
    };
    let shifted = |node: NodeId| plain(node).or_else(|| shift(node));
    let mut merge = Merge::default();
    let mut pending = vec![pair];
    while let Some(pair) = pending.pop() {
        if !merge.axes.insert(pair) {
            continue;
        }
        if !neighbours.contains(&pair) || used_otherwise(kernel, pair, steps.get(&pair.0)) {
            return None;
        }
        let (a, b) = pair;
        // The axes of a stage's own local are indexed by its readers.
        for (stage, data) in kernel.stages.iter() {
            let place = data.axes.windows(2).position(|axes| axes == [a, b]);
            if let Some(place) = place {
                merge.places.insert((Indexed::Stage(stage), place));
            }
        }
        for access in &accesses {
            for (place, &index) in access.indices.iter().enumerate() {
                let axis = shifted(index);
                let next = access.indices.get(place + 1).copied().and_then(plain);
                let before = place
                    .checked_sub(1)
                    .and_then(|p| shifted(access.indices[p]));
                if axis == Some(a) {
                    if next != Some(b) {
                        return None;
                    }
                    merge.places.insert((access.of, place));
                } else if axis == Some(b) && before != Some(a) {
                    return None;
                }
            }
        }
        for &(of, place) in &merge.places {
            if !adjoins(kernel, of, place) {
                return None;
            }
            for access in accesses.iter().filter(|access| access.of == of) {
                let pair = (
                    shifted(access.indices[place])?,
                    plain(access.indices[place + 1])?,
                );
                let (size, extent) = (size(kernel, of, place + 1)?, kernel.axis(pair.1).extent);
                if !kernel.dims.equal(size, extent.bound()).is_proved() {
                    return None;
                }
                pending.push(pair);
            }
            if let Indexed::Stage(stage) = of {
                let axes = &kernel.stage(stage).axes;
                pending.push((axes[place], axes[place + 1]));
            }
        }
    }
    // An axis may be in one pair only; otherwise three would be merged at once.
    let mut seen = BTreeSet::new();
    let is_once = merge
        .axes
        .iter()
        .all(|&(a, b)| seen.insert(a) && seen.insert(b));
    is_once.then_some(merge)
}

/// Whether an axis is used other than by indices, positions and steps, or has no plain extent.
fn used_otherwise(kernel: &Kernel, (a, b): (AxisId, AxisId), steps: Option<&Steps>) -> bool {
    let is_plain = |axis: AxisId| matches!(kernel.axis(axis).extent, Extent::Size(_));
    if !is_plain(a) || !is_plain(b) {
        return true;
    }
    let is_own =
        |node: NodeId| matches!(kernel.node(node), Node::Axis(axis) if *axis == a || *axis == b);
    let roots = value_roots(kernel);
    let positions = Positions::of(kernel, (a, b), &roots);
    // A shift is an index, and nothing else.
    let is_shift = |node: NodeId| steps.is_some_and(|steps| steps.shifts.contains(&node));
    let is_step = |node: NodeId| steps.is_some_and(|steps| steps.contains(node));
    let is_own = |node: NodeId| is_own(node) || is_shift(node);
    let in_values = used_nodes(kernel)
        .into_iter()
        .any(|node| match kernel.node(node) {
            Node::Apply { .. } if positions.contains(node) || is_step(node) => false,
            Node::Apply { operands, .. } | Node::Call { operands, .. } => {
                operands.iter().copied().any(is_own)
            }
            Node::Load(load) => load
                .guard
                .as_ref()
                .is_some_and(|guard| is_own(guard.otherwise)),
            _ => false,
        });
    in_values || roots.into_iter().any(is_own)
}

/// The nodes that stages, stores and axes use, indices apart.
fn value_roots(kernel: &Kernel) -> Vec<NodeId> {
    let mut roots: Vec<NodeId> = Vec::new();
    for stage in kernel.stages.values() {
        roots.push(stage.value);
        roots.extend(stage.init);
    }
    roots.extend(crate::form::stores(kernel).iter().map(|store| store.value));
    for axis in kernel.axes.values() {
        if let Extent::Clamped { value, .. } = axis.extent {
            roots.push(value);
        }
    }
    roots
}

fn size(kernel: &Kernel, of: Indexed, place: usize) -> Option<DimId> {
    match of {
        Indexed::Buffer(buffer) => kernel.buffer(buffer).shape.get(place).copied(),
        Indexed::Stage(stage) => {
            let axis = kernel.stage(stage).axes.get(place)?;
            Some(kernel.axis(*axis).extent.bound())
        }
    }
}

/// Whether a step along an axis is as long as the next axis.
fn adjoins(kernel: &Kernel, of: Indexed, place: usize) -> bool {
    let Indexed::Buffer(buffer) = of else {
        return true;
    };
    let buffer = kernel.buffer(buffer);
    let Some(strides) = &buffer.strides else {
        return true;
    };
    let mut dims = kernel.dims.clone();
    let step = dims.mul(strides[place + 1], buffer.shape[place + 1]);
    step.is_ok_and(|step| dims.equal(strides[place], step).is_proved())
}

/// Multiplies a length by the extent of an axis.
fn scale(kernel: &mut Kernel, length: NodeId, axis: AxisId) -> Option<()> {
    let extent = kernel.axis(axis).extent.bound();
    let size = match *kernel.node(length) {
        Node::Size(size) => size,
        Node::Literal(ScalarValue::I64(size)) => kernel.dims.constant(size),
        _ => return None,
    };
    let scaled = kernel.dims.mul(size, extent).ok()?;
    kernel.nodes[length].node = match kernel.dims.as_constant(scaled) {
        Some(size) => Node::Literal(ScalarValue::I64(size)),
        None => Node::Size(scaled),
    };
    Some(())
}

fn merged(mut kernel: Kernel, merge: &Merge) -> Option<Kernel> {
    let roots = value_roots(&kernel);
    let positions = merge.axes.iter().flat_map(|&(a, b)| {
        let sums = Positions::of(&kernel, (a, b), &roots).sums;
        sums.into_iter().map(move |sum| (sum, a))
    });
    let mut steps = Steps::of_axes(&kernel, &roots);
    let mut lengths: Vec<(NodeId, AxisId)> = Vec::new();
    for &(a, b) in &merge.axes {
        let own = steps.remove(&a).unwrap_or_default().lengths;
        lengths.extend(own.into_iter().map(|length| (length, b)));
    }
    for (sum, axis) in positions.collect::<Vec<_>>() {
        kernel.nodes[sum].node = Node::Axis(axis);
    }
    for (length, next) in lengths {
        scale(&mut kernel, length, next)?;
    }
    for &(a, b) in &merge.axes {
        let (left, right) = (kernel.axis(a).extent.bound(), kernel.axis(b).extent.bound());
        let product = kernel.dims.mul(left, right).ok()?;
        kernel.axes[a].extent = Extent::Size(product);
    }
    // From the right, so that places keep their numbers.
    for &(of, place) in merge.places.iter().rev() {
        if let Indexed::Buffer(buffer) = of {
            let (left, right) = (
                kernel.buffer(buffer).shape[place],
                kernel.buffer(buffer).shape[place + 1],
            );
            let product = kernel.dims.mul(left, right).ok()?;
            let buffer = &mut kernel.buffers[buffer];
            buffer.shape[place] = product;
            buffer.shape.remove(place + 1);
            if let Some(strides) = &mut buffer.strides {
                strides.remove(place);
            }
        }
    }
    let drop = |of: Indexed, indices: &mut crate::form::Nodes| {
        for &(other, place) in merge.places.iter().rev() {
            if other == of {
                indices.remove(place + 1);
            }
        }
    };
    for data in kernel.nodes.values_mut() {
        match &mut data.node {
            Node::Load(load) => drop(Indexed::Buffer(load.buffer), &mut load.indices),
            Node::Local { stage, indices }
            | Node::Previous { stage, indices }
            | Node::Last { stage, indices } => {
                drop(Indexed::Stage(*stage), indices);
            }
            _ => {}
        }
    }
    let inner: BTreeSet<AxisId> = merge.axes.iter().map(|&(_, b)| b).collect();
    let keep = |axes: &mut Axes| axes.retain(|axis| !inner.contains(axis));
    keep(&mut kernel.outer);
    for stage in kernel.stages.values_mut() {
        keep(&mut stage.axes);
        if let StageOperation::Reduce { axes, .. } = &mut stage.operation {
            keep(axes);
        }
    }
    let store = |item: &mut Item| {
        if let Item::Store(store) = item {
            keep(&mut store.axes);
            drop(Indexed::Buffer(store.buffer), &mut store.indices);
        }
    };
    for item in &mut kernel.items {
        match item {
            Item::Carry(carry) => carry.items.iter_mut().for_each(store),
            item => store(item),
        }
    }
    Some(kernel)
}
