//! The memory of the call, from its plan.

use super::{MemoryValue, ReportedMemory};
use crate::diagnose::CallMemory;

pub(super) fn of(memory: CallMemory) -> ReportedMemory {
    let last = memory.values.iter().map(|value| value.to).max();
    let values = memory.values.into_iter().map(|value| MemoryValue {
        name: value.name,
        bytes: value.bytes,
        offset: value.offset,
        from: value.from,
        to: value.to,
    });
    ReportedMemory {
        arena: memory.arena,
        results: memory.results,
        scratch: memory.scratch,
        largest_live_set: memory.largest_live_set,
        largest_at: memory.largest_at,
        n_steps: last.map_or(0, |last| last + 1),
        values: values.collect(),
    }
}
