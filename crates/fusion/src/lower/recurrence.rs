//! Recurrences: a loop lowered to one kernel, as a carry block whose steps are the iterations.
//!
//! Each point of the carried values goes through all iterations independently. A carried value is a stage of the block,
//! which the body reads as `prev`; stacked values are stored at each step, and the last carried values after the block.
//!
//! Loops whose condition depends on data are not lowered here, nor are bodies that do more than compute elements from
//! elements at the same point, captured values and the iteration number. They stay loops, with at least one launch per
//! iteration.

use std::collections::{BTreeSet, HashMap};

use kiln_ir::{Definition, Graph, LoopCourse, LoopTrips, Op, OpData, OpId, ValueId};
use kiln_kernel::{AxisId, NodeId, Nodes, Role, StageId, StageOperation};
use kiln_shape_inference::requirements_of;
use kiln_symbolic_shape::{DimId, Predicate};
use kiln_tensor::DType;

use super::context::{Demand, Dims, Halt, RegionLowering, Revision, Step, compute_dtype};
use super::dispatch::unsupported;
use super::guard::GuardId;
use super::prepare::KernelSizes;
use super::producers::Producers;
use super::{LowerError, LoweredKernel, Region};
use crate::op_kind::{OpKind, unit_cost};

/// The maximum cost of a value that is the same for several points and computed at each of them, in simple operations.
const REPEAT_LIMIT: u64 = 64;

/// The maximum length of a chain of ops that compute a value from sizes; longer ones are left in place.
const SIZE_OPS_LIMIT: usize = 16;

/// Why a body with requirements on sizes remains a loop: a loop without iterations does not impose them.
const REQUIRES: &str = "its body has requirements on sizes";

/// The loop of a lowering.
pub(super) struct Body {
    id: OpId,
    parameters: HashMap<ValueId, Parameter>,
    /// The values before the first iteration.
    initial: Vec<ValueId>,
    /// The stage of each demanded carried value.
    held: Vec<Option<Held>>,
    steps: AxisId,
}

/// The stage of a carried value.
#[derive(Clone)]
struct Held {
    stage: StageId,
    /// The indices at which the value is read: the same point everywhere.
    at: Nodes,
    /// Whether the stage has its value.
    is_defined: bool,
}

/// The meaning of a parameter of a loop's body.
#[derive(Clone, Copy)]
enum Parameter {
    Iteration,
    Carried(usize),
    Captured(ValueId),
}

/// An output of the kernel: a result of the loop.
enum Output {
    /// The last carried value.
    Last(usize),
    /// A stacked value, by its position among the body's results.
    Stacked(ValueId),
}

/// The loop among a region's ops.
pub(super) fn loop_of(graph: &Graph, region: &Region<'_>) -> Option<OpId> {
    let is_loop = |op: &&OpId| matches!(graph.op(**op).op, Op::Loop { .. });
    region.ops.iter().find(is_loop).copied()
}

/// Lowers a region that is a loop, with the ops that compute its trip count and captures from sizes.
pub(super) fn lower_loop(
    graph: &Graph,
    region: &Region<'_>,
    id: OpId,
) -> Result<LoweredKernel, LowerError> {
    let data = graph.op(id);
    let refuse = |why| refused(id, data, why);
    let trips = trips_of(graph, id).map_err(refuse)?;
    let (&Op::Loop { carried }, &[body]) = (&data.op, data.regions.as_slice()) else {
        return Err(refuse("it has no body"));
    };
    let body = graph.region(body);
    check_body(graph, body).map_err(refuse)?;
    if !data.symbols.is_empty() {
        return Err(refuse(
            "the sizes of its results are known only after it ran",
        ));
    }
    let mut ops: Vec<OpId> = region.ops.iter().copied().filter(|&op| op != id).collect();
    ops.extend(&body.ops);
    let of_values = Producers::of_region(
        graph,
        &Region {
            ops: &ops,
            ..*region
        },
    );
    ops.push(id);
    let sizes = KernelSizes::of_region(
        graph,
        &Region {
            ops: &ops,
            ..*region
        },
    )?;
    let n_required = sizes.requirements.len();
    let revision = Revision::default();
    let mut lowering = RegionLowering::new(graph, region.name, &of_values, sizes, &revision);

    let trips = match trips {
        LoopTrips::Count(count) => lowering.b.dims_mut().constant(count.max(0)),
        LoopTrips::Size(size) => lowering.not_negative(size)?,
    };
    let outputs = lowering.loop_outputs(region, (data, carried), &body.results, trips)?;
    let outer = lowering.points_of_outputs(&outputs)?;
    let steps = lowering.new_axis("t", trips);
    lowering.ambient.insert(steps);
    let given = data.operands.iter().skip(2);
    let captured = given.clone().skip(carried);
    let roles = [Parameter::Iteration].into_iter();
    let roles = roles.chain((0..carried).map(Parameter::Carried));
    let roles = roles.chain(captured.map(|&value| Parameter::Captured(value)));
    lowering.body = Some(Body {
        id,
        parameters: body.parameters.iter().copied().zip(roles).collect(),
        initial: given.take(carried).copied().collect(),
        held: vec![None; carried],
        steps,
    });

    lowering.b.begin_carry(steps, false);
    for (_, output, shape) in &outputs {
        if let Output::Last(number) = *output {
            let at = lowering.at_points(shape, &outer);
            lowering.drive(&mut |this| this.held_by(number, &at))?;
        }
    }
    let next = body.results.get(1..).unwrap_or_default();
    lowering.define_carried(next)?;
    let mut stacked = Vec::new();
    for (value, output, shape) in &outputs {
        if let Output::Stacked(yielded) = *output {
            let at = lowering.at_points(shape, &outer);
            stacked.push((*value, lowering.demand(yielded, at.clone())?, at));
        }
    }
    lowering.define_carried(next)?;
    for (value, element, at) in stacked {
        let step = lowering.b.index(steps);
        let indices = [step].into_iter().chain(at).collect();
        lowering.write(value, indices, element)?;
    }
    lowering.b.end_carry();
    for (value, output, shape) in &outputs {
        if let Output::Last(number) = *output {
            let at = lowering.at_points(shape, &outer);
            let last = lowering.last_of(number);
            lowering.write(*value, at, last)?;
        }
    }
    lowering.check_repeats(&outer)?;
    if lowering.requirements.len() > n_required {
        return Err(refuse(REQUIRES));
    }
    lowering.into_kernel()
}

/// The trip count of a loop, if that alone ends it.
fn trips_of(graph: &Graph, id: OpId) -> Result<LoopTrips, &'static str> {
    let course = LoopCourse::of(graph, id);
    match course.trips {
        Some(trips) if course.begins == Some(true) && course.goes_on => Ok(trips),
        Some(_) => Err("its condition depends on data"),
        None => Err("its trip count is data, not a size"),
    }
}

/// Whether a body computes elements from elements, and has no requirements on sizes.
fn check_body(graph: &Graph, body: &kiln_ir::Region) -> Result<(), &'static str> {
    if !body.symbols.is_empty() {
        return Err("its iterations change the sizes of carried values");
    }
    for &op in &body.ops {
        let data = graph.op(op);
        match OpKind::of(&data.op) {
            OpKind::Pointwise | OpKind::Movement => {}
            OpKind::Lookup if !matches!(data.op, Op::Resize(_)) => {}
            OpKind::Apart if matches!(data.op, Op::Constant(_)) => {}
            OpKind::Contraction | OpKind::Window => {
                return Err("its body contains a contraction or a window");
            }
            OpKind::Reduction | OpKind::Scan => {
                return Err("its body contains a reduction or a scan");
            }
            _ => return Err("its body is not element-wise"),
        }
    }
    let requires =
        !body.requirements.is_empty() || !requirements_of(&mut graph.clone(), &body.ops).is_empty();
    if requires { Err(REQUIRES) } else { Ok(()) }
}

fn refused(id: OpId, data: &OpData, why: &'static str) -> LowerError {
    match unsupported(id, data, why) {
        Halt::Error(error) => error,
        Halt::Pending => unreachable!("a refusal is not pending"),
    }
}

impl RegionLowering<'_> {
    /// A size, clamped at 0.
    fn not_negative(&mut self, size: DimId) -> Result<DimId, LowerError> {
        let size = self.dim(size)?;
        let table = self.b.dims_mut();
        let zero = table.constant(0);
        if table.prove(&Predicate::LessEqual(zero, size)).is_proved() {
            return Ok(size);
        }
        Ok(table.max(size, zero)?)
    }

    /// The region's outputs, with the sizes of one iteration.
    fn loop_outputs(
        &mut self,
        region: &Region<'_>,
        (data, carried): (&OpData, usize),
        yielded: &[ValueId],
        trips: DimId,
    ) -> Result<Vec<(ValueId, Output, Dims)>, LowerError> {
        let mut outputs = Vec::new();
        for &value in region.outputs {
            let position = data.results.iter().position(|&result| result == value);
            let number = position.ok_or(LowerError::Output { value })?;
            let mut shape = self.shape(value)?;
            let output = if number < carried {
                Output::Last(number)
            } else {
                let is_stack = !shape.is_empty() && self.equal(shape.remove(0), trips);
                match yielded.get(1 + number) {
                    Some(&yielded) if is_stack => Output::Stacked(yielded),
                    _ => return Err(LowerError::Output { value }),
                }
            };
            outputs.push((value, output, shape));
        }
        Ok(outputs)
    }

    /// The outer axes: those of an iteration's values, which are the same for all outputs.
    fn points_of_outputs(
        &mut self,
        outputs: &[(ValueId, Output, Dims)],
    ) -> Result<Vec<AxisId>, LowerError> {
        let wide = |this: &Self, shape: &Dims| -> Dims {
            let sizes = shape.iter().copied();
            sizes.filter(|&size| this.fixed(size) != Some(1)).collect()
        };
        let Some((first, _, shape)) = outputs.first() else {
            return Ok(Vec::new());
        };
        let points = wide(self, shape);
        for (value, _, shape) in outputs {
            let own = wide(self, shape);
            let same = |(&left, &right)| self.equal(left, right);
            if own.len() != points.len() || !own.iter().zip(&points).all(same) {
                let shown = |sizes: &Dims| self.b.dims().display_shape(sizes).to_string();
                return Err(LowerError::Domains {
                    left: *first,
                    left_shape: shown(&points),
                    right: *value,
                    right_shape: shown(&own),
                });
            }
        }
        Ok(points
            .into_iter()
            .map(|size| self.outer_axis(size))
            .collect())
    }

    /// The indices of a point in a value of these sizes.
    fn at_points(&mut self, shape: &Dims, outer: &[AxisId]) -> Nodes {
        let mut axes = outer.iter();
        let mut at = Nodes::new();
        for &size in shape {
            let index = match self.fixed(size) {
                Some(1) => self.integer(0),
                _ => match axes.next() {
                    Some(&axis) => self.b.index(axis),
                    None => unreachable!("outputs have the same points"),
                },
            };
            at.push(index);
        }
        at
    }

    fn write(&mut self, value: ValueId, indices: Nodes, element: NodeId) -> Result<(), LowerError> {
        let buffer = self.push_buffer(value, Role::Out)?;
        let dtype = self.ty(value)?.dtype;
        let element = self.b.cast(element, dtype);
        self.b.store([], buffer, indices, element);
        Ok(())
    }

    /// An element of a parameter of the loop's body; `None` if the value is not such a parameter.
    pub(super) fn parameter(&mut self, demand: &Demand) -> Option<Step<NodeId>> {
        let body = self.body.as_ref()?;
        let steps = body.steps;
        Some(match *body.parameters.get(&demand.value)? {
            Parameter::Iteration => Ok(self.b.index(steps)),
            Parameter::Captured(value) => self.get(value, demand.indices.clone(), demand.guard),
            Parameter::Carried(number) => {
                let stage = self.held_by(number, &demand.indices);
                stage.map(|stage| self.b.previous(stage, []))
            }
        })
    }

    /// The value in memory that the region reads for this one; `None` if it is computed here.
    pub(super) fn in_memory(&self, value: ValueId) -> Option<ValueId> {
        let parameters = self.body.as_ref().map(|body| &body.parameters);
        let outside = match parameters.and_then(|parameters| parameters.get(&value)) {
            None => value,
            Some(&Parameter::Captured(outside)) => outside,
            Some(_) => return None,
        };
        self.producer(outside).is_none().then_some(outside)
    }

    /// The stage of a carried value at a point. It is defined later, since the body's result may need it.
    fn held_by(&mut self, number: usize, at: &Nodes) -> Step<StageId> {
        let body = self.body.as_ref();
        let held = body
            .and_then(|body| Some((body.id, body.initial.get(number)?, body.held.get(number)?)));
        let Some((id, &initial, held)) = held else {
            unreachable!("a body has as many parameters as the loop carries values")
        };
        if let Some(held) = held.as_ref().filter(|held| held.at == *at) {
            return Ok(held.stage);
        }
        let is_first = held.is_none();
        let shape = self.shape(initial)?;
        let mut places = at.iter().zip(&shape);
        if !is_first || !places.all(|(&index, &size)| self.is_plain(index, size)) {
            let why = "its iterations move carried values between points";
            return Err(unsupported(id, self.graph.op(id), why));
        }
        let start = self.get(initial, at.clone(), GuardId::NONE)?;
        let name = format!("s{}", self.b.kernel().stages().len());
        let stage = self.b.declare_stage(name, [], start);
        // It differs between all points and steps.
        let around = self.ambient.iter().copied().collect();
        self.index.of_stages.insert(stage, around);
        let held = Held {
            stage,
            at: at.clone(),
            is_defined: false,
        };
        if let Some(body) = &mut self.body {
            body.held[number] = Some(held);
        }
        Ok(stage)
    }

    /// Whether an index runs along an outer axis of this size, or is the only index.
    fn is_plain(&self, index: NodeId, size: DimId) -> bool {
        let Some(axis) = self.as_axis(index) else {
            return self.literal(index) == Some(0) && self.fixed(size) == Some(1);
        };
        let extent = self.b.kernel().axis(axis).extent.bound();
        self.b.kernel().outer().contains(&axis) && self.equal(extent, size)
    }

    /// Defines the stages that were read so far: their next value is the body's result.
    fn define_carried(&mut self, next: &[ValueId]) -> Result<(), LowerError> {
        while let Some((number, Held { stage, at, .. })) = self.undefined_stage() {
            let Some(&yielded) = next.get(number) else {
                unreachable!("a body yields all carried values")
            };
            let value = self.demand(yielded, at.clone())?;
            // A step passes on the value as it would be stored in memory.
            let dtype = self.ty(yielded)?.dtype;
            let value = self.b.cast(value, dtype);
            let value = self.b.cast(value, compute_dtype(dtype));
            self.b.define_stage(stage, StageOperation::Map, value);
            let local = self.b.local(stage, []);
            let demand = Demand {
                value: yielded,
                indices: at,
                guard: GuardId::NONE,
            };
            self.memo.insert(demand, local);
            if let Some(Some(held)) = self.body.as_mut().map(|body| &mut body.held[number]) {
                held.is_defined = true;
            }
        }
        Ok(())
    }

    fn undefined_stage(&self) -> Option<(usize, Held)> {
        let held = self.body.as_ref()?.held.iter().enumerate();
        let mut held = held.filter_map(|(number, held)| Some((number, held.as_ref()?)));
        let (number, held) = held.find(|(_, held)| !held.is_defined)?;
        Some((number, held.clone()))
    }

    /// The final carried value.
    fn last_of(&mut self, number: usize) -> NodeId {
        let held = self.body.as_ref().and_then(|body| body.held.get(number));
        match held {
            Some(Some(held)) => self.b.last(held.stage, []),
            _ => unreachable!("the last carried values were demanded first"),
        }
    }

    /// Rejects bodies that would recompute, at each point, too much work that is the same for several points.
    fn check_repeats(&mut self, outer: &[AxisId]) -> Result<(), LowerError> {
        let demands: Vec<Demand> = self.memo.keys().cloned().collect();
        let mut cost: u64 = 0;
        for demand in demands {
            let Some((_, data)) = self.producer(demand.value) else {
                continue;
            };
            let own = unit_cost(&data.op);
            let differs = |this: &mut Self, axis: &AxisId| {
                let mut indices = demand.indices.iter();
                indices.any(|&index| this.axes_of(index).contains(axis))
            };
            if own > 0 && !outer.iter().all(|axis| differs(self, axis)) {
                cost = cost.saturating_add(own);
            }
        }
        match &self.body {
            Some(body) if cost > REPEAT_LIMIT => Err(refused(
                body.id,
                self.graph.op(body.id),
                "values that its body computes for fewer points would be recomputed for each",
            )),
            _ => Ok(()),
        }
    }
}

/// The ops before a loop that compute its trip count and captures only from sizes. A kernel uses the sizes directly.
pub(crate) fn size_ops(graph: &Graph, id: OpId) -> BTreeSet<OpId> {
    let operands = graph.op(id).operands.iter();
    let of_sizes = operands.filter_map(|&value| made_of_sizes(graph, value));
    of_sizes.flatten().collect()
}

/// The ops that compute a value from sizes and constants, if it depends on nothing else.
fn made_of_sizes(graph: &Graph, value: ValueId) -> Option<BTreeSet<OpId>> {
    let mut found = BTreeSet::new();
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        let ty = graph.tensor_ty(value)?;
        let Definition::Result { op, .. } = graph.value(value).definition else {
            return None;
        };
        let data = graph.op(op);
        let is_small = ty.dtype == DType::I64 && ty.rank() <= 1;
        match data.op {
            Op::Constant(_) => {}
            Op::Dims { .. } | Op::Reshape { .. } | Op::Map { .. }
                if is_small && found.len() < SIZE_OPS_LIMIT =>
            {
                found.insert(op);
                pending.extend(&data.operands);
            }
            _ => return None,
        }
    }
    Some(found)
}
