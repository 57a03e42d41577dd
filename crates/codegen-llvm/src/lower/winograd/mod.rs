//! Winograd convolution of 3 x 3 windows: F(2x2, 3x3), and F(4x4, 3x3) on request.
//!
//! Computed directly, a tile of 2 x 2 results takes 36 products per channel. From sixteen differences of the sixteen
//! elements that the four windows cover, and sixteen sums of the nine weights, it takes sixteen (Lavin, Gray: "Fast
//! algorithms for convolutional neural networks", 2015): one matrix product for each of sixteen *planes*. One phase
//! transforms the weights, the next processes the image in *strips* of such tiles.
//!
//! If an axis is not a multiple of the tile, its last tile begins earlier and stores only the remaining points.
//! Non-finite values spread no further than their windows reach, but infinities become NaNs.
//!
//! - [`Winograd`]: which kernels qualify. `strips`: sizes and memory layout. `transform`: the three transforms.
//! - `weights`: the first phase. `image`, `planes`: the second.

mod image;
mod planes;
mod strips;
mod transform;
mod weights;

use kiln_backend::{Phase, Quantity};
use kiln_kernel::VerifiedKernel;
use kiln_kernel::analysis::Dependence;
use kiln_schedule_cpu::ScheduledNest;
use kiln_schedule_cpu::winograd::Winograd;

use super::context::KernelLowering;
use super::launch::LaunchBuilder;
use crate::error::LlvmError;
use crate::module::ModuleBuilder;
use strips::Strips;

/// Transformed weights per task.
const TASK_WEIGHTS: i64 = 64;

/// Emits the functions of the phases of a kernel.
pub(super) fn emit_winograd(
    module: &ModuleBuilder<'_>,
    kernel: &VerifiedKernel,
    (nest, winograd): (&ScheduledNest, &Winograd),
    launch: &LaunchBuilder,
) -> Result<(), LlvmError> {
    let dependence = Dependence::of(kernel);
    for is_image in [false, true] {
        let entry = launch.next_entry();
        let laid_out = (nest.packs.as_slice(), nest.copies.as_slice());
        let phase = module.phase(&entry);
        let lowering = KernelLowering::new(kernel, &dependence, launch, nest, laid_out, phase);
        let strips = Strips::of(&lowering, nest, *winograd);
        let (units, per_task) = match is_image {
            true => (strips.units(), Quantity::constant(1)),
            false => (strips.n_weights(), weights_per_task(strips.n_weights())),
        };
        lowering.in_tasks(&units, &per_task, &mut |unit| match is_image {
            true => strips.image(unit),
            false => strips.weight_transform(unit),
        })?;
        lowering.emit.return_none();
        launch.phase(Phase {
            entry,
            tasks: nest.when.clone() * units.ceil_div(per_task),
            block: 1,
            scratch: lowering.scratch_bytes(),
        });
    }
    Ok(())
}

fn weights_per_task(all: Quantity) -> Quantity {
    let fair = all.ceil_div(Quantity::threads() * Quantity::constant(4));
    fair.min(Quantity::constant(TASK_WEIGHTS))
        .max(Quantity::constant(1))
}
