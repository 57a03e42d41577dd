//! The identity of a compiler that is not part of this build, read from code that it stored in a folder.
//!
//! Keys of compiled code contain the compiler's version, so stored code is looked up under that version. Kernels that
//! are in no store fail to compile, with E0517.

use super::runtime::VERSION;
use crate::device::StoredBy;
use kiln_backend::Target;
use kiln_kernel_cache::DiskTier;
use kiln_lazy_runtime::maker_of;

/// The compiler that made the code in a folder; if there are several, the one whose code for this target was used last.
pub(super) fn stored_by(disk: Option<&DiskTier>, target: &Target) -> StoredBy {
    let entries = disk.and_then(|disk| disk.entries().ok());
    let heads = entries.into_iter().flatten();
    let mut heads = heads.filter_map(|entry| entry.head.ok());
    let version = heads.find_map(|head| maker_of(&head, target, VERSION).map(str::to_owned));
    tracing::debug!(version, "kiln.no_compiler");
    StoredBy { version }
}
