//! How much a kernel computes: scalar operations per outer point, as a quantity, and a guess of it all.

use kiln_backend::Quantity;
use kiln_kernel::{AxisId, Item, StageOperation, VerifiedKernel};
use kiln_symbolic_shape::DimId;

/// Sizes that nothing is known of count as this many.
const GUESS: f64 = 64.0;

/// Operations per outer point: the points of the inner axes of every item.
pub(crate) fn per_point(kernel: &VerifiedKernel) -> Quantity {
    let mut work = Quantity::constant(1);
    for_each_item(kernel, &mut |axes| {
        let points = axes.iter().fold(Quantity::constant(1), |product, &axis| {
            product * bound(kernel, axis)
        });
        work = work.clone() + points;
    });
    work
}

/// Operations of a call, sizes that are symbols counted by their hints or a guess.
pub(super) fn of_kernel(kernel: &VerifiedKernel) -> f64 {
    let size = |axis: AxisId| guess(kernel, kernel.axis(axis).extent.bound());
    let outer: f64 = kernel.outer().iter().map(|&axis| size(axis)).product();
    let mut inner = 1.0;
    for_each_item(kernel, &mut |axes| {
        inner += axes.iter().map(|&axis| size(axis)).product::<f64>();
    });
    outer * inner
}

fn guess(kernel: &VerifiedKernel, dim: DimId) -> f64 {
    match kernel.dims().as_constant(dim) {
        Some(size) => size as f64,
        None => GUESS,
    }
}

fn bound(kernel: &VerifiedKernel, axis: AxisId) -> Quantity {
    Quantity::of(kernel.dims(), kernel.axis(axis).extent.bound())
}

fn for_each_item(kernel: &VerifiedKernel, visit: &mut dyn FnMut(&[AxisId])) {
    for item in kernel.items() {
        let (items, step) = match item {
            Item::Carry(carry) => (carry.items.as_slice(), Some(carry.axis)),
            other => (std::slice::from_ref(other), None),
        };
        for item in items {
            let mut axes: Vec<AxisId> = step.into_iter().collect();
            match item {
                Item::Stage(stage) => {
                    let stage = kernel.stage(*stage);
                    axes.extend(stage.axes.iter().copied());
                    if let StageOperation::Reduce { axes: reduced, .. } = &stage.operation {
                        axes.extend(reduced.iter().copied());
                    }
                }
                Item::Store(store) => axes.extend(store.axes.iter().copied()),
                Item::Carry(_) => {}
            }
            visit(&axes);
        }
    }
}
