//! Preferred layouts: contractions and windows prefer channels innermost.
//!
//! An axis that also indexes the weights is either vectorised or reduced step by step. If it is innermost, neighbouring
//! elements are used together whatever a window does with rows and columns, and image edges leave no remainder.
//!
//! A window over many channels gains enough to pay for copies of operands and results that have to stay row-major, such
//! as the inputs of a program. Kernels that fill vectors along rows do not: a product without a window, whose pixels
//! are one long axis, and a window along long rows only; the interleaved rows of a transposed convolution do not fill
//! vectors. A 3 x 3 window over 64 channels at 56 x 56 took 1.2 ms instead of 3.4 ms, since the Winograd transform
//! needs channels innermost; a window of 3 over 80 channels along rows of 3000 took 7 ms instead of 5.3 ms.

use kiln_backend::PreferredLayout;
use kiln_kernel::{Buffer, BufferId, Role, StageOperation, VerifiedKernel};

use crate::work;

/// Operations per element of an operand or result from which on a window is faster with a copy. A depthwise window of 3 x 3
/// over 96 channels at 56 x 56 takes 0.145 ms with copies and 0.152 without. At a stride of 2 from 112 x 112, where an element
/// of the operand has 2.75 operations, it takes 0.37 and 0.58.
const OPERATIONS: f64 = 2.5;

/// The number of vectors in a row from which a window that runs only along rows gains nothing.
const LONG_ROW: u32 = 8;

/// The preferred layouts.
pub(super) fn preferred(kernel: &VerifiedKernel, lanes: u32) -> Vec<PreferredLayout> {
    let of_weights = kernel.axes_of_weights();
    let mut wishes = Vec::new();
    for (position, (id, buffer)) in kernel.buffers().iter().enumerate() {
        if buffer.role == Role::Const || buffer.strides.is_some() {
            continue;
        }
        let is_channel = |place: &usize| {
            let axis = kernel.axis_at(id, *place);
            let size = buffer.shape.get(*place);
            let size = size.and_then(|&size| kernel.dims().as_constant(size));
            axis.is_some_and(|axis| of_weights.contains(&axis))
                && size.is_some_and(|size| size >= i64::from(lanes))
        };
        let channels: Vec<usize> = (0..buffer.rank()).filter(is_channel).collect();
        if let &[channel] = channels.as_slice()
            && channel + 1 < buffer.rank()
        {
            let mut order: Vec<usize> =
                (0..buffer.rank()).filter(|&axis| axis != channel).collect();
            order.push(channel);
            wishes.push(PreferredLayout {
                buffer: position,
                order,
                is_worth_copying: operations(kernel, buffer) >= OPERATIONS,
            });
        }
    }
    // If the features do not fill a vector, pixels do.
    let buffers: Vec<BufferId> = kernel.buffers().keys().collect();
    let mut wished = wishes.iter().filter_map(|wish| buffers.get(wish.buffer));
    let result = wished.find(|&&id| kernel.buffer(id).role.is_written());
    if !result.is_some_and(|&result| gains_from_channels(kernel, result, lanes)) {
        for wish in &mut wishes {
            wish.is_worth_copying = false;
        }
    }
    wishes
}

/// Whether vectors along the channels beat vectors along the rows of a row-major result.
fn gains_from_channels(kernel: &VerifiedKernel, result: BufferId, lanes: u32) -> bool {
    let contraction = kernel.classification().contractions.first();
    let operation = contraction.map(|first| &kernel.stage(first.stage).operation);
    let Some(StageOperation::Reduce { axes, .. }) = operation else {
        return false;
    };
    let shape = &kernel.buffer(result).shape;
    let row = shape.last().map_or(1.0, |&size| work::guess(kernel, size));
    let is_interleaved = kernel
        .axis_at(result, shape.len().saturating_sub(1))
        .is_none();
    match axes.len() {
        _ if is_interleaved => true,
        0 | 1 => false,
        2 => row < f64::from(LONG_ROW * lanes),
        _ => true,
    }
}

/// The kernel's operations per element of a buffer.
fn operations(kernel: &VerifiedKernel, buffer: &Buffer) -> f64 {
    let sizes = buffer.shape.iter();
    let elements: f64 = sizes.map(|&size| work::guess(kernel, size)).product();
    work::of_kernel(kernel) / elements.max(1.0)
}
