//! Attributes that became operands in a later version of their operator.
//!
//! An importer does not check for attributes that its version does not have, so `Clip` of version 13 with an attribute
//! `max` would clip nothing; such a node is rejected here instead.

use super::NodeContext;
use crate::Error;

/// Operator, attribute, and the first version in which it is an operand.
const MOVED: &[(&str, &str, i64)] = &[
    ("Clip", "max", 11),
    ("Clip", "min", 11),
    ("DFT", "axis", 20),
    ("Dropout", "ratio", 12),
    ("Pad", "pads", 11),
    ("Pad", "value", 11),
    ("ReduceL1", "axes", 18),
    ("ReduceL2", "axes", 18),
    ("ReduceLogSum", "axes", 18),
    ("ReduceLogSumExp", "axes", 18),
    ("ReduceMax", "axes", 18),
    ("ReduceMean", "axes", 18),
    ("ReduceMin", "axes", 18),
    ("ReduceProd", "axes", 18),
    ("ReduceSum", "axes", 13),
    ("ReduceSumSquare", "axes", 18),
    ("Reshape", "shape", 5),
    ("Slice", "axes", 10),
    ("Slice", "ends", 10),
    ("Slice", "starts", 10),
    ("Split", "split", 13),
    ("Squeeze", "axes", 13),
    ("TopK", "k", 10),
    ("Unsqueeze", "axes", 13),
    ("Upsample", "scales", 9),
];

/// Rejects a standard operator's node with an attribute that is an operand in this version.
pub(super) fn check(ctx: &NodeContext<'_>, opset: i64) -> Result<(), Error> {
    let node = ctx.node();
    if !node.domain().is_empty() {
        return Ok(());
    }
    let all = MOVED.iter();
    let mut moved = all.filter(|&&(op_type, _, since)| op_type == node.op_type() && opset >= since);
    match moved.find(|&&(_, name, _)| ctx.attributes().value(name).is_some()) {
        None => Ok(()),
        Some(&(_, name, since)) => {
            let expected = format!("an operand instead, as required since version {since}");
            Err(ctx.attribute_error(name, expected, "an attribute"))
        }
    }
}
