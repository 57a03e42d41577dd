//! Weights of convolutions and matmuls per output channel: which ops have them, scaling them, and
//! constants with one element per channel.

use crate::fold::evaluate;
use kiln_ir::{Constant, Graph, Op, OpData};
use kiln_tensor::{DType, Tensor};

/// A convolution or matmul of floats whose second operand is constant.
pub(super) struct Linear {
    kind: Kind,
    /// The number of output channels.
    pub(super) n_channels: usize,
    /// The axis of the result that counts them, from the innermost.
    from_end: usize,
    /// The result's dtype and that of the weights.
    dtype: DType,
}

#[derive(Clone, Copy)]
enum Kind {
    /// Weights `[O, C / groups, kernel..]`.
    Conv,
    /// Weights `[C, O / groups, kernel..]`.
    ConvTranspose { groups: usize },
    /// Weights `[.., K, N]`.
    Matmul,
}

impl Linear {
    /// The op, if its weights can be scaled per output channel.
    pub(super) fn of(graph: &Graph, data: &OpData) -> Option<Self> {
        let &[_, weights] = data.operands.as_slice() else {
            return None;
        };
        let tensor = crate::peephole::constant_of(graph, weights)?.tensor();
        let shape = tensor.shape();
        let result = graph.tensor_ty(*data.results.first()?)?;
        let (kind, n_channels, from_end) = match &data.op {
            Op::Conv { .. } => (Kind::Conv, *shape.first()?, result.rank().checked_sub(2)?),
            Op::ConvTranspose { groups, .. } => {
                let n_channels = shape.get(1)?.checked_mul(*groups)?;
                (
                    Kind::ConvTranspose { groups: *groups },
                    n_channels,
                    result.rank().checked_sub(2)?,
                )
            }
            Op::Matmul { .. } => (Kind::Matmul, *shape.last()?, 0),
            _ => return None,
        };
        let fits =
            result.dtype == tensor.dtype() && result.dtype.is_float() && result.rank() > from_end;
        fits.then_some(Self {
            kind,
            n_channels,
            from_end,
            dtype: result.dtype,
        })
    }

    /// The shape of a constant that is 1 on every axis except that of the channels.
    fn channel_shape(&self) -> Vec<usize> {
        let mut shape = vec![1; self.from_end + 1];
        shape[0] = self.n_channels;
        shape
    }

    /// The scale of each output channel, in a shape that broadcasts with the weights.
    fn scale(&self, weights: &Tensor, scale: &[f64]) -> Option<Tensor> {
        let rank = weights.rank();
        let mut shape = vec![1; rank];
        match self.kind {
            Kind::Conv => *shape.first_mut()? = self.n_channels,
            Kind::Matmul => *shape.last_mut()? = self.n_channels,
            Kind::ConvTranspose { groups } => {
                // Rows of one group of input channels share the group's output channels.
                let (rows, per_group) = (*weights.shape().first()?, *weights.shape().get(1)?);
                let rows_per_group = rows.checked_div(groups)?;
                let mut all = Vec::new();
                all.try_reserve(rows.checked_mul(per_group)?).ok()?;
                for row in 0..rows {
                    let start = row.checked_div(rows_per_group)?.checked_mul(per_group)?;
                    all.extend_from_slice(scale.get(start..start.checked_add(per_group)?)?);
                }
                (shape[0], shape[1]) = (rows, per_group);
                return Tensor::from_slice(&shape, &all).ok();
            }
        }
        Tensor::from_slice(&shape, scale).ok()
    }
}

/// The elements of a constant per output channel, if it has one element or one per channel.
pub(super) fn channel_values(
    graph: &Graph,
    constant: &Constant,
    linear: &Linear,
) -> Option<Vec<f64>> {
    let tensor = constant.tensor();
    let mut per_channel = tensor.len() == 1;
    if tensor.len() == linear.n_channels {
        per_channel |= tensor.shape().iter().rev().nth(linear.from_end) == Some(&linear.n_channels);
    }
    if !per_channel || tensor.dtype() != linear.dtype {
        return None;
    }
    let values = cast(graph, &tensor, DType::F64)?.to_vec::<f64>().ok()?;
    Some(match values.as_slice() {
        &[only] => vec![only; linear.n_channels],
        _ => values,
    })
}

/// The weights times one factor per output channel, computed in f64 and rounded once; `None` if a product overflows or
/// memory cannot be allocated.
pub(super) fn scaled(
    graph: &Graph,
    weights: &Constant,
    linear: &Linear,
    scale: &[f64],
) -> Option<Constant> {
    let weights = weights.tensor();
    let scale = linear.scale(&weights, scale)?;
    let wide = cast(graph, &weights, DType::F64)?;
    let multiply = Op::map(kiln_scalar::Function::by_name("mul")?);
    let product = evaluate(graph.dims(), &multiply, &[wide.clone(), scale])?
        .into_iter()
        .next()?;
    let narrow = cast(graph, &product, linear.dtype)?;
    let back = cast(graph, &narrow, DType::F64)?;
    let overflows = |before: &[f64], after: &[f64]| {
        before
            .iter()
            .zip(after)
            .any(|(b, a)| b.is_finite() && !a.is_finite())
    };
    let (wide, back) = (wide.contiguous().ok()?, back.contiguous().ok()?);
    if overflows(wide.as_slice().ok()?, back.as_slice().ok()?) {
        return None;
    }
    Constant::new(narrow).ok()
}

/// One element per output channel in the result's dtype, to be added to the result.
pub(super) fn shift_tensor(graph: &Graph, linear: &Linear, shift: &[f64]) -> Option<Constant> {
    let wide = Tensor::from_slice(&linear.channel_shape(), shift).ok()?;
    Constant::new(cast(graph, &wide, linear.dtype)?).ok()
}

fn cast(graph: &Graph, tensor: &Tensor, to: DType) -> Option<Tensor> {
    let tensors = evaluate(graph.dims(), &Op::Cast { to }, std::slice::from_ref(tensor))?;
    tensors.into_iter().next()
}
