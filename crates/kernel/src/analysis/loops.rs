//! The loops of a kernel: the axes of each item, and which outer axes run in order.

use kiln_symbolic_shape::Predicate;

use crate::form::{Axes, AxisId, Extent, Item, Kernel, Stage, StageOperation};
use crate::verified::VerifiedKernel;

/// The axes over which each stage and store runs inside the outer ones, outermost first: the step of its carry block,
/// its own axes, then the reduced ones.
pub fn item_axes(kernel: &Kernel) -> Vec<Axes> {
    let mut all = Vec::new();
    for item in kernel.items() {
        let step = match item {
            Item::Carry(carry) => Some(carry.axis),
            _ => None,
        };
        for part in item.parts() {
            let mut axes: Axes = step.into_iter().collect();
            match part {
                Item::Stage(stage) => {
                    let stage = kernel.stage(*stage);
                    axes.extend(stage.axes.iter().copied());
                    axes.extend(reduced_axes(stage).iter().copied());
                }
                Item::Store(store) => axes.extend(store.axes.iter().copied()),
                Item::Carry(_) => {}
            }
            all.push(axes);
        }
    }
    all
}

/// The axes that a stage reduces.
pub(crate) fn reduced_axes(stage: &Stage) -> &[AxisId] {
    match &stage.operation {
        StageOperation::Map => &[],
        StageOperation::Reduce { axes, .. } => axes,
    }
}

/// Whether the extent of an axis is proved to be a multiple of this number, at every size.
pub fn is_multiple(kernel: &Kernel, axis: AxisId, of: u32) -> bool {
    let Extent::Size(dim) = kernel.axis(axis).extent else {
        return false;
    };
    let divisor = i64::from(of);
    let divides = Predicate::Divides { divisor, dim };
    kernel.dims().prove(&divides).is_proved()
}

/// Whether the points of an outer axis must run in order, because two of them may write one element.
pub fn must_run_in_order(kernel: &VerifiedKernel, axis: AxisId) -> bool {
    let mut stores = kernel.info().stores.iter();
    stores.any(|store| store.serial.contains(&axis))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{axis, kernel};
    use super::*;

    #[test]
    fn items_of_a_carry_block_run_at_each_step() {
        let kernel = kernel(
            "kernel @scan(%x: in f32[B, T, N], %y: out f32[B, T]) {
               outer b < B
               m = reduce max[k < N] %x[b, 0, k]
               carry t < T {
                 s = reduce add[r < N] %x[b, t, r]
                 a init 0.0 = prev(a) + s * m
                 store %y[b, t] = a
               }
             }",
        );
        let found = item_axes(&kernel);
        let names = found.iter().map(|axes| {
            let names = axes.iter().map(|&axis| kernel.axis(axis).name.as_str());
            names.collect::<Vec<_>>()
        });
        let expected: [&[&str]; 4] = [&["k"], &["t", "r"], &["t"], &["t"]];
        assert!(names.eq(expected));
    }

    #[test]
    fn multiples_are_proved_for_every_size() {
        let kernel = kernel(
            "kernel @k(%x: in f32[8 * N, M], %y: out f32[8 * N, M]) {
               outer i < 8 * N, j < M
               store %y[i, j] = %x[i, j]
             }",
        );
        let of = |name, of| is_multiple(&kernel, axis(&kernel, name), of);
        assert_eq!([of("i", 4), of("i", 16), of("j", 2)], [true, false, false]);
    }

    #[test]
    fn points_that_may_write_one_element_run_in_order() {
        let kernel = kernel(
            "kernel @scatter(%n: in i64[K], %x: in f32[K, D], %z: inout f32[N, D]) {
               outer k < K, d < D
               store add %z[%n[k], d] = %x[k, d]
             }",
        );
        let is_serial = |name| must_run_in_order(&kernel, axis(&kernel, name));
        assert_eq!(["k", "d"].map(is_serial), [true, false]);
    }
}
