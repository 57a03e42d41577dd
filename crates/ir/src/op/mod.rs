//! The operations of the graph: few core ops, into which importers decompose.
//!
//! An op here is a kind with its attributes; operands and results are with [`OpData`](crate::OpData). Its meaning is
//! defined by the interpreter; its result types by `shape-inference`. Sizes are attributes ([`DimId`]s), never operands.

mod attributes;
mod fields;
mod mnemonic;

pub use attributes::{
    Combine, Coordinates, CumulateFunction, Extremum, Indices, Integers, NearestRounding, PadMode,
    PoolFunction, ReduceFunction, Resize, ResizeMode, Window, Word,
};
pub use fields::FieldVisitor;

use crate::constant::Constant;
use crate::ty::Dims;
use kiln_scalar::Function;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;
use smallvec::SmallVec;

/// An operation and its attributes.
///
/// Shapes in the descriptions: operands in order, then the result. Element-wise ops broadcast as in numpy, aligned at the
/// innermost axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    // Sources
    /// A tensor known at compile time.
    Constant(Constant),
    /// The index along `axis`: `-> dtype[dims]`.
    Iota {
        /// The result's sizes.
        dims: Dims,
        /// The counted axis.
        axis: usize,
        /// The result's element type, a number.
        dtype: DType,
    },
    /// Sizes as data: `-> i64[len(sizes)]`.
    Dims {
        /// The sizes.
        sizes: Dims,
    },
    /// Random bits from a counter-based generator (Philox 4x32-10): `key: u64[2] -> u32[dims]`.
    RandomBits {
        /// The result's sizes.
        dims: Dims,
    },

    // Element-wise
    /// A scalar function on every element, operands broadcast. The mnemonic is the function's name.
    Map {
        /// The function, from the table of `scalar`.
        function: Function,
        /// Its parameters, in the function's order.
        parameters: SmallVec<[f64; 2]>,
    },
    /// Every element in a different dtype, as `scalar` defines casts.
    Cast {
        /// The result's element type.
        to: DType,
    },

    // Data movement
    /// The same elements in row-major order under other sizes.
    Reshape {
        /// The result's sizes.
        dims: Dims,
    },
    /// The operand repeated to larger sizes, aligned at the innermost axis.
    Broadcast {
        /// The result's sizes; each operand size is equal or 1.
        dims: Dims,
    },
    /// Axes reordered: result axis `i` is operand axis `permutation[i]`.
    Transpose {
        /// Each axis once.
        permutation: Indices,
    },
    /// `result[i..] = operand[starts + steps * i]`, for every axis. In bounds, or a fault.
    Slice {
        /// The first index, per axis.
        starts: Dims,
        /// The result's sizes.
        sizes: Dims,
        /// The steps, per axis, not 0; negative runs backwards.
        steps: Integers,
    },
    /// A border around the operand: `x, value: [] -> low + x + high` per axis. `value` is read only in constant mode.
    Pad {
        /// Elements before, per axis, at least 0.
        low: Dims,
        /// Elements after, per axis, at least 0.
        high: Dims,
        /// The border's elements.
        mode: PadMode,
    },
    /// Operands one after another along `axis`; other sizes equal.
    Concat {
        /// The axis.
        axis: usize,
    },

    // Indexing
    /// `x: [a.., n, b..], indices: int[i..] -> [a.., i.., b..]`. Indices in `[-n, n)`, or a fault.
    Gather {
        /// The indexed axis of `x`.
        axis: usize,
    },
    /// `x, indices: int[same rank] -> [indices' sizes]`: along `axis` the position is the index. In `[-n, n)`, or a fault.
    GatherElements {
        /// The indexed axis.
        axis: usize,
    },
    /// `x, indices: int[batch.., i.., k] -> [batch.., i.., rest of x]`: the last axis of `indices` addresses `k` axes.
    GatherNd {
        /// Leading axes that both operands share.
        batch_axes: usize,
    },
    /// `x, indices, updates -> like x`: updates placed along `axis` as `GatherElements` reads.
    ScatterElements {
        /// The indexed axis.
        axis: usize,
        /// How an update combines with the existing element.
        combine: Combine,
    },
    /// `x, indices: int[i.., k], updates -> like x`: updates placed as `GatherNd` (no batch axes) reads.
    ScatterNd {
        /// How an update combines with the existing element.
        combine: Combine,
    },
    /// `x, at: int[axes], update -> like x`: `update` in place of the part of `x` that begins at `at` along the axes, which
    /// is within `x`, or a fault. Sizes of other axes are equal.
    UpdateSlice {
        /// The axes of the replaced part, ascending.
        axes: Indices,
    },

    // Contractions
    /// `[batch.., M, K], [batch.., K, N] -> [batch.., M, N]`, batch axes broadcast; both operands have rank 2 or more.
    Matmul {
        /// The result's dtype: the operands', or i32/i64 for narrower integers, accumulated in it.
        out: DType,
    },
    /// `x: [N, C, spatial..], w: [O, C / groups, kernel..] -> [N, O, spatial..]`, cross-correlation. The padding is zeros,
    /// multiplied by the weights like any element: an infinite weight gives NaN.
    Conv {
        /// How the window moves.
        window: Window,
        /// Groups of channels that do not mix.
        groups: usize,
        /// The result's dtype, as for `Matmul`.
        out: DType,
    },
    /// The transpose of `Conv` in its input: `x: [N, C, spatial..], w: [C, O / groups, kernel..] -> [N, O, sizes..]`. A
    /// result sums the contributions of its elements; a weight without an element contributes no product.
    ConvTranspose {
        /// How the window moves; `low` and `high` are cropped from the full result.
        window: Window,
        /// Elements added at the high end, per spatial axis, at least 0.
        output_padding: Dims,
        /// Groups of channels that do not mix.
        groups: usize,
    },

    // Reductions
    /// A reduction over `axes`.
    Reduce {
        /// The reduction.
        function: ReduceFunction,
        /// The reduced axes, ascending; an empty list reduces nothing.
        axes: Indices,
        /// Whether reduced axes are kept, with size 1.
        keep_dims: bool,
    },
    /// The index of an extremum along `axis`, i64.
    ArgReduce {
        /// Maximum or minimum.
        extremum: Extremum,
        /// The reduced axis, not empty.
        axis: usize,
        /// Whether it is kept, with size 1.
        keep_dims: bool,
        /// Whether the last of equal elements is selected, not the first.
        last: bool,
    },
    /// A running reduction along `axis`, like the operand.
    Cumulate {
        /// The accumulation.
        function: CumulateFunction,
        /// The axis.
        axis: usize,
        /// Whether element `i` excludes the operand's element `i`.
        exclusive: bool,
        /// Whether it runs from the end.
        reverse: bool,
    },

    // Windows
    /// `[N, C, spatial..] -> [N, C, spatial..]`.
    Pool {
        /// The operation on each window.
        function: PoolFunction,
        /// The window's size, per spatial axis.
        size: Integers,
        /// How it moves.
        window: Window,
    },
    /// The position of the maximum of each window: `[N, C, spatial..] -> i64 [N, C, spatial..]`, in row-major order
    /// over the operand's spatial axes, among the window's elements that are not padding. Of equal elements, the first
    /// in row-major order; a NaN takes precedence over every number; -1 for a window that consists only of padding.
    ArgPool {
        /// The window's size, per spatial axis.
        size: Integers,
        /// How it moves.
        window: Window,
    },
    /// Some axes resampled to other sizes.
    Resize(Resize),

    // Data that become sizes
    /// Binds symbols to the elements of an integer tensor: `int[k] or int[] -> ()`. The symbols are in [`OpData`](crate::OpData).
    Bind,
    /// Indices of the nonzero elements: `[dims] -> i64[rank, number of elements], i64[]`: the first count columns hold
    /// them.
    NonZero,
    /// The `k` largest or smallest along `axis`: `-> values, indices: i64`.
    TopK {
        /// The number of elements.
        k: DimId,
        /// The axis.
        axis: usize,
        /// Largest or smallest first.
        extremum: Extremum,
    },

    /// Non-maximum suppression: `boxes: f32[N, B, 4], scores: f32[N, C, B], overlap: f32[], least: f32[] -> i64[N * C *
    /// k, 3], i64[]`: the first count rows hold the batch, class and box of each box that is kept. Classes are in
    /// order; of each class, at most `k` boxes are kept, in descending order of their scores, as defined by
    /// [`TopK`](Self::TopK). Boxes are dropped if their score is not above `least`, unless that is NaN, or if their
    /// intersection with a kept box is more than `overlap` times the union. A box is given by two opposite corners; a
    /// box without an area does not overlap any other.
    Suppress {
        /// The maximum number of boxes of a class.
        k: DimId,
    },

    // Control
    /// `condition: bool[], captures.. -> results of the taken region`. Both regions take the captures.
    If,
    /// Repeats its region. Operands: `trips: i64[]`, `condition: bool[]`, `carried` values, captures.
    /// The region takes `iteration: i64[]`, carried values, captures; it yields `condition: bool[]`,
    /// carried values, stacked values. Results: the last carried values, then each stacked value
    /// under a new outermost axis, one entry per iteration. It ends after `trips` iterations, or
    /// before one for which the condition is false.
    Loop {
        /// The number of carried values.
        carried: usize,
    },

    // Beyond the core
    /// An operation registered by the user under `name`.
    Custom {
        /// The name under which it was registered.
        name: String,
        /// Its arguments, in the form that its registered implementation reads.
        arguments: String,
    },
}

impl Op {
    /// An element-wise function with no parameters, or with default parameters.
    pub fn map(function: Function) -> Self {
        Self::Map {
            function,
            parameters: function
                .parameters()
                .iter()
                .map(|parameter| parameter.default)
                .collect(),
        }
    }

    /// Visits the attributes, in a fixed order: printing, reading, remapping of sizes and comparison all use this one
    /// description.
    pub fn visit_fields(&mut self, visitor: &mut dyn FieldVisitor) {
        match self {
            Self::Constant(constant) => visitor.constant("value", constant),
            Self::Iota { dims, axis, dtype } => {
                visitor.dims("dims", dims);
                visitor.index("axis", axis);
                visitor.dtype("dtype", dtype);
            }
            Self::Dims { sizes } => visitor.dims("sizes", sizes),
            Self::RandomBits { dims } | Self::Reshape { dims } | Self::Broadcast { dims } => {
                visitor.dims("dims", dims)
            }
            Self::Map {
                function,
                parameters,
            } => {
                for (parameter, value) in function.parameters().iter().zip(parameters) {
                    visitor.float(parameter.name, value);
                }
            }
            Self::Cast { to } => visitor.dtype("to", to),
            Self::Transpose { permutation } => visitor.indices("permutation", permutation),
            Self::Slice {
                starts,
                sizes,
                steps,
            } => {
                visitor.dims("starts", starts);
                visitor.dims("sizes", sizes);
                visitor.integers("steps", steps);
            }
            Self::Pad { low, high, mode } => {
                visitor.dims("low", low);
                visitor.dims("high", high);
                visitor.word("mode", mode);
            }
            Self::Concat { axis } | Self::Gather { axis } | Self::GatherElements { axis } => {
                visitor.index("axis", axis)
            }
            Self::GatherNd { batch_axes } => visitor.index("batch_axes", batch_axes),
            Self::ScatterElements { axis, combine } => {
                visitor.index("axis", axis);
                visitor.word("combine", combine);
            }
            Self::ScatterNd { combine } => visitor.word("combine", combine),
            Self::UpdateSlice { axes } => visitor.indices("axes", axes),
            Self::Matmul { out } => visitor.result_dtype("out", out),
            Self::Conv {
                window,
                groups,
                out,
            } => {
                window.visit_fields(visitor);
                visitor.index("groups", groups);
                visitor.result_dtype("out", out);
            }
            Self::ConvTranspose {
                window,
                output_padding,
                groups,
            } => {
                window.visit_fields(visitor);
                visitor.dims("output_padding", output_padding);
                visitor.index("groups", groups);
            }
            Self::Reduce {
                function,
                axes,
                keep_dims,
            } => {
                visitor.word("function", function);
                visitor.indices("axes", axes);
                visitor.flag("keep_dims", keep_dims);
            }
            Self::ArgReduce {
                extremum,
                axis,
                keep_dims,
                last,
            } => {
                visitor.word("extremum", extremum);
                visitor.index("axis", axis);
                visitor.flag("keep_dims", keep_dims);
                visitor.flag("last", last);
            }
            Self::Cumulate {
                function,
                axis,
                exclusive,
                reverse,
            } => {
                visitor.word("function", function);
                visitor.index("axis", axis);
                visitor.flag("exclusive", exclusive);
                visitor.flag("reverse", reverse);
            }
            Self::Pool {
                function,
                size,
                window,
            } => {
                visitor.word("function", function);
                visitor.integers("size", size);
                window.visit_fields(visitor);
            }
            Self::ArgPool { size, window } => {
                visitor.integers("size", size);
                window.visit_fields(visitor);
            }
            Self::Resize(resize) => resize.visit_fields(visitor),
            Self::TopK { k, axis, extremum } => {
                visitor.dim("k", k);
                visitor.index("axis", axis);
                visitor.word("extremum", extremum);
            }
            Self::Suppress { k } => visitor.dim("k", k),
            Self::Loop { carried } => visitor.index("carried", carried),
            Self::Custom { name, arguments } => {
                visitor.text("name", name);
                visitor.text("arguments", arguments);
            }
            Self::Bind | Self::NonZero | Self::If => {}
        }
    }

    /// Replaces every size among the attributes by the result of `map`.
    ///
    /// # Errors
    /// The first error of `map`; the sizes visited before it are already replaced.
    pub fn try_map_dims<E>(
        &mut self,
        map: &mut dyn FnMut(DimId) -> Result<DimId, E>,
    ) -> Result<(), E> {
        let mut mapper = DimMapper { map, failed: None };
        self.visit_fields(&mut mapper);
        mapper.failed.map_or(Ok(()), Err)
    }

    /// Calls `visit` with every size among the attributes.
    pub fn for_each_dim(&self, visit: &mut dyn FnMut(DimId)) {
        let mut copy = self.clone();
        let _infallible: Result<(), std::convert::Infallible> = copy.try_map_dims(&mut |dim| {
            visit(dim);
            Ok(dim)
        });
    }

    /// Whether equal operands give equal results and nothing else happens, so that equal ops may be merged
    /// and unused ones dropped. False for control flow (its regions decide) and for ops that define symbols.
    pub fn is_pure(&self) -> bool {
        !matches!(
            self,
            Self::Bind | Self::If | Self::Loop { .. } | Self::Custom { .. }
        )
    }
}

struct DimMapper<'a, E> {
    map: &'a mut dyn FnMut(DimId) -> Result<DimId, E>,
    failed: Option<E>,
}

impl<E> FieldVisitor for DimMapper<'_, E> {
    fn dim(&mut self, _name: &'static str, value: &mut DimId) {
        if self.failed.is_none() {
            match (self.map)(*value) {
                Ok(mapped) => *value = mapped,
                Err(error) => self.failed = Some(error),
            }
        }
    }

    fn dims(&mut self, name: &'static str, value: &mut Dims) {
        for dim in value {
            self.dim(name, dim);
        }
    }
}
