//! Values whose elements are proved to be +0.0, positive or NaN: never negative, and never -0.0.

use crate::constants::Splat;
use crate::peephole::Site;
use kiln_ir::{Op, PoolFunction, ReduceFunction, ValueId};

/// The maximum number of ops through which a proof looks.
const DEPTH_LIMIT: usize = 8;

/// Whether no element of a float value is below zero or -0.0.
pub(super) fn is_positive(site: &Site<'_>, value: ValueId) -> bool {
    let mut pending = vec![(value, DEPTH_LIMIT)];
    while let Some((value, depth)) = pending.pop() {
        match site.splat(value) {
            Some(Splat::Float(element)) if element.is_sign_positive() => continue,
            Some(_) => return false,
            None => {}
        }
        let (Some(data), Some(depth)) = (site.definition(value), depth.checked_sub(1)) else {
            return false;
        };
        match &data.op {
            Op::Map { function, .. } => match function.name() {
                "abs" | "exp" | "exp2" | "sigmoid" | "square" | "cosh" => {}
                // Of operands that are each +0.0 or more.
                "add" | "mul" | "min" | "max" | "div" | "sqrt" => {
                    pending.extend(data.operands.iter().map(|&operand| (operand, depth)));
                }
                _ => return false,
            },
            Op::Reduce {
                function: ReduceFunction::Mean | ReduceFunction::Sum,
                ..
            }
            | Op::Pool {
                function: PoolFunction::Sum | PoolFunction::Mean | PoolFunction::MeanWithPadding,
                ..
            }
            | Op::Reshape { .. }
            | Op::Transpose { .. }
            | Op::Broadcast { .. }
            | Op::Slice { .. } => {
                pending.extend(data.operands.iter().map(|&operand| (operand, depth)))
            }
            _ => return false,
        }
    }
    true
}
