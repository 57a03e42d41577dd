//! How often a loop runs, as far as the graph says it.

use kiln_ir::{Constant, Definition, Graph, Op, OpId, ValueId};

use super::Builder;
use crate::step::Course;

/// What is known of a loop.
pub(super) fn course_of(program: &mut Builder<'_>, id: OpId) -> Course {
    let graph = &program.graph;
    let data = graph.op(id);
    let yielded = data.regions.first();
    let yielded = yielded.and_then(|&body| graph.region(body).results.first());
    let flag = |value: Option<&ValueId>| {
        let constant = constant_of(graph, *value?)?;
        constant.tensor().item::<bool>().ok()
    };
    let (begins, goes_on) = (
        flag(data.operands.get(1)),
        flag(yielded).is_some_and(|goes_on| goes_on),
    );
    let trips = data.operands.first();
    let trips = trips.and_then(|&trips| defining_op(graph, through_reshapes(graph, trips)));
    let trips = match trips {
        Some(Op::Dims { sizes }) => match sizes.as_slice() {
            &[size] => Some(size),
            _ => None,
        },
        Some(Op::Constant(constant)) => {
            let count = constant.tensor().item::<i64>().ok();
            count.map(|count| program.graph.dims_mut().constant(count))
        }
        _ => None,
    };
    Course {
        trips: trips.map(|trips| program.sizes.intern(trips)),
        begins,
        goes_on,
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

/// The value that reshapes of a single element begin with.
fn through_reshapes(graph: &Graph, mut value: ValueId) -> ValueId {
    while let Definition::Result { op, .. } = graph.value(value).definition
        && let data = graph.op(op)
        && let (Op::Reshape { .. }, &[operand]) = (&data.op, data.operands.as_slice())
    {
        value = operand;
    }
    value
}
