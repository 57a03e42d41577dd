//! A kernel that the verifier accepted, with the results of the analysis. Backends accept only this type.

use std::sync::Arc;

use cranelift_entity::SecondaryMap;

use crate::classify::Classification;
use crate::form::{AxisId, Kernel, NodeId};

/// How an index stays within its buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IndexClass {
    /// Proved in bounds whenever the access is performed.
    Proved,
    /// In bounds because the load's `inside` tests it.
    Inside,
    /// Not proved: generated code tests it, and an index out of bounds is a fault.
    #[default]
    Checked,
}

/// Properties of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreInfo {
    /// The class of each index.
    pub indices: Vec<IndexClass>,
    /// The outer axes that must run in order, because two of their points may write the same element.
    pub serial: Vec<AxisId>,
}

/// The verifier's results for a kernel.
#[derive(Clone, Debug, Default)]
pub struct KernelInfo {
    /// Per node that is a load: the class of each index.
    pub loads: SecondaryMap<NodeId, Vec<IndexClass>>,
    /// Per store, in the order of the items (a block's inside it).
    pub stores: Vec<StoreInfo>,
}

/// A verified, classified kernel; cheap to clone.
///
/// It may have a display name in addition to its own: canonical kernels all have the same name, but readers of errors,
/// records and crash reports know the names of the model. The display name is not part of any text or key.
#[derive(Clone, Debug)]
pub struct VerifiedKernel {
    inner: Arc<Inner>,
    label: Option<Arc<str>>,
}

#[derive(Debug)]
struct Inner {
    kernel: Kernel,
    info: KernelInfo,
    classification: Classification,
}

impl VerifiedKernel {
    pub(crate) fn new(kernel: Kernel, info: KernelInfo, classification: Classification) -> Self {
        Self {
            inner: Arc::new(Inner {
                kernel,
                info,
                classification,
            }),
            label: None,
        }
    }

    /// The same kernel with a display name.
    #[must_use]
    pub fn labelled(&self, label: impl Into<Arc<str>>) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            label: Some(label.into()),
        }
    }

    /// The display name: the label, or otherwise the kernel's own name, which is the one in its text.
    pub fn name(&self) -> &str {
        match &self.label {
            Some(label) => label,
            None => self.inner.kernel.name(),
        }
    }

    /// The kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.inner.kernel
    }

    /// The verifier's results.
    pub fn info(&self) -> &KernelInfo {
        &self.inner.info
    }

    /// Its class and the roles of its axes.
    pub fn classification(&self) -> &Classification {
        &self.inner.classification
    }
}

impl std::ops::Deref for VerifiedKernel {
    type Target = Kernel;

    fn deref(&self) -> &Kernel {
        self.kernel()
    }
}

#[cfg(test)]
mod tests {
    use crate::text;

    #[test]
    fn labels_do_not_affect_equality() {
        let source = "kernel @kernel(%x: in f32[4], %y: out f32[4]) {
          outer i < 4
          store %y[i] = %x[i]
        }";
        let kernel = crate::verify(text::read(source).unwrap()).unwrap();
        let labelled = kernel.labelled("copy");
        assert_eq!((kernel.name(), labelled.name()), ("kernel", "copy"));
        assert_eq!(labelled.clone().name(), "copy");
        assert_eq!(text::print(labelled.kernel()), text::print(kernel.kernel()));
    }
}
