//! The limit on windows: how many elements one result of a pooling or a convolution may read.
//!
//! Sizes of windows are numbers of a model or sizes of its weights, which may be views that repeat one element: a file of a
//! hundred bytes can request 2^40 reads per result. Checked for each call, by the interpreter and by compiled programs.

use crate::fault::OpFault;
use kiln_ir::{Graph, Op, OpId};
use kiln_symbolic_shape::Binding;

/// Checks the number of elements in an op's window, if it has one, for these values of symbols.
///
/// # Errors
/// [`OpFault::Limit`] (`E0825`) if there are more than `limit`.
pub fn check_window_elements(
    graph: &Graph,
    id: OpId,
    binding: &Binding,
    limit: u64,
) -> Result<(), OpFault> {
    let op = graph.op(id);
    let product = |sizes: &mut dyn Iterator<Item = Option<i64>>| {
        let sizes = sizes.map(|size| u64::try_from(size.unwrap_or(0)).unwrap_or(0));
        sizes.fold(1u64, u64::saturating_mul)
    };
    let given = match &op.op {
        Op::Pool { size, .. } | Op::ArgPool { size, .. } => {
            product(&mut size.iter().map(|&size| Some(size)))
        }
        Op::Conv { .. } | Op::ConvTranspose { .. } => {
            let weights = op.operands.get(1);
            let Some(ty) = weights.and_then(|&value| graph.tensor_ty(value)) else {
                return Ok(());
            };
            // A size without a value is reported by the op itself, with more detail.
            let sizes = ty.dims.iter().skip(2);
            product(&mut sizes.map(|&dim| graph.dims().evaluate(dim, binding).ok()))
        }
        _ => return Ok(()),
    };
    if given > limit {
        return Err(OpFault::Limit {
            what: "elements of a window",
            given,
            limit,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{InterpretOptions, interpret};
    use kiln_ir::BlobMap;
    use kiln_tensor::{DType, Tensor};

    #[test]
    fn windows_of_more_elements_than_the_limit_are_refused() {
        let text = "graph @g(%x: f32[1, 1, N]) -> f32[1, 1, N] {
          %y = pool %x {function = sum, size = [1099511627777], strides = [1], dilations = [1], low = [549755813888], high = [549755813888]}
          return %y
        }";
        let graph = kiln_shape_inference::read_graph(text, &BlobMap::new()).unwrap();
        let x = Tensor::zeros(DType::F32, &[1, 1, 4]).unwrap();
        let error = interpret(&graph, &[x], &InterpretOptions::default()).unwrap_err();
        assert_eq!(error.code(), "E0825");
        assert!(error.to_string().contains("1099511627777"), "{error}");
    }
}
