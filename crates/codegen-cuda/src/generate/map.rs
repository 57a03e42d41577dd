//! Maps, and reductions over outer axes: one thread per few consecutive points of one outer axis, side by side in
//! lanes, so that a warp reads and writes whole cache lines in 16-byte accesses.

use kiln_backend::Quantity;
use kiln_kernel::AxisId;
use kiln_kernel::analysis::must_run_in_order;
use kiln_kernel::{Extent, VerifiedKernel};

use super::function::{Function, FunctionParts};
use super::items::{SerialItems, has_arrays};
use super::lowering::Lowering;
use super::plan::MapPlan;
use super::scope::{Lanes, Scope};
use crate::error::CudaError;

/// Threads of a block.
const THREADS: u32 = 256;

/// Whether the strategy applies to a kernel: independent points, no arrays, extents that do not vary along the lanes.
pub(super) fn serves(
    kernel: &VerifiedKernel,
    dependence: &kiln_kernel::analysis::Dependence,
    axis: AxisId,
) -> bool {
    let is_free = |&axis: &AxisId| !must_run_in_order(kernel, axis);
    let mut others = kernel.axes().values();
    let is_uniform = others.all(|other| match other.extent {
        Extent::Size(_) => true,
        Extent::Clamped { value, .. } => !dependence.depends(value, axis),
    });
    kernel.outer().contains(&axis)
        && kernel.outer().iter().all(is_free)
        && !has_arrays(kernel)
        && is_uniform
}

/// Writes the kernel.
pub(super) fn generate(
    lowering: &Lowering<'_>,
    plan: &MapPlan,
) -> Result<Vec<Function>, CudaError> {
    let kernel = lowering.kernel;
    let axis = AxisId::from_u32(plan.axis);
    if !kernel.axes().is_valid(axis) || !serves(kernel, lowering.dependence, axis) {
        return Err(CudaError::not_for(kernel, "a map"));
    }
    let outer = kernel.outer().iter().copied();
    let others: Vec<AxisId> = outer.filter(|&other| other != axis).collect();
    let size = super::points(kernel, &[axis]);
    let chunks = size
        .clone()
        .ceil_div(Quantity::constant(i64::from(plan.lanes)));
    let total = super::points(kernel, &others) * chunks.clone();
    let tasks = total
        .clone()
        .ceil_div(Quantity::constant(i64::from(THREADS)));
    let function = FunctionParts::new(THREADS, tasks);
    let is_aligned = match plan.lanes {
        1 => String::new(),
        lanes => lowering.alignment(axis, lanes),
    };
    lowering.line(format_args!("const k_i64 q = t * {THREADS} + k_thread();"));
    lowering.open(format_args!("if (q < {})", lowering.quantity(&total)));
    let mut scope = Scope::default();
    let chunk = if others.is_empty() {
        "q".to_owned()
    } else {
        let chunk = lowering.fresh("a");
        lowering.line(format_args!("k_i64 {chunk};"));
        let chunks = lowering.quantity(&chunks);
        let rest = lowering.declare(
            "k_i64",
            format_args!("k_split<k_index>(q, {chunks}, {chunk})"),
        );
        super::split_points(lowering, &mut scope, &rest, &others);
        chunk
    };
    if plan.lanes == 1 {
        let mut inner = scope.with_axis(axis, chunk);
        SerialItems::new(lowering, None).items(&mut inner, kernel.items());
    } else {
        let (lanes, size) = (plan.lanes, lowering.quantity(&size));
        let first = lowering.declare("k_i64", format_args!("{chunk} * {lanes}"));
        lowering.open(format_args!(
            "if ({is_aligned} && {first} + {lanes} <= {size})"
        ));
        let end = lowering_end(&first, lanes, &size);
        let lanes = Lanes {
            axis,
            count: lanes,
            is_aligned: true,
        };
        let mut inner = scope.with_lanes(lanes, first.clone());
        SerialItems::new(lowering, None).items(&mut inner, kernel.items());
        lowering.close();
        let index = lowering.fresh("a");
        lowering.open(format_args!(
            "else for (k_i64 {index} = {first}; {index} < {end}; ++{index})"
        ));
        let mut inner = scope.with_axis(axis, index);
        SerialItems::new(lowering, None).items(&mut inner, kernel.items());
        lowering.close();
    }
    lowering.close();
    Ok(vec![function.finish(lowering)])
}

/// The end of a chunk's points, in C.
fn lowering_end(first: &str, lanes: u32, size: &str) -> String {
    format!("k_min({first} + {lanes}, {size})")
}
