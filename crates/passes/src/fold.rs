//! Computes one op on constants; shared by `fold_constants` and `freeze_constants`.
//!
//! An op is computed by the interpreter, so folding cannot disagree with it. Random bits (whose key may be a constant
//! that the user intends to replace), custom ops, control flow and `bind` are never folded.

use crate::peephole::constant_of;
use kiln_interpreter::{EvaluateContext, evaluate_op};
use kiln_ir::{Constant, Graph, NewOp, Op, OpId, Rebuild, RegionId, TensorType};
use kiln_symbolic_shape::{Binding, DimTable};
use kiln_tensor::Tensor;

/// An op whose operands are constants and whose sizes are known.
pub(crate) struct Foldable {
    operands: Vec<Tensor>,
    results: Vec<TensorType>,
    /// Bytes of the results.
    pub(crate) result_bytes: usize,
    /// Elements of the operands.
    pub(crate) operand_elements: usize,
    /// Bytes of the operands.
    pub(crate) operand_bytes: usize,
    /// Elements of the results.
    pub(crate) result_elements: usize,
    /// An upper bound on its steps, in elements read and written.
    pub(crate) work: u64,
}

impl Foldable {
    /// The op `id` of the old graph, if it can be computed now.
    pub(crate) fn of(rebuild: &Rebuild<'_>, id: OpId) -> Option<Self> {
        let (old, new) = (rebuild.old(), rebuild.new_graph());
        let data = old.op(id);
        let excluded =
            matches!(data.op, Op::Constant(_) | Op::RandomBits { .. }) || !data.op.is_pure();
        if excluded
            || data.results.is_empty()
            || !data.regions.is_empty()
            || !data.symbols.is_empty()
        {
            return None;
        }
        let mut known = true;
        data.op
            .for_each_dim(&mut |dim| known &= new.dims().as_constant(dim).is_some());
        let constants: Option<Vec<&Constant>> = data
            .operands
            .iter()
            .map(|&operand| constant_of(new, rebuild.value(operand)))
            .collect();
        let operands: Vec<Tensor> = constants
            .filter(|_| known)?
            .into_iter()
            .map(Constant::tensor)
            .collect();
        let results: Option<Vec<TensorType>> = data
            .results
            .iter()
            .map(|&value| old.tensor_ty(value).cloned())
            .collect();
        let results = results?;
        let (mut result_bytes, mut result_elements) = (0_usize, 0_usize);
        for ty in &results {
            let elements = n_elements(new.dims(), ty)?;
            result_elements = result_elements.checked_add(elements)?;
            result_bytes =
                result_bytes.checked_add(elements.checked_mul(ty.dtype.size_in_bytes())?)?;
        }
        let operand_elements = operands
            .iter()
            .map(Tensor::len)
            .try_fold(0_usize, usize::checked_add)?;
        let operand_bytes = operands
            .iter()
            .map(Tensor::byte_len)
            .try_fold(0_usize, usize::checked_add)?;
        let work = work(&data.op, &operands, result_elements)?;
        Some(Self {
            operands,
            results,
            result_bytes,
            operand_elements,
            operand_bytes,
            result_elements,
            work,
        })
    }

    /// Computes the op and appends its results as constants. Returns false, without effect, when it faults or its results
    /// do not have the declared types: the op then reports that at run time.
    pub(crate) fn fold(self, rebuild: &mut Rebuild<'_>, into: RegionId, id: OpId) -> bool {
        let data = rebuild.old().op(id);
        let Some(constants) = self.evaluate(rebuild.new_graph(), &data.op) else {
            return false;
        };
        for ((constant, &result), ty) in constants.into_iter().zip(&data.results).zip(&self.results)
        {
            let mut new = NewOp::new(
                Op::Constant(constant),
                [],
                [kiln_ir::Type::Tensor(ty.clone())],
            );
            new.origin.clone_from(&data.origin);
            rebuild.append_mapped(into, new, &[result]);
        }
        true
    }

    fn evaluate(&self, graph: &Graph, op: &Op) -> Option<Vec<Constant>> {
        let tensors = evaluate(graph.dims(), op, &self.operands)?;
        let fits = tensors.len() == self.results.len()
            && tensors
                .iter()
                .zip(&self.results)
                .all(|(tensor, ty)| has_type(graph.dims(), tensor, ty));
        if !fits {
            return None;
        }
        tensors
            .into_iter()
            .map(|tensor| Constant::new(tensor).ok())
            .collect()
    }
}

/// Computes an op on tensors; `None` when it faults.
pub(crate) fn evaluate(dims: &DimTable, op: &Op, operands: &[Tensor]) -> Option<Vec<Tensor>> {
    evaluate_op(&EvaluateContext::new(dims, &Binding::new()), op, operands).ok()
}

fn has_type(dims: &DimTable, tensor: &Tensor, ty: &TensorType) -> bool {
    tensor.dtype() == ty.dtype
        && tensor.rank() == ty.rank()
        && tensor.shape().iter().zip(&ty.dims).all(|(&size, &dim)| {
            dims.as_constant(dim)
                .is_some_and(|expected| usize::try_from(expected) == Ok(size))
        })
}

/// The number of elements of a type whose sizes are known.
fn n_elements(dims: &DimTable, ty: &TensorType) -> Option<usize> {
    let sizes: Option<Vec<usize>> = ty
        .dims
        .iter()
        .map(|&dim| usize::try_from(dims.as_constant(dim)?).ok())
        .collect();
    let sizes = sizes?;
    if sizes.contains(&0) {
        return Some(0);
    }
    sizes
        .iter()
        .try_fold(1_usize, |product, &size| product.checked_mul(size))
}

/// Elements read and written, and for windows and contractions the multiplications.
fn work(op: &Op, operands: &[Tensor], result_elements: usize) -> Option<u64> {
    let moved = operands
        .iter()
        .map(Tensor::len)
        .try_fold(result_elements, usize::checked_add)?;
    let per_result = match op {
        Op::Matmul { .. } => operands.first()?.shape().last().copied()?,
        // A result uses only the filter of its output channel; the size of all filters is an upper bound.
        Op::Conv { .. } | Op::ConvTranspose { .. } => operands.get(1)?.len(),
        Op::Pool { size, .. } | Op::ArgPool { size, .. } => {
            size.iter().try_fold(1_usize, |product, &n| {
                product.checked_mul(usize::try_from(n).ok()?)
            })?
        }
        _ => 1,
    };
    let computed = result_elements.checked_mul(per_result)?;
    u64::try_from(moved.checked_add(computed)?).ok()
}
