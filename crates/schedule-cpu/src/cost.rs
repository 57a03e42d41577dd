//! The stride of each access along an axis, and its cost.

use kiln_backend::Quantity;
use kiln_kernel::analysis::{self, Dependence};
use kiln_kernel::{Axes, AxisId, NodeId, VerifiedKernel};

use crate::packing::{self, SCATTERED_ROWS};
use crate::strides::buffer_strides;

/// The cost per element of a gather at a constant stride, in loads.
const GATHER: f64 = 1.5;
/// The cost of a gather at a non-constant stride, in a product.
const SCATTERED: f64 = 3.0;

/// One load or store of a kernel, as far as the choice of a tile depends on it.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// Its stride, per axis of the kernel; `None` if it is not constant.
    steps: Vec<(AxisId, Option<Quantity>)>,
    /// Its depth in nested inner loops.
    pub(crate) depth: u32,
    /// Whether it belongs to a stage that all rows of a tile compute together: a contraction, or a stage without axes of
    /// its own.
    pub(crate) is_together: bool,
    /// Whether it is a store.
    pub(crate) is_store: bool,
    /// The inner axes of its item.
    pub(crate) axes: Axes,
}

impl Access {
    /// Its stride along an axis: 0 if it does not depend on it.
    pub(crate) fn step(&self, axis: AxisId) -> Option<Quantity> {
        match self.steps.iter().find(|(other, _)| *other == axis) {
            Some((_, step)) => step.clone(),
            None => Some(Quantity::constant(0)),
        }
    }

    pub(crate) fn depends(&self, axis: AxisId) -> bool {
        self.steps.iter().any(|(other, _)| *other == axis)
    }

    /// The cost per element of access along an axis in vectors of `lanes`. In a product, elements loaded at a stride
    /// are loaded again for every sum, so small strides are as bad as gathers.
    pub(crate) fn cost_along(&self, axis: AxisId, lanes: u32, is_product: bool) -> f64 {
        match self.step(axis).map(|step| step.as_constant()) {
            Some(Some(0 | 1)) => 1.0 / f64::from(lanes),
            // Every other element: two vectors and a shuffle.
            Some(Some(2)) => 4.0 / f64::from(lanes),
            None if is_product => SCATTERED,
            Some(_) if is_product => GATHER,
            // The same number of vectors, and nearly as many shuffles.
            Some(Some(step @ 3..=8)) => (2.0 * step as f64 / f64::from(lanes)).min(GATHER),
            _ => GATHER,
        }
    }

    /// Its weight: accesses inside a reduction run more often.
    pub(crate) fn weight(&self) -> f64 {
        f64::from(8_u32.saturating_pow(self.depth.min(3)))
    }
}

/// Every access of a kernel.
pub(crate) fn accesses(kernel: &VerifiedKernel, dependence: &Dependence) -> Vec<Access> {
    let all = analysis::accesses(kernel).into_iter();
    all.map(|access| moving(kernel, dependence, access))
        .collect()
}

fn moving(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    access: analysis::Access<'_>,
) -> Access {
    let strides = buffer_strides(kernel, access.buffer);
    let mut steps = steps(kernel, dependence, access.indices, &strides);
    if let Some(load) = access.load {
        for (axis, step) in &mut steps {
            // Vectors along an outer axis read a packable operand contiguously.
            if kernel.outer().contains(axis)
                && (packing::is_packable(kernel, access.buffer, *axis)
                    || (packing::is_copyable(kernel, access.buffer, *axis)
                        && is_read_often(kernel, dependence, load)))
            {
                *step = Some(Quantity::constant(1));
            }
        }
    }
    let is_together = access.stage.is_some_and(|stage| {
        let mut contractions = kernel.classification().contractions.iter();
        let is_contraction = contractions.any(|contraction| contraction.stage == stage);
        kernel.stage(stage).axes.is_empty() || is_contraction
    });
    Access {
        steps,
        depth: access.depth,
        is_together,
        is_store: access.load.is_none(),
        axes: access.axes,
    }
}

/// Whether enough points read the same elements for packing to pay.
fn is_read_often(kernel: &VerifiedKernel, dependence: &Dependence, load: NodeId) -> bool {
    let mut readers = 1_i64;
    for &axis in kernel.outer() {
        if dependence.depends(load, axis) {
            continue;
        }
        let Some(size) = kernel.dims().as_constant(kernel.axis(axis).extent.bound()) else {
            return true;
        };
        readers = readers.saturating_mul(size);
    }
    readers >= i64::from(SCATTERED_ROWS)
}

fn steps(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    indices: &[NodeId],
    strides: &[Quantity],
) -> Vec<(AxisId, Option<Quantity>)> {
    let depends = |axis: AxisId| indices.iter().any(|&index| dependence.depends(index, axis));
    kernel
        .axes()
        .keys()
        .filter(|&axis| depends(axis))
        .map(|axis| {
            let step = movement(kernel, dependence, (indices, strides), axis);
            (axis, step)
        })
        .collect()
}

/// The stride of an access from one index of an axis to the next, if it is constant.
pub(crate) fn movement(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    (indices, strides): (&[NodeId], &[Quantity]),
    axis: AxisId,
) -> Option<Quantity> {
    let mut sum = Quantity::constant(0);
    for (&index, stride) in indices.iter().zip(strides) {
        let step = dependence.step_along(kernel, index, axis)?;
        sum = sum + stride.clone() * Quantity::constant(step);
    }
    Some(sum)
}

/// An estimate of the time of a call at the kernel's hints, from its work.
pub(crate) fn nanoseconds(kernel: &VerifiedKernel, scalar: bool) -> f64 {
    let work = crate::work::of_kernel(kernel);
    if scalar { work } else { work / 8.0 }
}
