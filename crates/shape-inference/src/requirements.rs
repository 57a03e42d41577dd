//! Requirements of ops on the sizes of each call: one list per region, derived from the types of a verified graph.
//!
//! An op that computes anything requires the same as the interpreter does when it reaches the op, in the same order,
//! whether its result is used or not. A result's type presumes that the op's own requirements are met, so a requirement is
//! omitted only because of what is known of the op's *operands*.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::node::OpView;
use kiln_ir::{Dims, Graph, Op, OpId, PadMode, ReduceFunction, TensorType, ValueId, Window};
use kiln_symbolic_shape::{DimId, RequirementKind as Kind, SizeRequirement};

/// Records, for each region, the requirements of its ops on sizes, unless that was done before.
///
/// To be called before anything is simplified: the requirements of ops that a rewrite drops still apply to each call.
pub fn record_requirements(graph: &mut Graph) {
    if graph.has_requirements() {
        return;
    }
    let mut regions = vec![(graph.body(), Vec::new())];
    while let Some((region, position)) = regions.pop() {
        let ops = graph.region(region).ops.clone();
        let requirements = requirements_of(graph, &ops);
        graph.set_requirements(region, requirements, position);
        for (index, &op) in ops.iter().enumerate() {
            let nested = graph.op(op).regions.iter();
            regions.extend(nested.map(|&region| (region, vec![index_of(index)])));
        }
    }
}

/// The position of an op; saturated beyond the maximum, where order is lost.
fn index_of(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// The requirements of these ops on sizes, in order, each once; ops of nested regions, which may never run, contribute
/// none.
pub fn requirements_of(graph: &mut Graph, ops: &[OpId]) -> Vec<SizeRequirement> {
    let mut seen: HashSet<(Kind, Vec<DimId>, Vec<DimId>)> = HashSet::new();
    let mut all = Vec::new();
    for (index, &op) in ops.iter().enumerate() {
        let mut asked = Asked::new(graph, op, index_of(index));
        asked.ask(graph);
        for requirement in asked.list {
            let key = (
                requirement.kind,
                requirement.left.clone(),
                requirement.right.clone(),
            );
            if !graph.dims().always_meets(&requirement) && seen.insert(key) {
                all.push(requirement);
            }
        }
    }
    all
}

/// One op and its requirements.
struct Asked {
    op: Op,
    origin: String,
    position: u32,
    operands: Vec<Option<TensorType>>,
    results: Vec<Option<TensorType>>,
    list: Vec<SizeRequirement>,
}

impl Asked {
    fn new(graph: &Graph, id: OpId, position: u32) -> Self {
        let data = graph.op(id);
        let types = |values: &[ValueId]| {
            let types = values.iter().map(|&value| graph.tensor_ty(value).cloned());
            types.collect::<Vec<_>>()
        };
        Self {
            op: data.op.clone(),
            origin: OpView::of_op(data).label(),
            position,
            operands: types(&data.operands),
            results: types(&data.results),
            list: Vec::new(),
        }
    }

    fn push(
        &mut self,
        kind: Kind,
        what: impl Into<Cow<'static, str>>,
        left: impl IntoIterator<Item = DimId>,
        right: impl IntoIterator<Item = DimId>,
    ) {
        self.list.push(SizeRequirement {
            kind,
            what: what.into(),
            origin: self.origin.clone(),
            position: vec![self.position],
            left: left.into_iter().collect(),
            right: right.into_iter().collect(),
        });
    }

    /// The sizes of an operand; empty if it does not exist, which the verifier rejects.
    fn operand(&self, index: usize) -> Dims {
        let ty = self.operands.get(index).and_then(Option::as_ref);
        ty.map_or_else(Dims::new, |ty| ty.dims.clone())
    }

    fn result(&self) -> Dims {
        let ty = self.results.first().and_then(Option::as_ref);
        ty.map_or_else(Dims::new, |ty| ty.dims.clone())
    }

    /// The requirements on sizes among the attributes: each is defined, and none is negative.
    fn sizes(&mut self, what: &'static str, dims: &[DimId]) {
        for &dim in dims {
            self.push(Kind::Value, what, [dim], []);
            self.push(Kind::NonNegative, what, [dim], []);
        }
    }

    fn broadcast(&mut self, shapes: &[Dims]) {
        let rank = shapes.iter().map(|dims| dims.len()).max().unwrap_or(0);
        for axis in 0..rank {
            let at = |dims: &Dims| dims.get((axis + dims.len()).checked_sub(rank)?).copied();
            let met: Vec<DimId> = shapes.iter().filter_map(at).collect();
            self.push(Kind::Broadcast, "sizes that broadcast", met, []);
        }
    }

    fn ask(&mut self, graph: &mut Graph) {
        let (x, y) = (self.operand(0), self.operand(1));
        match self.op.clone() {
            Op::Iota { dims, .. } | Op::RandomBits { dims } => self.sizes("a size", &dims),
            Op::Dims { sizes } => self.push(Kind::Value, "a size", sizes, []),
            Op::Map { .. } => {
                let shapes: Vec<Dims> = (0..self.operands.len())
                    .map(|index| self.operand(index))
                    .collect();
                self.broadcast(&shapes);
            }
            Op::Reshape { dims } => {
                self.sizes("a size", &dims);
                self.push(Kind::SameCount, "numbers of elements", x, dims);
            }
            Op::Broadcast { dims } => {
                self.sizes("a size", &dims);
                let skipped = dims.len().saturating_sub(x.len());
                let to: Dims = dims.iter().skip(skipped).copied().collect();
                self.push(Kind::Expand, "sizes to repeat", x, to);
            }
            Op::Slice {
                starts,
                sizes,
                steps,
            } => {
                self.sizes("the size of a slice", &sizes);
                let axes = starts.iter().zip(&sizes).zip(&steps).zip(&x);
                for (((&start, &size), &step), &axis) in axes {
                    let kind = Kind::Slice { step };
                    self.push(kind, "a slice inside its axis", [start, size], [axis]);
                }
            }
            Op::Pad { low, high, mode } => {
                self.sizes("a padding", &low);
                self.sizes("a padding", &high);
                if mode != PadMode::Constant {
                    let result = self.result();
                    for &size in &x {
                        let what = "a border taken from the operand";
                        self.push(Kind::NotEmpty, what, [size], result.clone());
                    }
                }
            }
            Op::Concat { axis } => {
                let beside = |dims: Dims| {
                    let dims = dims.into_iter().enumerate();
                    dims.filter(move |&(at, _)| at != axis).map(|(_, dim)| dim)
                };
                for index in 1..self.operands.len() {
                    let (first, other) = (self.operand(0), self.operand(index));
                    let what = "axes other than the concatenated one";
                    self.push(Kind::Equal, what, beside(first), beside(other));
                }
            }
            Op::GatherElements { axis } => self.indexed_elements(&x, &y, axis),
            Op::GatherNd { batch_axes } => {
                let (x, y) = (
                    x.into_iter().take(batch_axes),
                    y.into_iter().take(batch_axes),
                );
                self.push(Kind::Equal, "batch axes", x, y);
            }
            Op::ScatterElements { axis, .. } => {
                let updates = self.operand(2);
                let what = "axes of the indexed block and the updates";
                self.push(Kind::Equal, what, y.clone(), updates);
                self.indexed_elements(&x, &y, axis);
            }
            Op::ScatterNd { .. } => self.scatter_nd(graph, &x, &y),
            Op::UpdateSlice { axes } => {
                let beside = |dims: Dims| {
                    let dims = dims.into_iter().enumerate();
                    let dims = dims.filter(|(axis, _)| !axes.contains(axis));
                    dims.map(|(_, dim)| dim).collect::<Dims>()
                };
                let (kept, given) = (beside(x.clone()), beside(self.operand(2)));
                let what = "axes other than those of an update";
                self.push(Kind::Equal, what, kept, given);
            }
            Op::Matmul { .. } => {
                let ([left @ .., _, k], [right @ .., right_k, _]) = (x.as_slice(), y.as_slice())
                else {
                    return;
                };
                self.push(Kind::Equal, "inner axes", [*k], [*right_k]);
                self.broadcast(&[Dims::from_slice(left), Dims::from_slice(right)]);
            }
            Op::Conv { window, groups, .. } => {
                let (Some(&channels), Some(&filters), Some(&group)) =
                    (x.get(1), y.first(), y.get(1))
                else {
                    return;
                };
                let divisor = i64::try_from(groups).unwrap_or(i64::MAX);
                self.push(Kind::Divides { divisor }, "groups", [filters], []);
                let groups = graph.dims_mut().constant(divisor);
                self.push(Kind::Product, "input channels", [channels], [group, groups]);
                self.window(&window, &[]);
            }
            Op::ConvTranspose {
                window,
                output_padding,
                groups,
            } => {
                let (Some(&channels), Some(&expected)) = (x.get(1), y.first()) else {
                    return;
                };
                let divisor = i64::try_from(groups).unwrap_or(i64::MAX);
                self.push(Kind::Divides { divisor }, "groups", [channels], []);
                self.push(Kind::Equal, "input channels", [channels], [expected]);
                self.window(&window, &output_padding);
            }
            Op::Pool { window, .. } | Op::ArgPool { window, .. } => self.window(&window, &[]),
            Op::Reduce {
                function: ReduceFunction::Mean,
                axes,
                ..
            } => {
                let is_integer = |ty: &TensorType| ty.dtype.is_integer();
                if self.operands.iter().flatten().all(is_integer) {
                    let reduced = axes.iter().filter_map(|&axis| x.get(axis).copied());
                    let (reduced, result): (Vec<_>, _) = (reduced.collect(), self.result());
                    self.push(Kind::MeanOfSome, "a mean of integers", reduced, result);
                }
            }
            Op::ArgReduce { axis, .. } => {
                let (axis, result) = (x.get(axis).copied(), self.result());
                self.push(Kind::NotEmpty, "the index of an extremum", axis, result);
            }
            Op::Resize(resize) => {
                self.sizes("the size of a result", &resize.sizes);
                let result = self.result();
                self.push(Kind::NotEmpty, "resampling", x, result);
            }
            Op::TopK { k, axis, .. } => {
                self.sizes("the number of elements to find", &[k]);
                let axis = x.get(axis).copied();
                self.push(Kind::AtMost, "elements along the axis", [k], axis);
            }
            Op::Suppress { k } => {
                self.sizes("the number of boxes to keep", &[k]);
                if let (&[batch, boxes, _], &[scored, _, scores]) = (x.as_slice(), y.as_slice()) {
                    let (left, right) = ([batch, boxes], [scored, scores]);
                    self.push(Kind::Equal, "batches and boxes", left, right);
                }
            }
            // The requirements of these ops concern data, or are those of their regions.
            _ => return,
        }
        if !matches!(self.op, Op::TopK { .. } | Op::Custom { .. }) {
            let result = self.result();
            for dim in result {
                self.push(Kind::Value, "a size", [dim], []);
            }
        }
    }

    /// Axes other than the indexed one are not longer in the indices than in the operand.
    fn indexed_elements(&mut self, x: &Dims, indices: &Dims, axis: usize) {
        let pairs = x.iter().copied().zip(indices.iter().copied()).enumerate();
        let beside = pairs.filter(|&(at, _)| at != axis);
        let (x, beside): (Vec<_>, Vec<_>) = beside.map(|(_, pair)| pair).unzip();
        if matches!(self.op, Op::ScatterElements { .. }) {
            // If there are no indices, nothing is scattered, so nothing is required.
            let along = indices.get(axis).copied();
            let covered: Vec<_> = beside.into_iter().chain(along).collect();
            let by: Vec<_> = x.into_iter().chain(along).collect();
            self.push(Kind::Covers, "axes other than the indexed one", covered, by);
            return;
        }
        for (size, index) in x.into_iter().zip(beside) {
            self.push(
                Kind::Fits,
                "axes other than the indexed one",
                [index],
                [size],
            );
        }
    }

    fn scatter_nd(&mut self, graph: &Graph, x: &Dims, indices: &Dims) {
        let Some((&depth, outer)) = indices.split_last() else {
            return;
        };
        let Some(depth) = graph.dims().range(depth).as_point() else {
            return;
        };
        let depth = usize::try_from(depth).unwrap_or(usize::MAX);
        let expected: Vec<DimId> = outer.iter().chain(x.iter().skip(depth)).copied().collect();
        let updates = self.operand(2);
        let what = "axes of the indexed block and the updates";
        self.push(Kind::Equal, what, expected, updates);
    }

    fn window(&mut self, window: &Window, output_padding: &[DimId]) {
        self.sizes("a padding", &window.low);
        self.sizes("a padding", &window.high);
        self.sizes("an output padding", output_padding);
        let spatial: Dims = self.result().into_iter().skip(2).collect();
        self.sizes("the size of a result", &spatial);
    }
}
