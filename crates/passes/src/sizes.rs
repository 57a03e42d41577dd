//! Small integer tensors whose elements are sizes.

use crate::constants::integers;
use kiln_ir::{Definition, Graph, Op, ValueId};
use kiln_symbolic_shape::DimId;

/// The elements of a value of rank 0 or 1 that is an integer constant or the `dims` of sizes. A single size is usually read
/// as a scalar, so one reshape is looked through.
pub(crate) fn elements(graph: &mut Graph, value: ValueId) -> Option<Vec<DimId>> {
    if graph.tensor_ty(value)?.rank() > 1 {
        return None;
    }
    let mut source = value;
    if let (Op::Reshape { .. }, &[behind]) = behind(graph, value)?
        && graph.tensor_ty(behind)?.rank() <= 1
    {
        source = behind;
    }
    let numbers = match behind(graph, source)?.0 {
        Op::Dims { sizes } => return Some(sizes.to_vec()),
        Op::Constant(constant) => integers(&constant.tensor())?,
        _ => return None,
    };
    let dims = graph.dims_mut();
    Some(
        numbers
            .into_iter()
            .map(|number| dims.constant(number))
            .collect(),
    )
}

/// The op that computes a value, with its operands.
fn behind(graph: &Graph, value: ValueId) -> Option<(&Op, &[ValueId])> {
    match graph.value(value).definition {
        Definition::Result { op, .. } => {
            let data = graph.op(op);
            Some((&data.op, &data.operands))
        }
        Definition::Parameter { .. } => None,
    }
}
