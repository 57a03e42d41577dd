//! A loop's trip count, if the graph determines it before anything runs.

use kiln_symbolic_shape::DimId;

use crate::constant::Constant;
use crate::graph::{Definition, Graph};
use crate::ids::{OpId, ValueId};
use crate::op::Op;

/// What is known about a loop's trip count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopCourse {
    /// The trip count, if it is a size or a constant.
    pub trips: Option<LoopTrips>,
    /// Whether the loop begins, if its condition is a constant.
    pub begins: Option<bool>,
    /// Whether every iteration yields a constant true, so that the trip count alone ends the loop.
    pub goes_on: bool,
}

/// The trip count of a loop; a negative one is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopTrips {
    /// A constant.
    Count(i64),
    /// A size of the graph.
    Size(DimId),
}

impl LoopCourse {
    /// What the graph determines about a `loop`.
    pub fn of(graph: &Graph, id: OpId) -> Self {
        let data = graph.op(id);
        let yielded = data.regions.first();
        let yielded = yielded.and_then(|&body| graph.region(body).results.first());
        let flag = |value: Option<&ValueId>| {
            let constant = constant_of(graph, *value?)?;
            constant.tensor().item::<bool>().ok()
        };
        let trips = data.operands.first();
        let trips = trips.and_then(|&trips| defining_op(graph, through_reshapes(graph, trips)));
        let trips = match trips {
            Some(Op::Dims { sizes }) => match sizes.as_slice() {
                &[size] => Some(LoopTrips::Size(size)),
                _ => None,
            },
            Some(Op::Constant(constant)) => {
                let count = constant.tensor().item::<i64>().ok();
                count.map(LoopTrips::Count)
            }
            _ => None,
        };
        Self {
            trips,
            begins: flag(data.operands.get(1)),
            goes_on: flag(yielded).is_some_and(|goes_on| goes_on),
        }
    }
}

fn defining_op(graph: &Graph, value: ValueId) -> Option<&Op> {
    match graph.value(value).definition {
        Definition::Result { op, .. } => Some(&graph.op(op).op),
        Definition::Parameter { .. } => None,
    }
}

fn constant_of(graph: &Graph, value: ValueId) -> Option<&Constant> {
    match defining_op(graph, value)? {
        Op::Constant(constant) => Some(constant),
        _ => None,
    }
}

/// The value at the start of a chain of reshapes of a single element.
fn through_reshapes(graph: &Graph, mut value: ValueId) -> ValueId {
    while let Definition::Result { op, .. } = graph.value(value).definition
        && let data = graph.op(op)
        && let (Op::Reshape { .. }, &[operand]) = (&data.op, data.operands.as_slice())
    {
        value = operand;
    }
    value
}
