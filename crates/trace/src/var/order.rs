//! Operations that depend on the order along an axis: extrema, sorting, running sums.

use super::Var;
use crate::size::Size;
use kiln_ir::{CumulateFunction, Extremum, Op};

impl Var {
    /// The position of the first maximum along an axis, which is removed, as `i64`.
    #[must_use]
    #[track_caller]
    pub fn argmax(&self, axis: i64) -> Var {
        self.arg_extremum(axis, Extremum::Max)
    }

    /// The position of the first minimum along an axis, which is removed, as `i64`.
    #[must_use]
    #[track_caller]
    pub fn argmin(&self, axis: i64) -> Var {
        self.arg_extremum(axis, Extremum::Min)
    }

    #[track_caller]
    fn arg_extremum(&self, axis: i64, extremum: Extremum) -> Var {
        self.record(|builder, x| {
            let axis = builder.axis(x, axis)?;
            builder.arg_reduce(x, extremum, axis, false)
        })
    }

    /// The `k` largest elements along an axis in descending order, and their positions as `i64`.
    #[must_use]
    #[track_caller]
    pub fn top_k(&self, k: impl Into<Size>, axis: i64) -> (Var, Var) {
        self.ordered(k.into(), axis, Extremum::Max)
    }

    /// Sorts in ascending order along an axis.
    #[must_use]
    #[track_caller]
    pub fn sort(&self, axis: i64) -> Var {
        self.ordered(self.size(axis), axis, Extremum::Min).0
    }

    /// The positions that sort an axis in ascending order, as `i64`.
    #[must_use]
    #[track_caller]
    pub fn argsort(&self, axis: i64) -> Var {
        self.ordered(self.size(axis), axis, Extremum::Min).1
    }

    /// The median along an axis, which is removed: for an even number of floats, the mean of the middle two.
    #[must_use]
    #[track_caller]
    pub fn median(&self, axis: i64) -> Var {
        let (ordered, size) = (self.sort(axis), self.size(axis));
        let low = ordered.index(axis, (&size - 1) / 2);
        (low + ordered.index(axis, size / 2)) / 2
    }

    #[track_caller]
    fn ordered(&self, k: Size, axis: i64, extremum: Extremum) -> (Var, Var) {
        let found = match (self.value, k.dim(&self.recorder)) {
            (Some(x), Some(k)) => self.recorder.record(|builder| {
                let axis = builder.axis(x, axis)?;
                builder.top_k(x, k, axis, extremum)
            }),
            _ => None,
        };
        let (values, positions) = found.unzip();
        (
            Var::new(&self.recorder, values),
            Var::new(&self.recorder, positions),
        )
    }

    /// The running sum along an axis.
    #[must_use]
    #[track_caller]
    pub fn cumsum(&self, axis: i64) -> Var {
        self.cumulate(axis, CumulateFunction::Sum)
    }

    /// The running product along an axis.
    #[must_use]
    #[track_caller]
    pub fn cumprod(&self, axis: i64) -> Var {
        self.cumulate(axis, CumulateFunction::Product)
    }

    /// The running maximum along an axis.
    #[must_use]
    #[track_caller]
    pub fn cummax(&self, axis: i64) -> Var {
        self.cumulate(axis, CumulateFunction::Max)
    }

    /// The running minimum along an axis.
    #[must_use]
    #[track_caller]
    pub fn cummin(&self, axis: i64) -> Var {
        self.cumulate(axis, CumulateFunction::Min)
    }

    #[track_caller]
    fn cumulate(&self, axis: i64, function: CumulateFunction) -> Var {
        self.record(|builder, x| {
            let op = Op::Cumulate {
                function,
                axis: builder.axis(x, axis)?,
                exclusive: false,
                reverse: false,
            };
            builder.op1(op, &[x])
        })
    }
}
