//! Non-temporal stores: for results that may exceed the caches, in kernels bound by their stores.

use kiln_backend::IsaLevel;
use kiln_kernel::{AxisId, Item, Store, VerifiedKernel};
use kiln_tensor::DType;

use crate::layout::Layout;
use crate::value_cost::is_plain;

/// Whether vectors along an axis of some stores can be non-temporal: consecutive floats that are only written.
pub(crate) fn can_be_non_temporal(
    kernel: &VerifiedKernel,
    level: IsaLevel,
    layout: &Layout<'_>,
    stores: &[&Store],
    axis: AxisId,
) -> bool {
    let is_suited = |store: &&Store| {
        let dtype = kernel.buffer(store.buffer).dtype;
        let step = layout.store_movement(store, axis);
        step.and_then(|step| step.as_constant()) == Some(1)
            && matches!(dtype, DType::F32 | DType::F64)
            && store.combine.is_none()
    };
    level.has_streaming_stores() && !stores.is_empty() && stores.iter().all(is_suited)
}

/// The stores of a kernel that only writes plain values, and only along outer axes. Reductions and expensive maps are
/// not bound by their stores.
pub fn plain_stores(kernel: &VerifiedKernel) -> Vec<&Store> {
    let mut stores = Vec::new();
    for item in kernel.items() {
        match item {
            Item::Store(store)
                if store.axes.is_empty()
                    && store.combine.is_none()
                    && is_plain(kernel, store.value) =>
            {
                stores.push(store);
            }
            _ => return Vec::new(),
        }
    }
    stores
}
