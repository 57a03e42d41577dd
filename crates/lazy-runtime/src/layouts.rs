//! The buffer layouts preferred by the kernels of a runtime's compiler.

use std::sync::Arc;

use kiln_backend::PreferredLayout;
use kiln_kernel::VerifiedKernel;
use kiln_program::LayoutPreferences;

use crate::runtime::Runtime;

/// Layouts as preferred by the best schedule of each kernel; row-major if nothing compiles it.
#[derive(Debug)]
pub struct PreferredLayouts(Arc<Runtime>);

impl PreferredLayouts {
    /// The layouts preferred by a runtime's compiler, for its target.
    pub fn of(runtime: Arc<Runtime>) -> Self {
        Self(runtime)
    }
}

impl LayoutPreferences for PreferredLayouts {
    fn layouts(&self, kernel: &VerifiedKernel) -> Vec<PreferredLayout> {
        let (Some(compiler), Some(target)) = (self.0.compiler(), self.0.target()) else {
            return Vec::new();
        };
        let mut candidates = compiler.schedules(kernel, target).into_iter();
        candidates.next().map_or_else(Vec::new, |best| best.layouts)
    }
}
