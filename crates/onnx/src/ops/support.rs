//! Shared helpers of importers: scalars, casts, operands that hold sizes, simple movements.

use kiln_ir::{Indices, Op, ReduceFunction, ValueId};
use kiln_symbolic_shape::{DimId, DimRange};
use kiln_tensor::{DType, Tensor};
use smallvec::smallvec;

use crate::import::{Item, Operator, Outputs, Takes};
use crate::{Error, LimitKind, NodeContext};

pub(super) type Imported = Result<Outputs, Error>;

/// An entry of an operator table.
pub(super) const fn operator(
    name: &'static str,
    since: &'static [i64],
    import: fn(&mut NodeContext<'_>) -> Imported,
) -> Operator {
    Operator {
        name,
        since,
        import,
        takes: Takes::Tensors,
    }
}

/// One result.
pub(super) fn one(value: ValueId) -> Imported {
    Ok(smallvec![Item::Tensor(value)])
}

/// Several results.
pub(super) fn several<const N: usize>(values: [ValueId; N]) -> Imported {
    Ok(values.into_iter().map(Item::Tensor).collect())
}

/// Computes 16-bit floats in f32, and rounds the result: values inside an operator have no declared dtype, and must not
/// overflow where its result does not.
pub(super) fn in_f32(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    compute: impl FnOnce(&mut NodeContext<'_>, ValueId) -> Result<ValueId, Error>,
) -> Result<ValueId, Error> {
    let dtype = ctx.dtype(x)?;
    if !matches!(dtype, DType::F16 | DType::BF16) {
        return compute(ctx, x);
    }
    let wide = ctx.cast(x, DType::F32)?;
    let result = compute(ctx, wide)?;
    ctx.cast(result, dtype)
}

/// # Constants
impl NodeContext<'_> {
    /// A constant scalar; integers truncate the number.
    pub(super) fn scalar(&mut self, dtype: DType, number: f64) -> Result<ValueId, Error> {
        self.build(|builder| builder.scalar_nearest(dtype, number))
    }

    /// A constant scalar of the dtype of `value`.
    pub(super) fn scalar_like(&mut self, value: ValueId, number: f64) -> Result<ValueId, Error> {
        let dtype = self.dtype(value)?;
        self.scalar(dtype, number)
    }

    /// A constant scalar of i64.
    pub(super) fn integer(&mut self, value: i64) -> Result<ValueId, Error> {
        self.add_constant(Tensor::scalar(value))
    }

    /// The floats of a constant, as `f64`.
    pub(super) fn constant_floats(&self, value: ValueId) -> Option<Vec<f64>> {
        let tensor = self.constant(value)?;
        match tensor.dtype() {
            DType::F32 => Some(to_f64(tensor.to_vec::<f32>().ok()?)),
            DType::F64 => tensor.to_vec::<f64>().ok(),
            DType::F16 => Some(to_f64(tensor.to_vec::<kiln_tensor::f16>().ok()?)),
            DType::BF16 => Some(to_f64(tensor.to_vec::<kiln_tensor::bf16>().ok()?)),
            _ => None,
        }
    }

    /// The only number of a constant, of any dtype but bool.
    pub(super) fn constant_number(&self, value: ValueId) -> Option<f64> {
        let numbers = self.constant_floats(value).or_else(|| {
            let integers = self.constant_integers(value)?;
            Some(integers.into_iter().map(|integer| integer as f64).collect())
        })?;
        match numbers.as_slice() {
            [number] => Some(*number),
            _ => None,
        }
    }
}

fn to_f64<T: Into<f64>>(elements: Vec<T>) -> Vec<f64> {
    elements.into_iter().map(Into::into).collect()
}

/// # Constant operands
impl NodeContext<'_> {
    /// The integers in operand `index`, if it exists; they must be constant.
    pub(super) fn optional_integers(&self, index: usize) -> Result<Option<Vec<i64>>, Error> {
        let Some(value) = self.optional(index) else {
            return Ok(None);
        };
        match self.constant_integers(value) {
            Some(integers) => Ok(Some(integers)),
            None => Err(self.operand_error(
                index,
                "integers that are known when the model is imported (the option `fix`, `--fix` on the command line, makes an input known)",
                self.builder().describe(value),
            )),
        }
    }

    /// The integers in operand `index`; they must be constant.
    pub(super) fn integers(&self, index: usize) -> Result<Vec<i64>, Error> {
        self.input(index)?;
        Ok(self.optional_integers(index)?.unwrap_or_default())
    }

    /// The elements of operand `index`, a small integer tensor, as sizes; unknown elements are bound to sizes at run
    /// time.
    pub(super) fn sizes_of(&mut self, index: usize) -> Result<Vec<DimId>, Error> {
        let value = self.input(index)?;
        self.sizes_in(value)
    }

    /// The elements of a small integer tensor as sizes.
    pub(super) fn sizes_in(&mut self, value: ValueId) -> Result<Vec<DimId>, Error> {
        if let Some(known) = self.builder().known_values(value) {
            return Ok(known.to_vec());
        }
        let flat = match self.rank(value)? {
            0 | 1 => value,
            _ => self.flat(value)?,
        };
        if let [length] = self.shape(flat)?.as_slice()
            && let Some(length) = self.known(*length)
        {
            self.check_shape_elements(usize::try_from(length).unwrap_or(usize::MAX))?;
        }
        self.build(|builder| builder.bind(flat))
    }

    /// Checks the declared number of elements of an operand that holds sizes against the limit, before they are split.
    pub(super) fn check_shape_elements(&self, length: usize) -> Result<(), Error> {
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        self.check_limit(LimitKind::ShapeElements, length)
    }

    /// Axes from an attribute (before `input_since`) or operand 1 (from then on).
    pub(super) fn axes(&self, input_since: i64) -> Result<Option<Vec<i64>>, Error> {
        if self.version() < input_since {
            Ok(self
                .attributes()
                .get::<&[i64]>("axes")?
                .map(<[i64]>::to_vec))
        } else {
            self.optional_integers(1)
        }
    }

    /// Axes counted from the start, ascending, each once.
    pub(super) fn ascending(&self, axes: &[i64], rank: usize) -> Result<Indices, Error> {
        let axes = axes.iter().map(|&axis| self.axis(axis, rank));
        let mut axes = axes.collect::<Result<Indices, Error>>()?;
        axes.sort_unstable();
        let given = axes.len();
        axes.dedup();
        if axes.len() == given {
            Ok(axes)
        } else {
            Err(self.attribute_error("axes", "each axis once", "one twice"))
        }
    }

    /// The attribute `axis`, counted from the start.
    pub(super) fn axis_attribute(&self, default: i64, rank: usize) -> Result<usize, Error> {
        let axis = self.attributes().get_or("axis", default)?;
        self.axis(axis, rank)
    }

    /// Whether the attribute `name` is not 0.
    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, Error> {
        Ok(self.attributes().get_or(name, i64::from(default))? != 0)
    }
}

/// # Sizes
impl NodeContext<'_> {
    /// What is known about a size.
    pub(super) fn range(&self, dim: DimId) -> DimRange {
        self.builder().dims().range(dim)
    }

    /// The size, if it is constant.
    pub(super) fn known(&self, dim: DimId) -> Option<i64> {
        self.builder().dims().as_constant(dim)
    }

    /// The product of sizes.
    pub(super) fn product(&mut self, dims: &[DimId]) -> Result<DimId, Error> {
        self.sizes(|table| table.product(dims))
    }

    /// A size as a scalar of i64.
    pub(super) fn dim_as_data(&mut self, dim: DimId) -> Result<ValueId, Error> {
        let vector = self.build(|builder| builder.dims_tensor(&[dim]))?;
        self.reshape(vector, &[])
    }
}

/// # Simple operations
impl NodeContext<'_> {
    pub(super) fn cast(&mut self, value: ValueId, to: DType) -> Result<ValueId, Error> {
        self.build(|builder| builder.cast(value, to))
    }

    pub(super) fn reshape(&mut self, value: ValueId, dims: &[DimId]) -> Result<ValueId, Error> {
        self.build(|builder| builder.reshape(value, dims))
    }

    /// All elements along one axis.
    pub(super) fn flat(&mut self, value: ValueId) -> Result<ValueId, Error> {
        self.build(|builder| builder.reshape_inferring(value, &[None]))
    }

    /// A tensor of one element as a scalar.
    pub(super) fn as_scalar(&mut self, value: ValueId) -> Result<ValueId, Error> {
        self.reshape(value, &[])
    }

    /// As the builder's transpose; the value itself if the permutation moves nothing.
    pub(super) fn transpose(&mut self, value: ValueId, axes: &[usize]) -> Result<ValueId, Error> {
        if axes.iter().copied().eq(0..axes.len()) && axes.len() == self.rank(value)? {
            return Ok(value);
        }
        self.build(|builder| builder.transpose(value, axes))
    }

    /// Entries `start..start + size` of one axis, constant.
    pub(super) fn narrow(
        &mut self,
        value: ValueId,
        axis: usize,
        start: i64,
        size: i64,
    ) -> Result<ValueId, Error> {
        let (start, size) = (self.size(start), self.size(size));
        self.build(|builder| builder.slice_axis(value, axis, start, size))
    }

    /// The entry of one axis at a constant index; the axis is removed.
    pub(super) fn entry(
        &mut self,
        value: ValueId,
        axis: usize,
        index: i64,
    ) -> Result<ValueId, Error> {
        let entry = self.narrow(value, axis, index, 1)?;
        self.build(|builder| builder.squeeze(entry, &[axis]))
    }

    pub(super) fn reduce(
        &mut self,
        function: ReduceFunction,
        value: ValueId,
        axes: &[usize],
        keep_dims: bool,
    ) -> Result<ValueId, Error> {
        self.build(|builder| builder.reduce(value, function, axes, keep_dims))
    }

    /// A scalar repeated to sizes; not materialised.
    pub(super) fn filled(
        &mut self,
        dtype: DType,
        number: f64,
        dims: &[DimId],
    ) -> Result<ValueId, Error> {
        self.build(|builder| {
            let scalar = builder.scalar_nearest(dtype, number)?;
            builder.broadcast_to(scalar, dims)
        })
    }

    pub(super) fn add(&mut self, left: ValueId, right: ValueId) -> Result<ValueId, Error> {
        self.map("add", &[left, right])
    }

    pub(super) fn sub(&mut self, left: ValueId, right: ValueId) -> Result<ValueId, Error> {
        self.map("sub", &[left, right])
    }

    pub(super) fn mul(&mut self, left: ValueId, right: ValueId) -> Result<ValueId, Error> {
        self.map("mul", &[left, right])
    }

    pub(super) fn div(&mut self, left: ValueId, right: ValueId) -> Result<ValueId, Error> {
        self.map("div", &[left, right])
    }

    /// Selects the second operand where the condition holds, otherwise the third.
    pub(super) fn select(
        &mut self,
        condition: ValueId,
        one: ValueId,
        other: ValueId,
    ) -> Result<ValueId, Error> {
        self.map("select", &[condition, one, other])
    }

    /// Adds a number of the value's dtype.
    pub(super) fn plus(&mut self, value: ValueId, number: f64) -> Result<ValueId, Error> {
        let number = self.scalar_like(value, number)?;
        self.add(value, number)
    }

    /// The positions along an axis of sizes `dims`.
    pub(super) fn positions(
        &mut self,
        dtype: DType,
        dims: &[DimId],
        axis: usize,
    ) -> Result<ValueId, Error> {
        self.build(|builder| builder.iota(dtype, dims, axis))
    }

    /// A size as a scalar of a dtype.
    pub(super) fn dim_as(&mut self, dim: DimId, dtype: DType) -> Result<ValueId, Error> {
        if let Some(known) = self.known(dim) {
            return self.scalar(dtype, known as f64);
        }
        let data = self.dim_as_data(dim)?;
        self.cast(data, dtype)
    }

    /// Broadcasts to sizes.
    pub(super) fn broadcast(&mut self, value: ValueId, dims: &[DimId]) -> Result<ValueId, Error> {
        self.build(|builder| builder.broadcast_to(value, dims))
    }

    /// The sizes of a value of a known rank.
    pub(super) fn dims_of_rank<const N: usize>(
        &self,
        index: usize,
        value: ValueId,
    ) -> Result<[DimId; N], Error> {
        let dims = self.shape(value)?;
        <[DimId; N]>::try_from(dims.as_slice()).map_err(|_| {
            let found = self.builder().describe(value);
            self.operand_error(index, format!("a tensor of rank {N}"), found)
        })
    }

    /// Matrices along the last two axes, multiplied; operands and result of one dtype.
    pub(super) fn matmul(&mut self, left: ValueId, right: ValueId) -> Result<ValueId, Error> {
        let out = self.dtype(left)?;
        self.op(Op::Matmul { out }, &[left, right])
    }

    /// Multiplies by a number of the value's dtype; a factor of 1 changes nothing.
    pub(super) fn scaled(&mut self, value: ValueId, factor: f64) -> Result<ValueId, Error> {
        if factor == 1.0 {
            return Ok(value);
        }
        let factor = self.scalar_like(value, factor)?;
        self.mul(value, factor)
    }
}
