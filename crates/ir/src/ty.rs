//! Types of values: a tensor of known rank with symbolic sizes, a sequence, or an optional.
//!
//! Sizes are defined in `symbolic-shape`. Invariant: a [`DimId`] in a type belongs to the dimension table of the graph
//! that holds the value.

use kiln_symbolic_shape::{DimId, DimTable};
use kiln_tensor::DType;
use smallvec::SmallVec;
use std::fmt::{self, Write};

/// The sizes of a tensor's axes, outermost first.
pub type Dims = SmallVec<[DimId; 4]>;

/// The maximum nesting of sequences and optionals in a type.
pub const TYPE_DEPTH_LIMIT: usize = 8;

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// A dense tensor, `f32[B, 128]`.
    Tensor(TensorType),
    /// A sequence of values of one type, `seq<f32[B]>`.
    Sequence(Box<Type>),
    /// A value or nothing, `optional<f32[B]>`.
    Optional(Box<Type>),
}

/// A tensor's element type and sizes; `f32[]` is a scalar.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// The sizes, outermost first.
    pub dims: Dims,
}

impl TensorType {
    /// A tensor type from its element type and sizes.
    pub fn new(dtype: DType, dims: impl IntoIterator<Item = DimId>) -> Self {
        Self {
            dtype,
            dims: dims.into_iter().collect(),
        }
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }
}

impl Type {
    /// A tensor type from its element type and sizes.
    pub fn tensor(dtype: DType, dims: impl IntoIterator<Item = DimId>) -> Self {
        Self::Tensor(TensorType::new(dtype, dims))
    }

    /// The tensor type, if this is one.
    #[inline]
    pub fn as_tensor(&self) -> Option<&TensorType> {
        match self {
            Self::Tensor(ty) => Some(ty),
            Self::Sequence(_) | Self::Optional(_) => None,
        }
    }

    /// The tensor type inside any nesting of sequences and optionals.
    pub fn innermost(&self) -> &TensorType {
        let mut ty = self;
        loop {
            match ty {
                Self::Tensor(tensor) => return tensor,
                Self::Sequence(item) | Self::Optional(item) => ty = item,
            }
        }
    }

    /// The same type with every size replaced by the result of `map`.
    pub fn try_map_dims<E>(
        &self,
        map: &mut dyn FnMut(DimId) -> Result<DimId, E>,
    ) -> Result<Self, E> {
        let mut wrappers = Vec::new();
        let mut ty = self;
        let inner = loop {
            match ty {
                Self::Tensor(tensor) => break tensor,
                Self::Sequence(item) => {
                    wrappers.push(true);
                    ty = item;
                }
                Self::Optional(item) => {
                    wrappers.push(false);
                    ty = item;
                }
            }
        };
        let dims = inner
            .dims
            .iter()
            .map(|&dim| map(dim))
            .collect::<Result<Dims, E>>()?;
        let mut mapped = Self::Tensor(TensorType {
            dtype: inner.dtype,
            dims,
        });
        for is_sequence in wrappers.into_iter().rev() {
            mapped = if is_sequence {
                Self::Sequence(Box::new(mapped))
            } else {
                Self::Optional(Box::new(mapped))
            };
        }
        Ok(mapped)
    }

    /// The type in the text form, with sizes resolved in `dims`.
    pub fn display<'a>(&'a self, dims: &'a DimTable) -> impl fmt::Display + 'a {
        TypeDisplay { ty: self, dims }
    }
}

struct TypeDisplay<'a> {
    ty: &'a Type,
    dims: &'a DimTable,
}

impl fmt::Display for TypeDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ty = self.ty;
        let mut depth = 0;
        loop {
            match ty {
                Type::Tensor(tensor) => {
                    write!(
                        f,
                        "{}{}",
                        tensor.dtype,
                        self.dims.display_shape(&tensor.dims)
                    )?;
                    break;
                }
                Type::Sequence(item) => {
                    f.write_str("seq<")?;
                    ty = item;
                }
                Type::Optional(item) => {
                    f.write_str("optional<")?;
                    ty = item;
                }
            }
            depth += 1;
        }
        for _ in 0..depth {
            f.write_char('>')?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn nested_types_print_and_map() {
        let mut dims = DimTable::new();
        let (b, four) = (dims.symbol("B").unwrap(), dims.constant(4));
        let tensor = Type::tensor(DType::F32, [b, four]);
        let nested = Type::Optional(Box::new(Type::Sequence(Box::new(tensor.clone()))));
        assert_eq!(
            nested.display(&dims).to_string(),
            "optional<seq<f32[B, 4]>>"
        );
        assert_eq!(nested.innermost().rank(), 2);
        assert_eq!(
            (nested.as_tensor(), tensor.as_tensor().is_some()),
            (None, true)
        );
        let mapped = nested
            .try_map_dims::<Infallible>(&mut |_| Ok(four))
            .unwrap();
        assert_eq!(
            mapped.display(&dims).to_string(),
            "optional<seq<f32[4, 4]>>"
        );
        assert_eq!(nested.try_map_dims(&mut |dim| Err(dim)), Err(b));
    }
}
