//! Slices: whole ranges of axes, with the clamping of Python and ONNX.

use super::GraphBuilder;
use crate::error::{InferError, InferErrorKind};
use kiln_ir::{Dims, Integers, Op, ValueId};
use kiln_symbolic_shape::{DimError, DimId, DimTable, Predicate, Proof};

/// Ends at or beyond this mean the end of the axis, regardless of its size: the idiom of exporters.
const END: i64 = i32::MAX as i64;

impl GraphBuilder {
    /// `result[i..] = x[starts + steps * i]`, per axis; in bounds, or a fault at run time.
    ///
    /// # Errors
    /// When the entries do not match the axes, a step is 0, or an index is always out of bounds.
    pub fn slice(
        &mut self,
        x: ValueId,
        starts: &[DimId],
        sizes: &[DimId],
        steps: &[i64],
    ) -> Result<ValueId, InferError> {
        let steps = steps.iter().copied().collect();
        self.op1(
            Op::Slice {
                starts: starts.into(),
                sizes: sizes.into(),
                steps,
            },
            &[x],
        )
    }

    /// `size` elements of one axis, starting at `start`.
    ///
    /// # Errors
    /// When the axis does not exist, or an index is always out of bounds.
    pub fn slice_axis(
        &mut self,
        x: ValueId,
        axis: usize,
        start: DimId,
        size: DimId,
    ) -> Result<ValueId, InferError> {
        self.slice_one(x, axis, start, size, 1)
    }

    /// Elements of one axis from `start` to before `end`, `step` apart, as in Python and ONNX: negative positions count
    /// from the end, and positions outside are clamped.
    ///
    /// # Errors
    /// When the axis does not exist, or `step` is 0.
    pub fn slice_range(
        &mut self,
        x: ValueId,
        axis: usize,
        start: DimId,
        end: DimId,
        step: i64,
    ) -> Result<ValueId, InferError> {
        let own = self.shape(x)?;
        self.expect_axis(axis, own.len())?;
        if step == 0 || step == i64::MIN {
            let expected = "a step that is not 0".to_owned();
            return Err(self.mistake(InferErrorKind::Attribute {
                name: "steps",
                expected,
                found: step.to_string(),
            }));
        }
        let resolved = range(self.dims_mut(), own[axis], start, end, step);
        let (start, size) = self.place(resolved)?;
        self.slice_one(x, axis, start, size, step)
    }

    /// Reverses one axis.
    ///
    /// # Errors
    /// When the axis does not exist.
    pub fn reverse(&mut self, x: ValueId, axis: usize) -> Result<ValueId, InferError> {
        let own = self.shape(x)?;
        self.expect_axis(axis, own.len())?;
        let one = self.size(1);
        let last = self.dims_mut().sub(own[axis], one);
        let last = self.place(last)?;
        self.slice_one(x, axis, last, own[axis], -1)
    }

    /// Splits one axis into consecutive parts that cover it.
    ///
    /// # Errors
    /// When the axis does not exist, or the sizes never add up to its size.
    pub fn split(
        &mut self,
        x: ValueId,
        axis: usize,
        sizes: &[DimId],
    ) -> Result<Vec<ValueId>, InferError> {
        let own = self.shape(x)?;
        self.expect_axis(axis, own.len())?;
        let total = self.dims_mut().sum(sizes);
        let total = self.place(total)?;
        let what = format!("split of {}", self.describe(x));
        if !self.require(Predicate::Equal(total, own[axis]), what)? {
            return Err(self.mistake(InferErrorKind::SizeConflict {
                what: "total sizes of a split".to_owned(),
                left: self.describe(x),
                right: self.dims().display_shape(sizes).to_string(),
                expected: self.dims().display(own[axis]).to_string(),
                found: self.dims().display(total).to_string(),
            }));
        }
        let mut parts = Vec::with_capacity(sizes.len());
        let mut start = self.size(0);
        for &size in sizes {
            parts.push(self.slice_axis(x, axis, start, size)?);
            let next = self.dims_mut().add(start, size);
            start = self.place(next)?;
        }
        Ok(parts)
    }

    fn slice_one(
        &mut self,
        x: ValueId,
        axis: usize,
        start: DimId,
        size: DimId,
        step: i64,
    ) -> Result<ValueId, InferError> {
        let own = self.shape(x)?;
        self.expect_axis(axis, own.len())?;
        let zero = self.size(0);
        if start == zero && size == own[axis] && step == 1 {
            return Ok(x);
        }
        let mut starts: Dims = own.iter().map(|_| zero).collect();
        let mut sizes = own.clone();
        let mut steps: Integers = own.iter().map(|_| 1).collect();
        (starts[axis], sizes[axis], steps[axis]) = (start, size, step);
        self.slice(x, &starts, &sizes, &steps)
    }
}

/// First index and number of elements of a range over an axis of `size`. The first index is in bounds if there is any
/// element.
fn range(
    dims: &mut DimTable,
    size: DimId,
    start: DimId,
    end: DimId,
    step: i64,
) -> Result<(DimId, DimId), DimError> {
    let (zero, one) = (dims.constant(0), dims.constant(1));
    // Clamping one end of each position is enough: the other clamp only matters where the range is empty.
    let (start, distance) = if step > 0 {
        let start = position(dims, size, start, (zero, size))?;
        let start = at_least(dims, start, zero)?;
        let end = position(dims, size, end, (zero, size))?;
        let end = at_most(dims, end, size)?;
        (start, dims.sub(end, start)?)
    } else {
        // Backwards, positions range from -1, before the first, to size - 1.
        let (first, last) = (dims.constant(-1), dims.sub(size, one)?);
        let start = position(dims, size, start, (first, last))?;
        let start = at_most(dims, start, last)?;
        let end = position(dims, size, end, (first, last))?;
        let end = at_least(dims, end, first)?;
        (start, dims.sub(start, end)?)
    };
    let distance = at_least(dims, distance, zero)?;
    let stride = dims.constant(step.saturating_abs());
    Ok((start, dims.ceil_div(distance, stride)?))
}

/// Converts a position that may count from the end to one that counts from the start.
fn position(
    dims: &mut DimTable,
    size: DimId,
    position: DimId,
    (low, high): (DimId, DimId),
) -> Result<DimId, DimError> {
    match dims.as_constant(position) {
        Some(at) if at >= END => return Ok(high),
        Some(at) if at <= -END => return Ok(low),
        _ => {}
    }
    let range = dims.range(position);
    if range.min.is_some_and(|min| min >= 0) {
        return Ok(position);
    }
    if range.max.is_some_and(|max| max < 0) {
        return dims.add(position, size);
    }
    // -1 for negative positions, 0 for others, so that the size is added only to negative ones.
    let (zero, minus_one) = (dims.constant(0), dims.constant(-1));
    let sign = dims.min(position, zero)?;
    let sign = dims.max(sign, minus_one)?;
    let added = dims.mul(size, sign)?;
    dims.sub(position, added)
}

fn at_least(dims: &mut DimTable, dim: DimId, low: DimId) -> Result<DimId, DimError> {
    match dims.prove(&Predicate::LessEqual(low, dim)) {
        Proof::Proved => Ok(dim),
        _ => dims.max(dim, low),
    }
}

fn at_most(dims: &mut DimTable, dim: DimId, high: DimId) -> Result<DimId, DimError> {
    match dims.prove(&Predicate::LessEqual(dim, high)) {
        Proof::Proved => Ok(dim),
        _ => dims.min(dim, high),
    }
}
