//! The verifier, rule by rule.

use kiln_symbolic_shape::DimTable;
use kiln_tensor::DType;

use super::*;
use crate::form::{KernelBuilder, Reduction, Role};

/// `%y[i] = sum over r of %x[i, r]`.
fn row_sum() -> KernelBuilder {
    let mut dims = DimTable::new();
    let (n, m) = (dims.symbol("N").unwrap(), dims.symbol("M").unwrap());
    let mut b = KernelBuilder::new("sum", dims);
    let x = b.buffer("x", Role::In, DType::F32, [n, m]);
    let y = b.buffer("y", Role::Out, DType::F32, [n]);
    let i = b.outer("i", n);
    let r = b.axis("r", m);
    let (at_i, at_r) = (b.index(i), b.index(r));
    let value = b.load(x, [at_i, at_r]);
    let sum = b.reduce("sum", [], Reduction::Add, [r], value);
    let total = b.local(sum, []);
    b.store([], y, [at_i], total);
    b
}

#[test]
fn a_sum_is_valid() {
    let kernel = verify(row_sum().finish().unwrap()).unwrap();
    assert_eq!(kernel.info().stores.len(), 1);
}
