//! Control flow: the types at the boundaries of regions, and sizes that are known only after a region has run.
//!
//! A result's size is that of the branches, or of the carried value, where it is proved to be one
//! size that is visible outside; otherwise it is a symbol that the op defines. Such symbols are
//! taken in order of results, then axes.

mod branches;
mod edges;
mod loops;

pub(crate) use branches::if_results;
pub(crate) use loops::loop_results;

use crate::context::InferenceContext;
use crate::error::InferError;
use crate::node::OpView;
use crate::rule::{Inferred, ShapeInferenceRule};
use edges::{OpenType, innermost_mut};
use kiln_ir::{Op, Type};

#[derive(Debug)]
pub(super) struct ControlRule;

impl ShapeInferenceRule for ControlRule {
    fn name(&self) -> &str {
        "control"
    }

    fn can_infer(&self, op: &Op) -> bool {
        matches!(op, Op::If | Op::Loop { .. })
    }

    fn infer(
        &self,
        ctx: &mut InferenceContext<'_>,
        node: &OpView<'_>,
    ) -> Result<Inferred, InferError> {
        let results = open_results(ctx, node)?;
        let open: usize = results.iter().map(|result| result.open.len()).sum();
        if open != node.symbols.len() {
            let expected =
                format!("a symbol for each of {open} sizes that are known only afterwards");
            return Err(node.attribute_error("symbols", expected, node.symbols.len()));
        }
        let mut symbols = node.symbols.iter().copied();
        let types = results.into_iter().map(|result| {
            let sizes = symbols
                .by_ref()
                .take(result.open.len())
                .map(|symbol| ctx.dims_mut().dim(symbol))
                .collect();
            result.filled(sizes)
        });
        Ok(Inferred::all(types))
    }

    fn validate(
        &self,
        ctx: &mut InferenceContext<'_>,
        node: &OpView<'_>,
        stated: &[Type],
    ) -> Result<Inferred, InferError> {
        let results = open_results(ctx, node)?;
        if results.len() != stated.len() {
            let types: Vec<Type> = results.into_iter().map(|result| result.ty).collect();
            ctx.check_types(node, &types, stated)?;
            return Ok(Inferred::all(types));
        }
        for (index, (result, stated)) in results.into_iter().zip(stated).enumerate() {
            // A size that is open, or that the op defines anyway, is taken from the stated type.
            let sizes = stated.innermost().dims.clone();
            let mut ty = result.ty;
            for (axis, dim) in innermost_mut(&mut ty).dims.iter_mut().enumerate() {
                let Some(&size) = sizes.get(axis) else {
                    continue;
                };
                let defined = ctx
                    .dims()
                    .as_symbol(size)
                    .is_some_and(|symbol| node.symbols.contains(&symbol));
                if defined {
                    *dim = size;
                } else if result.open.contains(&axis) {
                    return Err(node.attribute_error(
                        "symbols",
                        format!("a symbol of this op as size {axis} of result {index}"),
                        ctx.show(size),
                    ));
                }
            }
            ctx.check_type(node, &format!("result {index}"), &ty, stated)?;
        }
        Ok(Inferred::all(stated.iter().cloned()))
    }
}

fn open_results(
    ctx: &mut InferenceContext<'_>,
    node: &OpView<'_>,
) -> Result<Vec<OpenType>, InferError> {
    match node.op {
        Op::If => if_results(ctx, node),
        Op::Loop { carried } => loop_results(ctx, node, *carried),
        _ => unreachable!("`can_infer` lists the ops"),
    }
}
