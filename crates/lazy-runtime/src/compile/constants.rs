//! Constants on the device: uploaded or packed once, shared between programs and variants by their digest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use kiln_ir::{Constant, Digest};
use kiln_kernel::{ExecuteError, KernelExecutor, Memory, PackAxis, PackSpec};
use kiln_tensor::{AxisSlice, Tensor, TensorError, element_count};
use smallvec::SmallVec;

use crate::error::RuntimeError;
use crate::sync::lock;

/// A constant in a form: as it is, or a part of it packed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Form {
    digest: Digest,
    packed: Option<Packed>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Packed {
    offset: usize,
    shape: SmallVec<[usize; 6]>,
    axes: Vec<PackAxis>,
}

/// Elements of a constant, one after another, in a shape of their own. Named without being looked at.
#[derive(Clone, Debug)]
pub(crate) struct ConstantPart<'a> {
    pub(crate) constant: &'a Constant,
    /// The first element.
    pub(crate) offset: usize,
    pub(crate) shape: SmallVec<[usize; 6]>,
}

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
        let form = Form {
            digest: constant.digest(),
            packed: None,
        };
        self.get(form, || Ok(executor.upload(constant.tensor())))
    }

    /// A part of a constant as a kernel wants it.
    pub(crate) fn packed(
        &self,
        executor: &dyn KernelExecutor,
        part: &ConstantPart<'_>,
        spec: &PackSpec,
    ) -> Result<Memory, RuntimeError> {
        self.get(part.form(spec), || Ok(executor.pack(&part.tensor()?, spec)))
    }

    /// Whether somebody has packed a part so, or is at it.
    pub(crate) fn has_packed(&self, part: &ConstantPart<'_>, spec: &PackSpec) -> bool {
        lock(&self.0).contains_key(&part.form(spec))
    }

    fn get(
        &self,
        form: Form,
        make: impl FnOnce() -> Result<Result<Memory, ExecuteError>, TensorError>,
    ) -> Result<Memory, RuntimeError> {
        let entry = Arc::clone(lock(&self.0).entry(form.clone()).or_default());
        let made = entry.get_or_init(|| match make() {
            Ok(made) => made.map_err(Arc::new),
            Err(error) => Err(Arc::new(ExecuteError {
                code: error.code(),
                out_of_memory: matches!(error, TensorError::Allocation { .. }),
                source: Box::new(error),
            })),
        });
        match made {
            Ok(memory) => Ok(memory.clone()),
            Err(error) => {
                // Memory may be there the next time.
                lock(&self.0).remove(&form);
                Err(RuntimeError::Execute {
                    context: "cannot place a constant".to_owned(),
                    error: Arc::clone(error),
                })
            }
        }
    }

    /// Forgets every constant.
    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }
}

impl ConstantPart<'_> {
    /// Its bytes.
    pub(crate) fn bytes(&self) -> usize {
        let dtype = self.constant.tensor().dtype();
        let elements = self.shape.iter().copied().fold(1, usize::saturating_mul);
        elements.saturating_mul(dtype.size_in_bytes())
    }

    fn form(&self, spec: &PackSpec) -> Form {
        Form {
            digest: self.constant.digest(),
            packed: Some(Packed {
                offset: self.offset,
                shape: self.shape.clone(),
                axes: spec.axes.clone(),
            }),
        }
    }

    fn tensor(&self) -> Result<Tensor, TensorError> {
        let tensor = self.constant.tensor();
        if tensor.shape() == self.shape.as_slice() && self.offset == 0 {
            return Ok(tensor.clone());
        }
        let len = element_count(tensor.dtype(), &self.shape)?;
        let flat = tensor.reshape(&[tensor.len()])?;
        let part = flat.slice(&[AxisSlice {
            axis: 0,
            start: self.offset,
            len,
            step: 1,
        }])?;
        part.reshape(&self.shape)
    }
}
