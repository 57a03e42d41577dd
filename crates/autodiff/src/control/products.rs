//! Captures of a loop that are matrices used only as factors of products, such as the weights of a recurrent layer.
//!
//! In each iteration the cotangent of such a matrix is a product of the other factor with a cotangent. These two are
//! stacked instead, and multiplied after the loop: one product over the rows of all iterations replaces a product and a
//! sum of the matrix's size in every iteration.

use super::Reversal;
use crate::Result;
use crate::adjoint::Adjoints;
use crate::copy::Copy;
use crate::emit::{flatten_batch, swap_last, zeros_like};
use crate::size_hints::{SIZE_HINT, SizeHints};
use kiln_ir::{Graph, Op, RegionId, ValueId};
use kiln_shape_inference::GraphBuilder;
use kiln_symbolic_shape::{DimId, SymbolId};

/// A capture that is only multiplied: its position, and the products.
pub(super) struct Multiplied {
    pub(super) capture: usize,
    products: Vec<Product>,
}

/// A product of which the matrix is a factor, in the source graph.
#[derive(Clone, Copy)]
struct Product {
    other: ValueId,
    result: ValueId,
    /// Whether the matrix is the right factor.
    is_right: bool,
    /// Whether the factor is the matrix's transpose.
    is_transposed: bool,
}

impl Multiplied {
    /// A capture of a region as a factor, if it is read in no other way and stacking costs no more than a sum in every
    /// iteration.
    pub(super) fn of(
        graph: &Graph,
        hints: &SizeHints<'_>,
        region: RegionId,
        (capture, matrix): (usize, ValueId),
    ) -> Option<Self> {
        let products = products_of(graph, region, matrix)?;
        let of_matrix = hints.elements(&graph.tensor_ty(matrix)?.dims);
        let mut stacked = 0_u64;
        for value in products
            .iter()
            .flat_map(|product| [product.other, product.result])
        {
            stacked = stacked.saturating_add(hints.elements(&graph.tensor_ty(value)?.dims));
        }
        // Stacked values are written once and read once; a sum is as well, after the product was written.
        let summed = of_matrix.saturating_mul(2);
        (stacked <= summed).then_some(Self { capture, products })
    }

    /// The results of the products, whose cotangents are kept.
    pub(super) fn results(&self) -> impl Iterator<Item = ValueId> {
        self.products.iter().map(|product| product.result)
    }

    /// The number of values that an iteration stacks.
    pub(super) fn n_stacks(&self) -> usize {
        2 * self.products.len()
    }
}

/// The products of a region that have a matrix as a factor, if the region does not use the matrix otherwise.
fn products_of(graph: &Graph, region: RegionId, matrix: ValueId) -> Option<Vec<Product>> {
    let inner = graph.region(region);
    let matrix_ty = graph.tensor_ty(matrix)?;
    if matrix_ty.rank() != 2 {
        return None;
    }
    let bound = inner.ops.iter().flat_map(|&op| &graph.op(op).symbols);
    let inside: Vec<SymbolId> = inner.symbols.iter().chain(bound).copied().collect();
    // The matrix, and its transposes.
    let mut forms = vec![(matrix, false)];
    let mut products = Vec::new();
    for &op in &inner.ops {
        let data = graph.op(op);
        let form_of = |value: ValueId| {
            let mut forms = forms.iter();
            forms
                .find(|(form, _)| *form == value)
                .map(|&(_, is_transposed)| is_transposed)
        };
        if data
            .operands
            .iter()
            .all(|&operand| form_of(operand).is_none())
        {
            continue;
        }
        match (&data.op, data.operands.as_slice(), data.results.as_slice()) {
            (Op::Transpose { permutation }, &[operand], &[result])
                if permutation.as_slice() == [1, 0] =>
            {
                let is_transposed = form_of(operand)?;
                forms.push((result, !is_transposed));
            }
            (Op::Matmul { .. }, &[left, right], &[result]) => {
                let factors = [(left, right, false), (right, left, true)];
                for (factor, other, is_right) in factors {
                    let Some(is_transposed) = form_of(factor) else {
                        continue;
                    };
                    let product = Product {
                        other,
                        result,
                        is_right,
                        is_transposed,
                    };
                    let values = [other, result].map(|value| graph.tensor_ty(value));
                    let [Some(other), Some(result)] = values else {
                        return None;
                    };
                    let dims: Vec<DimId> = other.dims.iter().chain(&result.dims).copied().collect();
                    let named = graph.dims().free_symbols(&dims);
                    let is_stackable = inside.iter().all(|symbol| !named.contains(symbol))
                        && (is_right || other.rank() == 2)
                        && [other.dtype, result.dtype] == [matrix_ty.dtype; 2];
                    if !is_stackable {
                        return None;
                    }
                    products.push(product);
                }
            }
            _ => return None,
        }
    }
    let leaves = |&(form, _): &(ValueId, bool)| inner.results.contains(&form);
    (!products.is_empty() && !forms.iter().any(leaves)).then_some(products)
}

impl Reversal<'_> {
    /// Splits captures that collect cotangents into matrices that are only multiplied, and all others.
    pub(super) fn split_factors(&mut self) {
        let graph = self.context.source;
        let hints = SizeHints::of(graph, SIZE_HINT);
        for capture in std::mem::take(&mut self.collecting) {
            let matrix = (capture, self.captured[capture]);
            match Multiplied::of(graph, &hints, self.region, matrix) {
                Some(multiplied) => self.multiplied.push(multiplied),
                None => self.collecting.push(capture),
            }
        }
    }

    /// The rows whose products an iteration adds to the cotangents of the matrices: two values for each product.
    pub(super) fn rows_of_products(
        &self,
        b: &mut GraphBuilder,
        copy: &Copy,
        adjoints: &Adjoints,
    ) -> Result<Vec<ValueId>> {
        let mut rows = Vec::new();
        for product in self.multiplied.iter().flat_map(|factor| &factor.products) {
            let result = copy.value(product.result);
            let cotangent = match adjoints.get(product.result) {
                Some(adjoint) => adjoint.value,
                None => zeros_like(b, result)?,
            };
            let other = copy.value(product.other);
            let (first, second) = match product.is_right {
                true => (flatten_batch(b, other)?, flatten_batch(b, cotangent)?),
                false => (swap_last(b, cotangent)?, swap_last(b, other)?),
            };
            rows.extend(match product.is_transposed {
                true => [second, first],
                false => [first, second],
            });
        }
        Ok(rows)
    }
}

/// The cotangent of a matrix from the stacks of rows, two for each product.
pub(super) fn of_matrix(b: &mut GraphBuilder, stacks: &[ValueId]) -> Result<ValueId> {
    let mut sum: Option<ValueId> = None;
    for pair in stacks.chunks_exact(2) {
        let first = flatten_batch(b, pair[0])?;
        let first = swap_last(b, first)?;
        let second = flatten_batch(b, pair[1])?;
        let product = b.matmul(first, second)?;
        sum = Some(match sum {
            Some(sum) => b.add(sum, product)?,
            None => product,
        });
    }
    match sum {
        Some(sum) => Ok(sum),
        None => unreachable!("a matrix that is multiplied has a product"),
    }
}
