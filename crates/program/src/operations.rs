//! The number of scalar operations of a kernel at given sizes.

use kiln_kernel::{AxisId, Item, Kernel, Node, NodeId, StageOperation, VerifiedKernel};
use kiln_symbolic_shape::Binding;
use std::collections::HashSet;

/// Operations of a kernel for these values of its symbols: those of each stage's and store's expression at every point of
/// its axes. `None` for kernels with carry blocks, which are not counted.
pub fn kernel_operations(kernel: &VerifiedKernel, symbols: &[i64]) -> Option<f64> {
    let form = kernel.kernel();
    let known = form.dims().symbols().zip(symbols.iter().copied());
    let binding: Binding = known.collect();
    let points = |axes: &[AxisId]| {
        axes.iter().try_fold(1.0, |product, &axis| {
            let bound = form
                .dims()
                .evaluate(form.axis(axis).extent.bound(), &binding)
                .ok()?;
            Some(product * bound.max(0) as f64)
        })
    };
    let outer = points(form.outer())?;
    let mut total = 0.0;
    for item in form.items() {
        total += match item {
            Item::Stage(stage) => {
                let stage = form.stage(*stage);
                let own = points(&stage.axes)?;
                let (reduced, join) = match &stage.operation {
                    StageOperation::Map => (1.0, 0.0),
                    StageOperation::Reduce { axes, .. } => (points(axes)?, 1.0),
                };
                own * reduced * (count(form, stage.value) + join)
            }
            Item::Store(store) => points(&store.axes)? * count(form, store.value),
            Item::Carry(_) => return None,
        };
    }
    Some(total * outer)
}

/// The operations on values in an expression, each node once, without index arithmetic.
fn count(kernel: &Kernel, root: NodeId) -> f64 {
    let mut seen = HashSet::new();
    let mut pending = vec![root];
    let mut total = 0.0;
    while let Some(node) = pending.pop() {
        if !seen.insert(node) {
            continue;
        }
        if let Node::Apply { operands, .. } | Node::Call { operands, .. } = kernel.node(node) {
            total += 1.0;
            pending.extend(operands);
        }
    }
    total
}
