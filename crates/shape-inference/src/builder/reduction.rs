//! Reductions and running reductions.

use super::GraphBuilder;
use crate::error::InferError;
use kiln_ir::{CumulateFunction, Extremum, Indices, Op, ReduceFunction, ValueId};

impl GraphBuilder {
    /// A reduction over `axes`, in any order; an empty list reduces nothing.
    ///
    /// # Errors
    /// When an axis does not exist, or is named twice.
    pub fn reduce(
        &mut self,
        x: ValueId,
        function: ReduceFunction,
        axes: &[usize],
        keep_dims: bool,
    ) -> Result<ValueId, InferError> {
        let mut axes: Indices = axes.into();
        axes.sort_unstable();
        self.op1(
            Op::Reduce {
                function,
                axes,
                keep_dims,
            },
            &[x],
        )
    }

    /// The sum over `axes`.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn reduce_sum(
        &mut self,
        x: ValueId,
        axes: &[usize],
        keep_dims: bool,
    ) -> Result<ValueId, InferError> {
        self.reduce(x, ReduceFunction::Sum, axes, keep_dims)
    }

    /// The mean over `axes`.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn reduce_mean(
        &mut self,
        x: ValueId,
        axes: &[usize],
        keep_dims: bool,
    ) -> Result<ValueId, InferError> {
        self.reduce(x, ReduceFunction::Mean, axes, keep_dims)
    }

    /// The maximum over `axes`.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    pub fn reduce_max(
        &mut self,
        x: ValueId,
        axes: &[usize],
        keep_dims: bool,
    ) -> Result<ValueId, InferError> {
        self.reduce(x, ReduceFunction::Max, axes, keep_dims)
    }

    /// The index of the maximum or minimum along `axis`; the first of equal elements.
    ///
    /// # Errors
    /// When the axis does not exist.
    pub fn arg_reduce(
        &mut self,
        x: ValueId,
        extremum: Extremum,
        axis: usize,
        keep_dims: bool,
    ) -> Result<ValueId, InferError> {
        self.op1(
            Op::ArgReduce {
                extremum,
                axis,
                keep_dims,
                last: false,
            },
            &[x],
        )
    }

    /// The running sum along `axis`.
    ///
    /// # Errors
    /// When the axis does not exist.
    pub fn cumulative_sum(&mut self, x: ValueId, axis: usize) -> Result<ValueId, InferError> {
        let function = CumulateFunction::Sum;
        self.op1(
            Op::Cumulate {
                function,
                axis,
                exclusive: false,
                reverse: false,
            },
            &[x],
        )
    }
}
