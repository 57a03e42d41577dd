//! The work of a kernel: scalar operations per outer point, as a quantity, and an estimate of the total.

use kiln_backend::Quantity;
use kiln_kernel::analysis::item_axes;
use kiln_kernel::{AxisId, VerifiedKernel};
use kiln_symbolic_shape::DimId;

use crate::strides::bound;

/// The assumed value of a size without a hint.
const GUESS: f64 = 64.0;

/// Operations per outer point: the points of the inner axes of every item.
pub(crate) fn per_point(kernel: &VerifiedKernel) -> Quantity {
    let mut work = Quantity::constant(1);
    for axes in item_axes(kernel) {
        let points = axes.iter().fold(Quantity::constant(1), |product, &axis| {
            product * bound(kernel, axis)
        });
        work = work + points;
    }
    work
}

/// The bytes of all results.
pub(crate) fn bytes_of_results(kernel: &VerifiedKernel) -> Quantity {
    let written = kernel.buffers().values();
    let bytes = written
        .filter(|buffer| buffer.role.is_written())
        .map(|buffer| {
            let size = Quantity::constant(buffer.dtype.size_in_bytes() as i64);
            let sizes = buffer.shape.iter();
            let sizes = sizes.map(|&dim| Quantity::of(kernel.dims(), dim));
            sizes.fold(size, |product, size| product * size)
        });
    bytes.fold(Quantity::constant(0), |sum, bytes| sum + bytes)
}

/// Operations of a call, with symbolic sizes replaced by their hints or a guess.
pub(crate) fn of_kernel(kernel: &VerifiedKernel) -> f64 {
    let size = |axis: AxisId| guess(kernel, kernel.axis(axis).extent.bound());
    let outer: f64 = kernel.outer().iter().map(|&axis| size(axis)).product();
    let mut inner = 1.0;
    for axes in item_axes(kernel) {
        inner += axes.iter().map(|&axis| size(axis)).product::<f64>();
    }
    outer * inner
}

/// A size, or its guess.
pub(crate) fn guess(kernel: &VerifiedKernel, size: DimId) -> f64 {
    match kernel.dims().as_constant(size) {
        Some(size) => size as f64,
        None => GUESS,
    }
}
