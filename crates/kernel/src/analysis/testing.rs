//! Test helpers of the analyses.

use crate::form::{AxisId, NodeId};
use crate::verified::VerifiedKernel;

/// A kernel from its text.
pub(super) fn kernel(text: &str) -> VerifiedKernel {
    crate::verify(crate::text::read(text).unwrap()).unwrap()
}

/// The axis with this name.
pub(super) fn axis(kernel: &VerifiedKernel, name: &str) -> AxisId {
    let mut axes = kernel.axes().iter();
    axes.find(|(_, axis)| axis.name == name).unwrap().0
}

/// The value of the stage with this name.
pub(super) fn stage_value(kernel: &VerifiedKernel, name: &str) -> NodeId {
    let mut stages = kernel.stages().values();
    stages.find(|stage| stage.name == name).unwrap().value
}

/// The value of the first store.
pub(super) fn stored(kernel: &VerifiedKernel) -> NodeId {
    let mut items = kernel.items().iter().flat_map(crate::form::Item::parts);
    let store = items.find_map(|item| match item {
        crate::form::Item::Store(store) => Some(store.value),
        _ => None,
    });
    store.unwrap()
}
