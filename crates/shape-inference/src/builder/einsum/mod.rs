//! Einsum: products of tensors, summed over the labels that are not in the result.
//!
//! Operands are joined from left to right, each pair by one batched matrix product: shared labels that are needed later
//! are batch axes, other shared labels are summed, and the remaining ones are rows and columns. Labels that can be
//! summed before a product are. Invariant: a repeated label becomes one axis before anything else.

mod equation;
mod labelled;

use super::GraphBuilder;
use crate::error::{InferError, InferErrorKind};
use equation::{Equation, Label};
use kiln_ir::ValueId;
use kiln_symbolic_shape::{DimId, Proof};
use labelled::Labelled;

impl GraphBuilder {
    /// Products of operands of one dtype, summed over the labels that the result lacks: `bij,bjk->bik`.
    ///
    /// A term has a letter for each axis of its operand, and `...` for any further ones, which broadcast as elsewhere.
    /// A letter that occurs twice in one term selects the diagonal. The sizes of a letter are equal, or known to be 1
    /// and broadcast. Without `->`, the result has the axes of ellipses, then the letters that occur once, in
    /// alphabetical order. Sums of integers wrap.
    ///
    /// # Errors
    /// When the equation does not fit the operands, naming the term; when sizes of one label are never equal; when dtypes differ
    /// or have no products.
    pub fn einsum(&mut self, equation: &str, operands: &[ValueId]) -> Result<ValueId, InferError> {
        let ranks = operands.iter().map(|&operand| self.rank(operand));
        let ranks = ranks.collect::<Result<Vec<_>, _>>()?;
        let equation = Equation::parse(equation, &ranks).map_err(|kind| mistake(self, kind))?;
        self.expect_one_dtype(operands)?;
        let mut labelled = Vec::with_capacity(operands.len());
        let terms = equation.operands.into_iter().zip(&equation.terms);
        for (&operand, (labels, term)) in operands.iter().zip(terms) {
            labelled.push(Labelled::operand(self, operand, labels, term)?);
        }
        check_sizes(self, operands, &labelled, &equation.terms)?;
        let is_in_result = |label: Label| equation.result.contains(&label);
        let mut rest = labelled.into_iter();
        let Some(mut joined) = rest.next() else {
            unreachable!("every equation has a term, and every term an operand")
        };
        while let Some(next) = rest.next() {
            let later = rest.as_slice();
            let is_needed =
                |label: Label| is_in_result(label) || later.iter().any(|other| other.has(label));
            joined = join(self, joined, next, &is_needed)?;
        }
        let joined = joined.summed(self, &is_in_result)?;
        joined.in_order(self, &equation.result)
    }

    fn expect_one_dtype(&self, operands: &[ValueId]) -> Result<(), InferError> {
        let Some((&first, others)) = operands.split_first() else {
            return Ok(());
        };
        let dtype = self.dtype(first)?;
        for (index, &other) in others.iter().enumerate() {
            if self.dtype(other)? != dtype {
                return Err(mistake(
                    self,
                    InferErrorKind::Operand {
                        index: index + 1,
                        expected: format!("a tensor of {dtype}, as operand 0"),
                        found: self.describe(other),
                    },
                ));
            }
        }
        Ok(())
    }
}

/// Rejects sizes of a label that are never equal and none of which is 1. Others are left to the ops that read them.
fn check_sizes(
    builder: &GraphBuilder,
    operands: &[ValueId],
    labelled: &[Labelled],
    terms: &[String],
) -> Result<(), InferError> {
    for (right, operand) in labelled.iter().enumerate() {
        for &label in &operand.labels {
            let Some(found) = operand.size(label) else {
                continue;
            };
            let before = labelled[..right].iter().enumerate();
            for (left, expected) in before.filter_map(|(at, other)| Some((at, other.size(label)?)))
            {
                let is_unit = is_one(builder, expected) || is_one(builder, found);
                if is_unit || builder.dims().equal(expected, found) != Proof::Disproved {
                    continue;
                }
                let (first, second) = (&terms[left], &terms[right]);
                return Err(mistake(
                    builder,
                    InferErrorKind::SizeConflict {
                        what: format!("sizes labelled `{label}` (terms {first:?} and {second:?})"),
                        left: builder.describe(operands[left]),
                        right: builder.describe(operands[right]),
                        expected: builder.dims().display(expected).to_string(),
                        found: builder.dims().display(found).to_string(),
                    },
                ));
            }
        }
    }
    Ok(())
}

/// The product of two operands, summed over the labels that are not needed.
fn join(
    builder: &mut GraphBuilder,
    left: Labelled,
    right: Labelled,
    is_needed: &dyn Fn(Label) -> bool,
) -> Result<Labelled, InferError> {
    // A label that only one side has, or for which only one side has size 1, is summed separately.
    let is_contracted = |label: Label| match (left.size(label), right.size(label)) {
        (Some(a), Some(b)) => !is_needed(label) && is_one(builder, a) == is_one(builder, b),
        _ => false,
    };
    let labels = left.labels.iter().copied();
    let contracted: Vec<Label> = labels.filter(|&label| is_contracted(label)).collect();
    let is_kept = |label: Label| is_needed(label) || contracted.contains(&label);
    let left = left.summed(builder, &is_kept)?;
    let right = right.summed(builder, &is_kept)?;
    match contracted.is_empty() {
        true => multiply(builder, &left, &right),
        false => contract(builder, &left, &right, &contracted),
    }
}

/// The matrix product over some labels that both have.
fn contract(
    builder: &mut GraphBuilder,
    left: &Labelled,
    right: &Labelled,
    contracted: &[Label],
) -> Result<Labelled, InferError> {
    let kept = left.labels.iter().copied();
    let kept = kept.filter(|label| !contracted.contains(label));
    let (batch, rows): (Vec<Label>, Vec<Label>) = kept.partition(|&label| right.has(label));
    let columns = right.labels.iter().copied();
    let columns: Vec<Label> = columns.filter(|&label| !left.has(label)).collect();
    let a = left.matrix(builder, &batch, &rows, contracted)?;
    let b = right.matrix(builder, &batch, contracted, &columns)?;
    let product = builder.matmul(a, b)?;
    // Sums of narrow integers are wider.
    let dtype = builder.dtype(left.value)?;
    let product = builder.cast(product, dtype)?;
    // Sizes of batch axes may have been broadcast.
    let mut dims = builder.shape(product)?;
    dims.truncate(batch.len());
    dims.extend(left.sizes(&rows));
    dims.extend(right.sizes(&columns));
    let product = builder.reshape(product, &dims)?;
    Labelled::new(builder, product, [batch, rows, columns].concat())
}

/// The product element by element.
fn multiply(
    builder: &mut GraphBuilder,
    left: &Labelled,
    right: &Labelled,
) -> Result<Labelled, InferError> {
    let others = right.labels.iter().copied();
    let others: Vec<Label> = others.filter(|&label| !left.has(label)).collect();
    let labels = [left.labels.as_slice(), &others].concat();
    let a = left.aligned(builder, &labels)?;
    let b = right.aligned(builder, &labels)?;
    let product = builder.mul(a, b)?;
    Labelled::new(builder, product, labels)
}

fn mistake(builder: &GraphBuilder, kind: InferErrorKind) -> InferError {
    builder.mistake_of("einsum", kind)
}

fn is_one(builder: &GraphBuilder, size: DimId) -> bool {
    builder.dims().as_constant(size) == Some(1)
}
