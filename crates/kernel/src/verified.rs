//! A kernel that the verifier accepted, with what it found out. Backends take nothing else.

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
    /// Not proved: generated code tests it, and an index outside is a fault.
    #[default]
    Checked,
}

/// Where a store may run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreInfo {
    /// The class of each index.
    pub indices: Vec<IndexClass>,
    /// The outer axes that must run in order, one after the other, because two of their points may hit one element.
    pub serial: Vec<AxisId>,
}

/// What the verifier found out about a kernel.
#[derive(Clone, Debug, Default)]
pub struct KernelInfo {
    /// Per node that is a load: the class of each index.
    pub loads: SecondaryMap<NodeId, Vec<IndexClass>>,
    /// Per store, in the order of the items (a block's inside it).
    pub stores: Vec<StoreInfo>,
}

/// A verified, classified kernel; cheap to clone.
#[derive(Clone, Debug)]
pub struct VerifiedKernel(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    kernel: Kernel,
    info: KernelInfo,
    classification: Classification,
}

impl VerifiedKernel {
    pub(crate) fn new(kernel: Kernel, info: KernelInfo, classification: Classification) -> Self {
        Self(Arc::new(Inner {
            kernel,
            info,
            classification,
        }))
    }

    /// The kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.0.kernel
    }

    /// What the verifier found out.
    pub fn info(&self) -> &KernelInfo {
        &self.0.info
    }

    /// Its class and the roles of its axes.
    pub fn classification(&self) -> &Classification {
        &self.0.classification
    }
}

impl std::ops::Deref for VerifiedKernel {
    type Target = Kernel;

    fn deref(&self) -> &Kernel {
        self.kernel()
    }
}
