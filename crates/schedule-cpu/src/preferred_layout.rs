//! Preferred layouts: contractions and windows prefer channels innermost.
//!
//! An axis that also indexes the weights is either vectorised or reduced step by step. If it is innermost, neighbouring
//! elements are used together whatever a window does with rows and columns, and image edges leave no remainder.

use kiln_kernel::{Role, VerifiedKernel};

/// Preferences: buffers, by position, and the order of their axes, outermost first.
pub(super) fn preferred(kernel: &VerifiedKernel, lanes: u32) -> Vec<(usize, Vec<usize>)> {
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
            wishes.push((position, order));
        }
    }
    wishes
}
