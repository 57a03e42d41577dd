//! A graph with `f64` in place of every other float, for checking its gradients.

use crate::{GradientError, Result};
use cranelift_entity::EntityRef;
use kiln_ir::{Constant, Graph, NewOp, Op, OpId, Rebuild, RegionId, Type, ValueId, Visit};
use kiln_tensor::{DType, Tensor};

/// The same graph with `f64` in place of every other float: in inputs, constants, conversions and results.
///
/// # Errors
/// When memory for a converted constant cannot be allocated.
pub fn widened(graph: &Graph) -> Result<Graph> {
    let mut retyped = graph.clone();
    for index in 0..graph.n_values() {
        let value = ValueId::new(index);
        retyped.set_ty(value, widened_type(graph.ty(value)));
    }
    Rebuild::new(&retyped).run(&mut |rebuild, region, op| visit(rebuild, region, op))
}

fn visit(rebuild: &mut Rebuild<'_>, region: RegionId, op: OpId) -> Result<Visit> {
    let old = rebuild.old();
    let data = old.op(op);
    let Some(widened) = widened_op(&data.op)? else {
        return Ok(Visit::Copy);
    };
    let new = NewOp {
        op: widened,
        ..rebuild.like(op)
    };
    rebuild.append_mapped(region, new, &data.results);
    Ok(Visit::Done)
}

/// The op with its dtype attribute widened; `None` if it has none.
fn widened_op(op: &Op) -> Result<Option<Op>> {
    let mut op = op.clone();
    match &mut op {
        Op::Constant(constant) => {
            let tensor = constant.tensor();
            if !tensor.dtype().is_float() {
                return Ok(None);
            }
            let failed = |_| GradientError::Unsupported {
                op: "constant".to_owned(),
                what: "constants that do not fit into memory as f64".to_owned(),
            };
            let elements = tensor.to_f64_vec().map_err(failed)?;
            let tensor = Tensor::from_vec(tensor.shape(), elements).map_err(failed)?;
            *constant = Constant::new(tensor).map_err(failed)?;
        }
        Op::Iota { dtype, .. } => *dtype = widened_dtype(*dtype),
        Op::Cast { to } => *to = widened_dtype(*to),
        Op::Matmul { out } | Op::Conv { out, .. } => *out = widened_dtype(*out),
        _ => return Ok(None),
    }
    Ok(Some(op))
}

fn widened_dtype(dtype: DType) -> DType {
    if dtype.is_float() { DType::F64 } else { dtype }
}

fn widened_type(ty: &Type) -> Type {
    match ty {
        Type::Tensor(ty) => Type::tensor(widened_dtype(ty.dtype), ty.dims.iter().copied()),
        Type::Sequence(item) => Type::Sequence(Box::new(widened_type(item))),
        Type::Optional(item) => Type::Optional(Box::new(widened_type(item))),
    }
}
