//! Constants on the device: uploaded or packed once, shared between programs and variants by their digest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use kiln_ir::{Constant, Digest};
use kiln_kernel::{ExecuteError, KernelExecutor, Memory, PackAxis};

use crate::error::RuntimeError;

/// A constant in a form: as it is, or packed.
type Form = (Digest, Option<Vec<PackAxis>>);

type Entry = Arc<OnceLock<Result<Memory, Arc<ExecuteError>>>>;

/// The constants of a runtime.
#[derive(Debug, Default)]
pub(crate) struct ConstantStore(Mutex<HashMap<Form, Entry>>);

impl ConstantStore {
    /// The constant's elements, row-major.
    pub(crate) fn plain(
        &self,
        executor: &dyn KernelExecutor,
        constant: &Constant,
    ) -> Result<Memory, RuntimeError> {
        self.get((constant.digest(), None), || {
            executor.upload(constant.tensor())
        })
    }

    /// The constant as a kernel wants it.
    pub(crate) fn packed(
        &self,
        executor: &dyn KernelExecutor,
        constant: &Constant,
        spec: &kiln_kernel::PackSpec,
    ) -> Result<Memory, RuntimeError> {
        let form = (constant.digest(), Some(spec.axes.clone()));
        self.get(form, || executor.pack(constant.tensor(), spec))
    }

    fn get(
        &self,
        form: Form,
        make: impl FnOnce() -> Result<Memory, ExecuteError>,
    ) -> Result<Memory, RuntimeError> {
        let entry = {
            let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(entries.entry(form.clone()).or_default())
        };
        match entry.get_or_init(|| make().map_err(Arc::new)) {
            Ok(memory) => Ok(memory.clone()),
            Err(error) => {
                let context = "cannot place a constant".to_owned();
                // Memory may be there the next time.
                let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                entries.remove(&form);
                Err(RuntimeError::Execute {
                    context,
                    error: Arc::clone(error),
                })
            }
        }
    }

    /// Forgets every constant.
    pub(crate) fn clear(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}
