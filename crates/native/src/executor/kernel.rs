//! The CPU's representation of a kernel: its code, and the data against which a launch is checked.

use crate::code::LoadedCode;
use crate::error::NativeError;
use kiln_backend::{Artifact, IsaLevel};
use std::sync::Arc;

/// A loaded kernel.
#[derive(Debug)]
pub(crate) struct NativeKernel {
    /// The artifact from which it was loaded: a launch's numbers must come from this one.
    pub(crate) artifact: Artifact,
    /// Its code; entry `i` is phase `i`.
    pub(crate) code: Arc<LoadedCode>,
    /// Its buffers, in order.
    pub(crate) buffers: Vec<BufferInfo>,
}

/// What a launch must provide for a buffer.
#[derive(Debug)]
pub(crate) struct BufferInfo {
    /// Its name.
    pub(crate) name: String,
    /// The alignment of its address.
    pub(crate) alignment: usize,
    /// Whether the code writes to it.
    pub(crate) written: bool,
}

impl NativeKernel {
    /// Loads an artifact's code if this machine can run it.
    pub(crate) fn load(artifact: &Artifact) -> Result<Self, NativeError> {
        let level = artifact.target.level.parse::<IsaLevel>();
        if !level.is_ok_and(IsaLevel::runs_here) {
            return Err(NativeError::Level {
                level: artifact.target.level.clone(),
            });
        }
        if let Some(phase) = artifact.phases.iter().find(|phase| phase.block != 1) {
            return Err(NativeError::mismatch(
                format!("the threads of a task of {}", phase.entry.escape_debug()),
                1,
                phase.block,
            ));
        }
        let entries: Vec<&str> = artifact
            .phases
            .iter()
            .map(|phase| phase.entry.as_str())
            .collect();
        let buffers = artifact.buffers.iter().map(|buffer| BufferInfo {
            name: buffer.name.clone(),
            alignment: buffer.dtype.size_in_bytes(),
            written: buffer.written,
        });
        Ok(Self {
            artifact: artifact.clone(),
            code: Arc::new(LoadedCode::load(&artifact.code, &entries)?),
            buffers: buffers.collect(),
        })
    }

    /// The kernel's name.
    pub(crate) fn name(&self) -> &str {
        &self.artifact.kernel
    }

    /// The name of a buffer in messages.
    pub(crate) fn buffer_name(&self, buffer: &BufferInfo) -> String {
        format!("buffer {} of kernel {}", buffer.name, self.name())
    }

    /// Bytes of memory of the code.
    pub(crate) fn bytes(&self) -> usize {
        self.code.bytes()
    }
}
