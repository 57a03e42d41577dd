//! A tensor whose axes have unique labels, and the einsum operations on one: diagonals, sums, permutations.

use super::equation::Label;
use super::mistake;
use crate::builder::GraphBuilder;
use crate::error::{InferError, InferErrorKind};
use kiln_ir::{Dims, ValueId};
use kiln_symbolic_shape::{DimId, Predicate};
use kiln_tensor::DType;

pub(super) struct Labelled {
    pub(super) value: ValueId,
    pub(super) labels: Vec<Label>,
    dims: Dims,
}

impl Labelled {
    /// A tensor with a label for each axis.
    pub(super) fn new(
        builder: &GraphBuilder,
        value: ValueId,
        labels: Vec<Label>,
    ) -> Result<Self, InferError> {
        let dims = builder.shape(value)?;
        Ok(Self {
            value,
            labels,
            dims,
        })
    }

    /// An operand, whose term may repeat labels: axes with the same label are merged into one, the diagonal.
    pub(super) fn operand(
        builder: &mut GraphBuilder,
        mut value: ValueId,
        mut labels: Vec<Label>,
        term: &str,
    ) -> Result<Self, InferError> {
        while let Some((first, second)) = repeated(&labels) {
            require_square(builder, value, (first, second), &labels, term)?;
            value = diagonal(builder, value, (first, second))?;
            labels.remove(second);
        }
        Self::new(builder, value, labels)
    }

    pub(super) fn has(&self, label: Label) -> bool {
        self.labels.contains(&label)
    }

    /// The size of a label's axis.
    pub(super) fn size(&self, label: Label) -> Option<DimId> {
        let axis = self.labels.iter().position(|&other| other == label)?;
        self.dims.get(axis).copied()
    }

    /// The sizes of those labels that it has.
    pub(super) fn sizes(&self, labels: &[Label]) -> Vec<DimId> {
        let sizes = labels.iter().filter_map(|&label| self.size(label));
        sizes.collect()
    }

    /// Sums it over the labels that are not kept.
    pub(super) fn summed(
        self,
        builder: &mut GraphBuilder,
        is_kept: &dyn Fn(Label) -> bool,
    ) -> Result<Self, InferError> {
        let (kept, gone): (Vec<usize>, Vec<usize>) =
            (0..self.labels.len()).partition(|&axis| is_kept(self.labels[axis]));
        if gone.is_empty() {
            return Ok(self);
        }
        let value = builder.reduce_sum(self.value, &gone, false)?;
        let labels = kept.into_iter().map(|axis| self.labels[axis]).collect();
        Self::new(builder, value, labels)
    }

    /// Its axes in the order of labels, omitting those that it lacks.
    pub(super) fn in_order(
        &self,
        builder: &mut GraphBuilder,
        order: &[Label],
    ) -> Result<ValueId, InferError> {
        let axes = order
            .iter()
            .filter_map(|label| self.labels.iter().position(|other| other == label));
        let permutation: Vec<usize> = axes.collect();
        match permutation.is_sorted() {
            true => Ok(self.value),
            false => builder.transpose(self.value, &permutation),
        }
    }

    /// Its axes in the order of labels, with an axis of size 1 for each that it lacks.
    pub(super) fn aligned(
        &self,
        builder: &mut GraphBuilder,
        order: &[Label],
    ) -> Result<ValueId, InferError> {
        let value = self.in_order(builder, order)?;
        let lacked: Vec<usize> = (0..order.len())
            .filter(|&axis| !self.has(order[axis]))
            .collect();
        builder.unsqueeze(value, &lacked)
    }

    /// Reshapes it to `[batch.., product of rows, product of columns]`.
    pub(super) fn matrix(
        &self,
        builder: &mut GraphBuilder,
        batch: &[Label],
        rows: &[Label],
        columns: &[Label],
    ) -> Result<ValueId, InferError> {
        let value = self.in_order(builder, &[batch, rows, columns].concat())?;
        let mut dims = self.sizes(batch);
        for merged in [rows, columns] {
            let sizes = self.sizes(merged);
            let product = builder.dims_mut().product(&sizes);
            dims.push(builder.place(product)?);
        }
        builder.reshape(value, &dims)
    }
}

/// The first two axes with the same label.
fn repeated(labels: &[Label]) -> Option<(usize, usize)> {
    labels.iter().enumerate().find_map(|(second, label)| {
        let first = labels[..second].iter().position(|other| other == label)?;
        Some((first, second))
    })
}

/// Requires two axes with the same label to have the same size.
fn require_square(
    builder: &mut GraphBuilder,
    value: ValueId,
    (first, second): (usize, usize),
    labels: &[Label],
    term: &str,
) -> Result<(), InferError> {
    let dims = builder.shape(value)?;
    let what = format!("sizes labelled `{}` (term {term:?})", labels[first]);
    let (first, second) = (dims[first], dims[second]);
    if builder.require(Predicate::Equal(first, second), format!("einsum: {what}"))? {
        return Ok(());
    }
    Err(mistake(
        builder,
        InferErrorKind::SizeConflict {
            what,
            left: builder.describe(value),
            right: "itself".to_owned(),
            expected: builder.dims().display(first).to_string(),
            found: builder.dims().display(second).to_string(),
        },
    ))
}

/// The elements at which two axes have the same index, along the first one; the second is removed.
fn diagonal(
    builder: &mut GraphBuilder,
    value: ValueId,
    (first, second): (usize, usize),
) -> Result<ValueId, InferError> {
    let mut dims = builder.shape(value)?;
    let (dtype, size, one) = (builder.dtype(value)?, dims[first], builder.size(1));
    // In regions only the op itself checks that the sizes are equal.
    dims[second] = size;
    let square = builder.reshape(value, &dims)?;
    let mut along = |axis: usize| {
        let mut sizes = vec![one; dims.len()];
        sizes[axis] = size;
        builder.iota(DType::I64, &sizes, axis)
    };
    let (rows, columns) = (along(first)?, along(second)?);
    let is_kept = builder.equal(rows, columns)?;
    let zero = builder.scalar(dtype, 0.0)?;
    let kept = builder.select(is_kept, square, zero)?;
    builder.reduce_sum(kept, &[second], false)
}
