//! Variables created from sizes and numbers, in the recording and with the element type of another variable.

use super::{Operand, Var};
use crate::size::Size;
use kiln_tensor::DType;

impl Var {
    /// The sizes of all axes; none after a mistake, where [`size`](Self::size) still returns one.
    #[must_use]
    #[track_caller]
    pub fn shape(&self) -> Vec<Size> {
        let mut sizes = Vec::with_capacity(self.rank());
        for axis in 0..self.rank() {
            sizes.push(self.size(i64::try_from(axis).unwrap_or(i64::MAX)));
        }
        sizes
    }

    /// A tensor filled with a number, in this variable's element type.
    #[must_use]
    #[track_caller]
    pub fn full<S: Into<Size>>(
        &self,
        sizes: impl IntoIterator<Item = S>,
        number: impl Operand,
    ) -> Var {
        number.into_variable(self).broadcast_to(sizes)
    }

    /// A tensor filled with a number, with this variable's sizes and element type.
    #[must_use]
    #[track_caller]
    pub fn full_like(&self, number: impl Operand) -> Var {
        self.full(self.shape(), number)
    }

    /// `count` numbers from `first` to `last`, both included, in this variable's element type.
    #[must_use]
    #[track_caller]
    pub fn linspace(&self, first: f64, last: f64, count: impl Into<Size>) -> Var {
        let count = count.into();
        let Some(dtype) = self.dtype() else {
            return Var::new(&self.recorder, None);
        };
        let steps = (count.clone() - 1).into_variable(self);
        let positions = self.positions(count).cast(dtype);
        // A single number has no step.
        positions / steps.maximum(1) * (last - first) + first
    }

    /// The identity matrix, `[size, size]`, in this variable's element type.
    #[must_use]
    #[track_caller]
    pub fn eye(&self, size: impl Into<Size>) -> Var {
        let Some(dtype) = self.dtype() else {
            return Var::new(&self.recorder, None);
        };
        let positions = self.positions(size);
        positions.unsqueeze(1).equal(positions).cast(dtype)
    }

    /// The matrices of the last two axes with zeros above their diagonal number `diagonal`: 0 is the main one, 1 the one
    /// above it.
    #[must_use]
    #[track_caller]
    pub fn tril(&self, diagonal: i64) -> Var {
        let (rows, columns) = self.matrix_positions();
        let keeps = columns.less_equal(rows + diagonal);
        keeps.select(self, self.number_like(0))
    }

    /// The matrices of the last two axes with zeros below their diagonal number `diagonal`.
    #[must_use]
    #[track_caller]
    pub fn triu(&self, diagonal: i64) -> Var {
        let (rows, columns) = self.matrix_positions();
        let keeps = columns.greater_equal(rows + diagonal);
        keeps.select(self, self.number_like(0))
    }

    /// One-hot encoding: each integer becomes a vector of `classes` elements of a dtype, 1 at the integer and 0
    /// elsewhere. An integer that is not a class gives zeros.
    #[must_use]
    #[track_caller]
    pub fn one_hot(&self, classes: impl Into<Size>, dtype: DType) -> Var {
        let positions = self.positions(classes);
        let integers = self.cast(DType::I64).unsqueeze(-1);
        integers.equal(positions).cast(dtype)
    }

    /// The row numbers, as a column, and the column numbers of the last two axes.
    #[track_caller]
    fn matrix_positions(&self) -> (Var, Var) {
        let (rows, columns) = (self.size(-2), self.size(-1));
        (self.positions(rows).unsqueeze(1), self.positions(columns))
    }

    #[track_caller]
    fn number_like(&self, number: i64) -> Var {
        number.into_variable(self)
    }
}
