//! The sizes of an input's axes as specified by the caller: numbers, names, or unspecified.

use kiln_shape_inference::{GraphBuilder, InferError};
use kiln_symbolic_shape::DimId;

/// The size of an input's axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AxisSize {
    /// A number.
    Fixed(usize),
    /// A symbol, the same size wherever it is named.
    Named(String),
    /// A new symbol, separate from all others.
    Own,
}

impl From<usize> for AxisSize {
    fn from(size: usize) -> Self {
        Self::Fixed(size)
    }
}

impl From<&str> for AxisSize {
    fn from(name: &str) -> Self {
        Self::Named(name.to_owned())
    }
}

/// The sizes of an input as expressions of its graph; the names of separate symbols begin with the input's name.
pub(crate) fn dims_of(
    builder: &mut GraphBuilder,
    input: &str,
    sizes: &[AxisSize],
) -> Result<Vec<DimId>, InferError> {
    let mut dims = Vec::with_capacity(sizes.len());
    for (axis, size) in sizes.iter().enumerate() {
        dims.push(match size {
            AxisSize::Fixed(size) => builder.size(i64::try_from(*size).unwrap_or(i64::MAX)),
            AxisSize::Named(name) => builder.symbol(name)?,
            AxisSize::Own => {
                let table = builder.dims_mut();
                let symbol = table.fresh(&format!("{input}_{axis}"));
                table.dim(symbol)
            }
        });
    }
    Ok(dims)
}
