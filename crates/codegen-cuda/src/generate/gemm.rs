//! Products computed by cuBLASLt: two plain matrices, with an epilogue of at most a bias in the result's type and the
//! rounding to it. If the depth is 0, which the library rejects, a generated function computes the results.

use kiln_backend::Quantity;
use kiln_kernel::analysis::Dependence;
use kiln_kernel::{AxisId, BufferId, Item, Load, Node, NodeId, VerifiedKernel};
use kiln_scalar::ScalarOp;
use kiln_tensor::DType;

use super::contraction::{self, Product};
use super::function::Function;
use super::lowering::Lowering;
use super::plan::{ContractionPlan, Team, TilePlan};
use super::strides;
use super::unit::Unit;
use crate::container::{GemmEntry, GemmEpilogue, GemmOperand};
use crate::error::CudaError;

/// The tile of the generated function, which does little work.
const SMALL: TilePlan = TilePlan {
    tile: [64, 64, 32],
    team: Team::Warps([2, 2]),
};
/// The same for f32.
const SMALL_SINGLE: TilePlan = TilePlan {
    tile: [64, 64, 16],
    team: Team::Warps([1, 1]),
};

/// A product for the library, with sizes that are not arguments yet.
struct Gemm {
    unit: Unit,
    axes: Axes,
    left: Matrix,
    right: Matrix,
    result: Matrix,
    bias: Option<BufferId>,
}

/// The axes of a product.
#[derive(Clone, Copy)]
struct Axes {
    batch: Option<AxisId>,
    rows: AxisId,
    columns: AxisId,
    depth: AxisId,
}

/// A matrix of each batch.
struct Matrix {
    buffer: BufferId,
    transposed: bool,
    leading: Quantity,
    batch_stride: Quantity,
}

/// Whether the library computes a kernel.
pub(super) fn serves(kernel: &VerifiedKernel, dependence: &Dependence) -> bool {
    Gemm::of(kernel, dependence).is_some()
}

/// Writes the kernel.
pub(super) fn generate(lowering: &Lowering<'_>) -> Result<Vec<Function>, CudaError> {
    let kernel = lowering.kernel;
    let Some(gemm) = Gemm::of(kernel, lowering.dependence) else {
        return Err(CudaError::not_for(kernel, "a product of cuBLASLt"));
    };
    let one = || Quantity::constant(1);
    let size = |axis: AxisId| super::points(kernel, &[axis]);
    let is_deep = size(gemm.axes.depth).min(one());
    let entry = gemm.entry(lowering);
    let results = super::points(kernel, kernel.outer());
    let library = Function::of_library(entry, results.min(one()) * is_deep.clone());
    let own = ContractionPlan {
        unit: gemm.unit,
        tile: match gemm.unit.has_tensor_cores() {
            false => SMALL_SINGLE,
            true => SMALL,
        },
        few: None,
    };
    let is_flat = one() - is_deep;
    let own = contraction::generate(lowering, &own)?.into_iter();
    let mut functions = vec![library];
    functions.extend(own.map(|function| function.only_when(&is_flat)));
    Ok(functions)
}

impl Gemm {
    fn of(kernel: &VerifiedKernel, dependence: &Dependence) -> Option<Self> {
        let product = Product::of(kernel, dependence)?;
        let plain = product.as_plain()?;
        let (unit, [left, right]) = (plain.unit, plain.factors);
        let [&[rows], &[columns], &[depth], batch] = plain.axes else {
            return None;
        };
        let batch = match batch {
            [] => None,
            &[batch] => Some(batch),
            _ => return None,
        };
        let axes = Axes {
            batch,
            rows,
            columns,
            depth,
        };
        let [Item::Stage(_), Item::Store(store)] = kernel.items() else {
            return None;
        };
        let matrix = |load: &Load, rows, columns| {
            Matrix::of(kernel, (load.buffer, &load.indices), (batch, rows, columns))
        };
        let stored = (store.buffer, store.indices.as_slice());
        let result = Matrix::of(kernel, stored, (batch, rows, columns))?;
        let dtype = kernel.buffer(store.buffer).dtype;
        let is_known = unit.sum() == DType::F32 && (dtype == DType::F32 || dtype == unit.dtype());
        let bias = bias_of(kernel, store.value, columns, dtype)?;
        (is_known && !result.transposed).then_some(Self {
            unit,
            axes,
            left: matrix(load_of(kernel, left)?, rows, depth)?,
            right: matrix(load_of(kernel, right)?, depth, columns)?,
            result,
            bias,
        })
    }

    fn entry(&self, lowering: &Lowering<'_>) -> GemmEntry {
        let argument = |quantity: &Quantity| lowering.launch.borrow_mut().argument(quantity);
        let size = |axis: AxisId| argument(&super::points(lowering.kernel, &[axis]));
        let position = |buffer: BufferId| buffer.as_u32() as usize;
        let operand = |matrix: &Matrix| GemmOperand {
            buffer: position(matrix.buffer),
            transposed: matrix.transposed,
            leading: argument(&matrix.leading),
            batch_stride: argument(&matrix.batch_stride),
        };
        GemmEntry {
            m: size(self.axes.rows),
            n: size(self.axes.columns),
            k: size(self.axes.depth),
            batch: match self.axes.batch {
                Some(batch) => size(batch),
                None => argument(&Quantity::constant(1)),
            },
            a: operand(&self.left),
            b: operand(&self.right),
            d: operand(&self.result),
            scale: 1.0_f32.to_bits(),
            allow_tf32: false,
            epilogue: match self.bias {
                Some(buffer) => GemmEpilogue::Bias {
                    buffer: position(buffer),
                },
                None => GemmEpilogue::None,
            },
        }
    }
}

impl Matrix {
    /// The matrix of an access whose indices are a batch, a row and a column, in any order, of a dense buffer.
    fn of(
        kernel: &VerifiedKernel,
        (buffer, indices): (BufferId, &[NodeId]),
        (batch, rows, columns): (Option<AxisId>, AxisId, AxisId),
    ) -> Option<Self> {
        if kernel.buffer(buffer).strides.is_some() {
            return None;
        }
        let (mut row, mut column, mut of_batch) = (None, None, None);
        for (&index, stride) in indices.iter().zip(strides(kernel, buffer)) {
            let Node::Axis(axis) = *kernel.node(index) else {
                return None;
            };
            let place = match axis {
                axis if axis == rows => &mut row,
                axis if axis == columns => &mut column,
                axis if Some(axis) == batch => &mut of_batch,
                _ => return None,
            };
            if place.replace(stride).is_some() {
                return None;
            }
        }
        let (row, column) = (row?, column?);
        let (transposed, leading) = match (row.as_constant(), column.as_constant()) {
            (_, Some(1)) => (false, row),
            (Some(1), _) => (true, column),
            _ => return None,
        };
        Some(Self {
            buffer,
            transposed,
            leading,
            batch_stride: of_batch.unwrap_or_else(|| Quantity::constant(0)),
        })
    }
}

fn load_of(kernel: &VerifiedKernel, node: NodeId) -> Option<&Load> {
    match kernel.node(node) {
        Node::Load(load) if load.guard.is_none() => Some(load),
        _ => None,
    }
}

/// The bias of a stored value, if that is the rounded sum, or the sum plus a bias; `None` if it has a different form.
fn bias_of(
    kernel: &VerifiedKernel,
    value: NodeId,
    columns: AxisId,
    dtype: DType,
) -> Option<Option<BufferId>> {
    let value = without_cast(kernel, value);
    let is_sum = |node: NodeId| matches!(kernel.node(node), Node::Local { .. });
    if is_sum(value) {
        return Some(None);
    }
    let Node::Apply {
        op: ScalarOp::Add,
        operands,
    } = kernel.node(value)
    else {
        return None;
    };
    let &[left, right] = operands.as_slice() else {
        return None;
    };
    let bias = match (is_sum(left), is_sum(right)) {
        (true, false) => right,
        (false, true) => left,
        _ => return None,
    };
    let load = load_of(kernel, without_cast(kernel, bias))?;
    let buffer = kernel.buffer(load.buffer);
    let &[index] = load.indices.as_slice() else {
        return None;
    };
    let is_column = *kernel.node(index) == Node::Axis(columns);
    let is_vector = is_column && buffer.strides.is_none() && buffer.dtype == dtype;
    is_vector.then_some(Some(load.buffer))
}

/// The operand of a conversion, or the value itself.
fn without_cast(kernel: &VerifiedKernel, node: NodeId) -> NodeId {
    match kernel.node(node) {
        Node::Apply {
            op: ScalarOp::Cast(_),
            operands,
        } => operands.first().copied().unwrap_or(node),
        _ => node,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::Entry;
    use crate::generate::{Plan, generate};

    fn entries(text: &str) -> Result<Vec<Entry>, CudaError> {
        let kernel = kiln_kernel::verify(kiln_kernel::text::read(text).unwrap()).unwrap();
        generate(&kernel, &Plan::Gemm).map(|source| source.entries)
    }

    #[test]
    fn a_product_with_a_bias_is_the_librarys() {
        let text = "kernel @linear(%x: in bf16[B, M, K], %w: in bf16[N, K], %b: in bf16[N], %y: out bf16[B, M, N]) {
          outer b < B, m < M, n < N
          s = reduce add[k < K] f32(%x[b, m, k]) * f32(%w[n, k])
          store %y[b, m, n] = bf16(s + f32(%b[n]))
        }";
        // The rows comprise both outer axes of the left factor, which do not form one matrix here.
        assert!(entries(text).is_err());
        let text = text.replace("%w: in bf16[N, K]", "%w: in bf16[B, N, K]");
        let text = text.replace("%w[n, k]", "%w[b, n, k]");
        let entries = entries(&text).unwrap();
        let [Entry::Gemm(gemm), Entry::Function { .. }] = entries.as_slice() else {
            panic!("{entries:?}")
        };
        assert_eq!((gemm.a.transposed, gemm.b.transposed), (false, true));
        assert_eq!(gemm.epilogue, GemmEpilogue::Bias { buffer: 2 });
        // The lines of both operands are as long as the depth.
        assert_eq!(
            (gemm.a.leading, gemm.b.leading, gemm.d.leading),
            (gemm.k, gemm.k, gemm.n)
        );
    }

    #[test]
    fn narrow_operands_have_sums_of_f32() {
        for (dtype, rounded) in [("f32", "s"), ("bf16", "bf16(s)"), ("f16", "f16(s)")] {
            let text = format!(
                "kernel @k(%x: in bf16[M, K], %w: const bf16[K, N], %y: out {dtype}[M, N]) {{
                   outer m < M, n < N
                   s = reduce add[k < K] f32(%x[m, k]) * f32(%w[k, n])
                   store %y[m, n] = {rounded}
                 }}"
            );
            // The library does not support products whose result is of the other narrow type.
            assert_eq!(entries(&text).is_ok(), dtype != "f16", "{dtype}");
        }
    }

    #[test]
    fn other_epilogues_are_not_the_librarys() {
        for value in ["relu(s)", "s + %b[m]", "s * 2.0"] {
            let text = format!(
                "kernel @k(%x: in f32[M, K], %w: in f32[K, N], %b: in f32[M], %y: out f32[M, N]) {{
                   outer m < M, n < N
                   s = reduce add[k < K] %x[m, k] * %w[k, n]
                   store %y[m, n] = {value}
                 }}"
            );
            assert!(entries(&text).is_err(), "{value}");
        }
    }
}
