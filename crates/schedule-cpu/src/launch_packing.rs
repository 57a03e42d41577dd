//! Operands packed at launch: the memory of their packed copies.

use kiln_backend::{PackAxis, PackSpec, Quantity};
use kiln_kernel::{BufferId, VerifiedKernel};

use crate::strides::packed_strides;

/// Alignment of a packed copy, in bytes.
const LINE: i64 = 64;

/// The packed copy of an operand.
#[derive(Clone, Debug)]
pub struct PackedCopy {
    /// Its layout: blocks of one axis innermost, or whole axes in a different order.
    pub spec: PackSpec,
    /// Its offset in the scratch that tasks share, in bytes.
    pub offset: Quantity,
}

impl PackedCopy {
    /// The operand.
    pub fn buffer(&self) -> BufferId {
        BufferId::from_u32(self.spec.buffer as u32)
    }

    /// Whether it is packed in blocks, rather than in whole axes.
    pub fn is_blocked(&self) -> bool {
        matches!(self.spec.axes.last(), Some(PackAxis::Inner { .. }))
    }
}

/// Places copies one after another; returns their total size in bytes.
pub(crate) fn place(kernel: &VerifiedKernel, specs: Vec<PackSpec>) -> (Vec<PackedCopy>, Quantity) {
    let mut end = Quantity::constant(0);
    let copies = specs
        .into_iter()
        .map(|spec| {
            let dtype = kernel.buffer(BufferId::from_u32(spec.buffer as u32)).dtype;
            let (_, elements) = packed_strides(kernel, &spec);
            let bytes = elements * Quantity::constant(dtype.size_in_bytes() as i64);
            let offset = end.clone();
            end = end.clone() + bytes.round_up(Quantity::constant(LINE));
            PackedCopy { spec, offset }
        })
        .collect();
    (copies, end)
}

/// How operands are blocked: constants, and those that are packed at launch in blocks.
pub(crate) fn with_blocked(packs: &[PackSpec], copies: &[PackedCopy]) -> Vec<PackSpec> {
    let blocked = copies.iter().filter(|copy| copy.is_blocked());
    let blocked = blocked.map(|copy| copy.spec.clone());
    packs.iter().cloned().chain(blocked).collect()
}
