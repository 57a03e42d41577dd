//! Borrowed slices of elements of one dtype, and buffers of elements owned by an evaluator.

use std::ops::Range;

use kiln_tensor::{DType, Element, Tensor, TensorError, bf16, f16};

use crate::ScalarValue;

macro_rules! define_blocks {
    ($($variant:ident $ty:ty),* $(,)?) => {
        /// Elements to read.
        #[derive(Clone, Copy, Debug)]
        #[non_exhaustive]
        pub enum Block<'a> {
            $(
                #[doc = concat!("Elements of `", stringify!($ty), "`.")]
                $variant(&'a [$ty]),
            )*
        }

        /// Elements to write.
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum BlockMut<'a> {
            $(
                #[doc = concat!("Elements of `", stringify!($ty), "`.")]
                $variant(&'a mut [$ty]),
            )*
        }

        /// A buffer of an evaluator.
        #[derive(Debug)]
        pub(crate) enum Buffer {
            $($variant(Vec<$ty>),)*
        }

        impl<'a> Block<'a> {
            /// The element type.
            pub fn dtype(self) -> DType {
                match self {
                    $(Block::$variant(_) => <$ty>::DTYPE,)*
                }
            }

            /// The number of elements.
            pub fn len(self) -> usize {
                match self {
                    $(Block::$variant(elements) => elements.len(),)*
                }
            }

            /// The elements in a range, which must be within the block.
            pub(crate) fn part(self, range: Range<usize>) -> Block<'a> {
                match self {
                    $(Block::$variant(elements) => Block::$variant(&elements[range]),)*
                }
            }

            /// The first element.
            pub(crate) fn first(self) -> Option<ScalarValue> {
                match self {
                    $(Block::$variant(elements) => elements.first().copied().map(ScalarValue::from),)*
                }
            }
        }

        impl<'a> BlockMut<'a> {
            /// The element type.
            pub fn dtype(&self) -> DType {
                match self {
                    $(BlockMut::$variant(_) => <$ty>::DTYPE,)*
                }
            }

            /// The number of elements.
            pub fn len(&self) -> usize {
                match self {
                    $(BlockMut::$variant(elements) => elements.len(),)*
                }
            }

            /// The elements in a range, which must be within the block.
            pub(crate) fn part(&mut self, range: Range<usize>) -> BlockMut<'_> {
                match self {
                    $(BlockMut::$variant(elements) => BlockMut::$variant(&mut elements[range]),)*
                }
            }
        }

        impl Buffer {
            /// A buffer of `len` times one value.
            pub(crate) fn filled(value: ScalarValue, len: usize) -> Buffer {
                match value {
                    $(ScalarValue::$variant(value) => Buffer::$variant(vec![value; len]),)*
                }
            }

            pub(crate) fn block(&self, len: usize) -> Block<'_> {
                match self {
                    $(Buffer::$variant(elements) => Block::$variant(&elements[..len]),)*
                }
            }

            pub(crate) fn block_mut(&mut self, len: usize) -> BlockMut<'_> {
                match self {
                    $(Buffer::$variant(elements) => BlockMut::$variant(&mut elements[..len]),)*
                }
            }
        }

        impl ScalarValue {
            /// The value as a block of one.
            pub(crate) fn as_block(&self) -> Block<'_> {
                match self {
                    $(ScalarValue::$variant(value) => Block::$variant(std::slice::from_ref(value)),)*
                }
            }

            pub(crate) fn as_block_mut(&mut self) -> BlockMut<'_> {
                match self {
                    $(ScalarValue::$variant(value) => BlockMut::$variant(std::slice::from_mut(value)),)*
                }
            }
        }

        $(
            impl Lane for $ty {
                #[inline]
                fn of(block: Block<'_>) -> &[$ty] {
                    match block {
                        Block::$variant(elements) => elements,
                        other => mismatch(<$ty>::DTYPE, other.dtype()),
                    }
                }

                #[inline]
                fn of_mut(block: BlockMut<'_>) -> &mut [$ty] {
                    match block {
                        BlockMut::$variant(elements) => elements,
                        other => mismatch(<$ty>::DTYPE, other.dtype()),
                    }
                }
            }

            impl<'a> From<&'a [$ty]> for Block<'a> {
                fn from(elements: &'a [$ty]) -> Block<'a> {
                    Block::$variant(elements)
                }
            }

            impl<'a> From<&'a mut [$ty]> for BlockMut<'a> {
                fn from(elements: &'a mut [$ty]) -> BlockMut<'a> {
                    BlockMut::$variant(elements)
                }
            }
        )*
    };
}

/// An element type whose slices can be taken from a block known to hold them.
pub(crate) trait Lane: Element {
    fn of(block: Block<'_>) -> &[Self];
    fn of_mut(block: BlockMut<'_>) -> &mut [Self];
}

define_blocks! {
    F64 f64, F32 f32, F16 f16, BF16 bf16,
    I64 i64, I32 i32, I16 i16, I8 i8,
    U64 u64, U32 u32, U16 u16, U8 u8,
    Bool bool,
}

impl<'a> Block<'a> {
    /// Whether there are no elements.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The elements of a contiguous tensor.
    pub fn of_tensor(tensor: &'a Tensor) -> Result<Block<'a>, TensorError> {
        kiln_tensor::match_dtype!(tensor.dtype(), T => tensor.as_slice::<T>().map(Block::from))
    }
}

impl<'a> BlockMut<'a> {
    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements of a tensor for writing; see [`Tensor::as_mut_slice`].
    pub fn of_tensor(tensor: &'a mut Tensor) -> Result<BlockMut<'a>, TensorError> {
        kiln_tensor::match_dtype!(tensor.dtype(), T => tensor.as_mut_slice::<T>().map(BlockMut::from))
    }
}

fn mismatch(expected: DType, found: DType) -> ! {
    unreachable!("the expression was typed: expected a block of {expected}, found {found}")
}
