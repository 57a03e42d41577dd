//! The size along which the states of a session grow, and its limit.

use crate::error::{Error, Failure};
use kiln_symbolic_shape::SymbolicShape;

/// The size along which states grow.
#[derive(Clone, Debug)]
pub(super) struct Growth {
    pub(super) dim: String,
    pub(super) limit: usize,
    /// The states with that size: their index, and the axis.
    pub(super) axes: Vec<(usize, usize)>,
}

impl Growth {
    /// `shapes` are those of the states, in order, as far as they are known.
    pub(super) fn new<'s>(
        shapes: impl Iterator<Item = Option<&'s SymbolicShape>>,
        dim: String,
        limit: usize,
    ) -> Result<Self, Error> {
        let mut axes = Vec::new();
        for (index, shape) in shapes.enumerate() {
            let Some(shape) = shape else {
                continue;
            };
            let mut dims = shape.dimensions().iter();
            if let Some(axis) = dims.position(|known| !known.is_known() && known.name() == dim) {
                axes.push((index, axis));
            }
        }
        if axes.is_empty() {
            let name = dim.escape_debug().to_string();
            let expected = "expected the size of an axis of a state".to_owned();
            return Err(Failure::UnknownDim { name, expected }.into());
        }
        Ok(Self { dim, limit, axes })
    }
}
