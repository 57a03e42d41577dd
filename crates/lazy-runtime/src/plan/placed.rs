//! Prepared constants, remembered by launch, so that other sizes do not request them again.
//!
//! Launch plans hold the same memories. The entries here are dropped when the plans are cleared.

use std::sync::Arc;

use kiln_backend::Memory;
use kiln_fork_lock::ForkLock;
use smallvec::SmallVec;

use crate::compile::CompiledKernel;

/// The maximum number of remembered forms of one launch's constants.
const FORMS: usize = 4;

/// The constants of a segment's launches.
#[derive(Debug, Default)]
pub(crate) struct PlacedConstants(ForkLock<Vec<Forms>>);

/// Of one launch, by code.
type Forms = SmallVec<[Arc<PlacedLaunch>; 1]>;

/// The constants of one launch of some code.
#[derive(Debug)]
pub(crate) struct PlacedLaunch {
    code: Arc<CompiledKernel>,
    /// The memory of each operand that is a constant for all sizes.
    pub(crate) memories: SmallVec<[Option<Memory>; 6]>,
}

impl PlacedLaunch {
    pub(crate) fn new(
        code: &Arc<CompiledKernel>,
        memories: impl IntoIterator<Item = Option<Memory>>,
    ) -> Self {
        Self {
            code: Arc::clone(code),
            memories: memories.into_iter().collect(),
        }
    }
}

impl PlacedConstants {
    /// The remembered constants of each launch with this code.
    pub(crate) fn all<'a>(
        &self,
        codes: impl Iterator<Item = Option<&'a Arc<CompiledKernel>>>,
    ) -> Vec<Option<Arc<PlacedLaunch>>> {
        let placed = self.0.lock();
        let known = codes.enumerate().map(|(launch, code)| {
            let mut forms = placed.get(launch)?.iter();
            let code = code?;
            forms.find(|form| Arc::ptr_eq(&form.code, code)).cloned()
        });
        known.collect()
    }

    /// Remembers the constants of a launch.
    pub(crate) fn insert(&self, launch: usize, constants: PlacedLaunch) {
        let mut placed = self.0.lock();
        if placed.len() <= launch {
            placed.resize_with(launch + 1, Forms::new);
        }
        let Some(forms) = placed.get_mut(launch) else {
            return;
        };
        if forms.len() == FORMS {
            forms.remove(0);
        }
        forms.push(Arc::new(constants));
    }

    pub(crate) fn clear(&self) {
        let placed = std::mem::take(&mut *self.0.lock());
        drop(placed);
    }
}
