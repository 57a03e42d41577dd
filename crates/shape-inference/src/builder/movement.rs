//! Data movement: reshapes of every kind, broadcasts, transposes, concatenation, padding.

use super::GraphBuilder;
use crate::context::InferenceContext;
use crate::error::{InferError, InferErrorKind};
use kiln_ir::{Dims, Op, PadMode, ValueId};
use kiln_symbolic_shape::{DimError, DimId, Predicate};

impl GraphBuilder {
    /// The same elements with other sizes; the operand itself if it already has these.
    ///
    /// # Errors
    /// When the number of elements never fits.
    pub fn reshape(&mut self, x: ValueId, dims: &[DimId]) -> Result<ValueId, InferError> {
        if self.shape(x)?.as_slice() == dims {
            return Ok(x);
        }
        self.op1(Op::Reshape { dims: dims.into() }, &[x])
    }

    /// A reshape in which one size may be omitted: it follows from the number of elements.
    ///
    /// # Errors
    /// When more than one size is omitted, or the number of elements never matches.
    pub fn reshape_inferring(
        &mut self,
        x: ValueId,
        dims: &[Option<DimId>],
    ) -> Result<ValueId, InferError> {
        let missing = dims.iter().filter(|dim| dim.is_none()).count();
        if missing > 1 {
            return Err(self.mistake(InferErrorKind::Attribute {
                name: "dims",
                expected: "at most one size left out".to_owned(),
                found: missing.to_string(),
            }));
        }
        let given: Vec<DimId> = dims.iter().filter_map(|&dim| dim).collect();
        let from = self.shape(x)?;
        let rest = if missing == 1 {
            self.quotient_of_products(&from, &given)?
        } else {
            self.size(1)
        };
        let dims: Dims = dims.iter().map(|dim| dim.unwrap_or(rest)).collect();
        self.reshape(x, &dims)
    }

    /// `product(from) / product(by)`, with equal factors cancelled first, so that it is correct if they are 0.
    fn quotient_of_products(&mut self, from: &[DimId], by: &[DimId]) -> Result<DimId, InferError> {
        let mut above = from.to_vec();
        let mut below = Vec::new();
        for &dim in by {
            match above.iter().position(|&other| other == dim) {
                Some(position) => {
                    above.swap_remove(position);
                }
                None => below.push(dim),
            }
        }
        let quotient = |dims: &mut kiln_symbolic_shape::DimTable| -> Result<DimId, DimError> {
            let (above, below) = (dims.product(&above)?, dims.product(&below)?);
            if dims.as_constant(below) == Some(1) {
                return Ok(above);
            }
            match dims.exact_quotient(above, below) {
                Some(quotient) => Ok(quotient),
                None => dims.floor_div(above, below),
            }
        };
        let result = quotient(self.dims_mut());
        self.place(result)
    }

    /// The operand broadcast to exactly `dims`; the operand itself if it already has these sizes.
    ///
    /// # Errors
    /// When an operand size can be neither equal nor 1.
    pub fn broadcast_to(&mut self, x: ValueId, dims: &[DimId]) -> Result<ValueId, InferError> {
        if self.shape(x)?.as_slice() == dims {
            return Ok(x);
        }
        self.op1(Op::Broadcast { dims: dims.into() }, &[x])
    }

    /// The operand broadcast with a tensor of sizes `dims`, in both directions.
    ///
    /// # Errors
    /// When the sizes never broadcast.
    pub fn expand(&mut self, x: ValueId, dims: &[DimId]) -> Result<ValueId, InferError> {
        let own = self.shape(x)?;
        let rank = own.len().max(dims.len());
        let origin = format!("expand of {}", self.describe(x));
        let mut joined = Dims::with_capacity(rank);
        for axis in 0..rank {
            let of = |dims: &[DimId]| {
                let axis = (axis + dims.len()).checked_sub(rank)?;
                dims.get(axis).copied()
            };
            joined.push(match (of(&own), of(dims)) {
                (Some(a), Some(b)) => self.joined_size(x, dims, (a, b), &origin)?,
                (Some(dim), None) | (None, Some(dim)) => dim,
                (None, None) => unreachable!("an axis below the larger rank is one side's"),
            });
        }
        self.broadcast_to(x, &joined)
    }

    fn joined_size(
        &mut self,
        x: ValueId,
        dims: &[DimId],
        (own, asked): (DimId, DimId),
        origin: &str,
    ) -> Result<DimId, InferError> {
        let mut ctx = InferenceContext::new(&mut self.graph, &mut self.state);
        let joined = ctx.join_sizes(own, asked, || origin.to_owned());
        joined.map_err(|cause| {
            self.mistake(match cause {
                DimError::Broadcast { left, right } => InferErrorKind::Broadcast {
                    left: self.describe(x),
                    right: self.dims().display_shape(dims).to_string(),
                    left_size: left,
                    right_size: right,
                },
                cause => InferErrorKind::Size(cause),
            })
        })
    }

    /// The operand repeated `repeats` times along each axis.
    ///
    /// # Errors
    /// When the number of counts differs from the number of axes.
    pub fn tile(&mut self, x: ValueId, repeats: &[DimId]) -> Result<ValueId, InferError> {
        let own = self.shape(x)?;
        self.expect_length("repeats", repeats.len(), own.len())?;
        let one = self.size(1);
        let (mut split, mut repeated, mut merged) = (Dims::new(), Dims::new(), Dims::new());
        for (&dim, &count) in own.iter().zip(repeats) {
            if count == one {
                split.push(dim);
                repeated.push(dim);
                merged.push(dim);
                continue;
            }
            split.extend([one, dim]);
            repeated.extend([count, dim]);
            let size = self.dims_mut().mul(count, dim);
            merged.push(self.place(size)?);
        }
        let split = self.reshape(x, &split)?;
        let repeated = self.broadcast_to(split, &repeated)?;
        self.reshape(repeated, &merged)
    }

    /// Removes axes of size 1.
    ///
    /// # Errors
    /// When an axis does not exist, or is never of size 1.
    pub fn squeeze(&mut self, x: ValueId, axes: &[usize]) -> Result<ValueId, InferError> {
        let own = self.shape(x)?;
        let one = self.size(1);
        for &axis in axes {
            self.expect_axis(axis, own.len())?;
            let what = format!("squeeze of {}", self.describe(x));
            if !self.require(Predicate::Equal(own[axis], one), what)? {
                return Err(self.mistake(InferErrorKind::Attribute {
                    name: "axes",
                    expected: format!("axes of size 1 of {}", self.describe(x)),
                    found: format!("axis {axis}"),
                }));
            }
        }
        let kept = own
            .iter()
            .enumerate()
            .filter(|(axis, _)| !axes.contains(axis));
        let dims: Dims = kept.map(|(_, &dim)| dim).collect();
        self.reshape(x, &dims)
    }

    /// Adds axes of size 1, so that they are at `axes` of the result.
    ///
    /// # Errors
    /// When an axis is not below the result's rank, or named twice.
    pub fn unsqueeze(&mut self, x: ValueId, axes: &[usize]) -> Result<ValueId, InferError> {
        let own = self.shape(x)?;
        let one = self.size(1);
        let rank = own.len() + axes.len();
        axes.iter()
            .try_for_each(|&axis| self.expect_axis(axis, rank))?;
        let mut own = own.into_iter();
        let added = |axis: &usize| axes.contains(axis);
        let dims: Option<Dims> = (0..rank)
            .map(|axis| if added(&axis) { Some(one) } else { own.next() })
            .collect();
        match dims {
            Some(dims) if own.next().is_none() => self.reshape(x, &dims),
            _ => Err(self.mistake(InferErrorKind::Attribute {
                name: "axes",
                expected: "each axis once".to_owned(),
                found: format!("{axes:?}"),
            })),
        }
    }

    /// Two axes: the axes before `axis` merged, and the others merged.
    ///
    /// # Errors
    /// When `axis` is above the rank.
    pub fn flatten(&mut self, x: ValueId, axis: usize) -> Result<ValueId, InferError> {
        let own = self.shape(x)?;
        self.expect_axis(axis, own.len() + 1)?;
        let (before, after) = own.split_at(axis);
        let (rows, columns) = (
            self.dims_mut().product(before),
            self.dims_mut().product(after),
        );
        let dims = [self.place(rows)?, self.place(columns)?];
        self.reshape(x, &dims)
    }

    /// Axes reordered: result axis `i` is operand axis `permutation[i]`.
    ///
    /// # Errors
    /// When `permutation` does not name each axis once.
    pub fn transpose(&mut self, x: ValueId, permutation: &[usize]) -> Result<ValueId, InferError> {
        self.op1(
            Op::Transpose {
                permutation: permutation.into(),
            },
            &[x],
        )
    }

    /// Operands one after another along `axis`; a lone operand itself.
    ///
    /// # Errors
    /// When another size is never equal.
    pub fn concat(&mut self, operands: &[ValueId], axis: usize) -> Result<ValueId, InferError> {
        if let [only] = operands {
            self.expect_axis(axis, self.rank(*only)?)?;
            return Ok(*only);
        }
        self.op1(Op::Concat { axis }, operands)
    }

    /// Stacks operands of the same shape along a new axis.
    ///
    /// # Errors
    /// When their sizes are never equal, or `axis` is above their rank.
    pub fn stack(&mut self, operands: &[ValueId], axis: usize) -> Result<ValueId, InferError> {
        let operands = operands
            .iter()
            .map(|&value| self.unsqueeze(value, &[axis]))
            .collect::<Result<Vec<_>, InferError>>()?;
        self.concat(&operands, axis)
    }

    /// A border of `low` elements before and `high` after, per axis; `value` is a scalar of the operand's dtype.
    ///
    /// # Errors
    /// When the counts do not match the axes, or a count is negative.
    pub fn pad(
        &mut self,
        x: ValueId,
        value: ValueId,
        low: &[DimId],
        high: &[DimId],
        mode: PadMode,
    ) -> Result<ValueId, InferError> {
        self.op1(
            Op::Pad {
                low: low.into(),
                high: high.into(),
                mode,
            },
            &[x, value],
        )
    }

    pub(super) fn expect_axis(&self, axis: usize, rank: usize) -> Result<(), InferError> {
        if axis < rank {
            return Ok(());
        }
        let expected = format!("an axis below {rank}");
        Err(self.mistake(InferErrorKind::Attribute {
            name: "axis",
            expected,
            found: axis.to_string(),
        }))
    }

    pub(super) fn expect_length(
        &self,
        name: &'static str,
        found: usize,
        expected: usize,
    ) -> Result<(), InferError> {
        if found == expected {
            return Ok(());
        }
        let (expected, found) = (format!("{expected} entries"), found.to_string());
        Err(self.mistake(InferErrorKind::Attribute {
            name,
            expected,
            found,
        }))
    }
}
