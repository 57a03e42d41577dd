//! The fallback strategy, which compiles every verified kernel: one thread per point of the outer axes that may run in
//! any order; everything else is serial.

use kiln_backend::Quantity;
use kiln_kernel::AxisId;
use kiln_kernel::analysis::must_run_in_order;

use super::function::{Function, FunctionParts};
use super::items::{ArrayMemory, SerialItems, has_arrays};
use super::lowering::Lowering;
use super::scope::Scope;

/// Threads of a block.
const THREADS: u32 = 128;
/// The maximum number of blocks if threads have arrays, which take memory per thread.
const BLOCKS_WITH_ARRAYS: i64 = 64;
/// The maximum number of blocks.
const BLOCKS: i64 = 1 << 20;

/// Writes the kernel.
pub(super) fn generate(lowering: &Lowering<'_>) -> Vec<Function> {
    let kernel = lowering.kernel;
    let (serial, parallel): (Vec<AxisId>, Vec<AxisId>) = kernel
        .outer()
        .iter()
        .partition(|&&axis| must_run_in_order(kernel, axis));
    let points = super::points(kernel, &parallel);
    let arrays = has_arrays(kernel);
    let blocks = if arrays { BLOCKS_WITH_ARRAYS } else { BLOCKS };
    let width = Quantity::constant(i64::from(THREADS));
    let tasks = points
        .clone()
        .ceil_div(width.clone())
        .min(Quantity::constant(blocks));
    let threads = tasks.clone() * width;
    let function = FunctionParts::new(THREADS, tasks);
    lowering.open(format_args!(
        "for (k_i64 q = t * {THREADS} + k_thread(); q < {}; q += {})",
        lowering.quantity(&points),
        lowering.quantity(&threads)
    ));
    lowering.line("if (K_STOPPED) return;");
    let mut scope = Scope::default();
    super::split_points(lowering, &mut scope, "q", &parallel);
    for &axis in &serial {
        let extent = lowering.extent(&mut scope, axis);
        let index = lowering.fresh("a");
        lowering.open(format_args!(
            "for (k_i64 {index} = 0; {index} < {extent}; ++{index})"
        ));
        scope.set_axis(axis, index);
    }
    let memory = arrays.then(|| ArrayMemory {
        thread: format!("t * {THREADS} + k_thread()"),
        threads,
    });
    let mut items = SerialItems::new(lowering, memory);
    items.items(&mut scope, kernel.items());
    let scratch = items.scratch.clone();
    for _ in 0..=serial.len() {
        lowering.close();
    }
    vec![function.with_shared_scratch(scratch).finish(lowering)]
}
