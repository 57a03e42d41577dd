//! Compiled kernels as bytes: the artifact's metadata as JSON, then its code.
//!
//! ```text
//! 4 length of the metadata, little-endian; metadata: key and artifact without code; code
//! ```
//! Reading one needs the device that loads it, and no compiler.

use kiln_fork_lock::ForkCell;
use std::sync::Arc;

use kiln_backend::{Artifact, KernelExecutor};
use kiln_kernel_cache::Codec;
use serde::{Deserialize, Serialize};

use super::CompiledKernel;

/// Turns artifacts into code of a device.
pub(crate) struct KernelCodec {
    pub(crate) executor: Arc<dyn KernelExecutor>,
}

#[derive(Serialize)]
struct WrittenHead<'a> {
    key: &'a str,
    artifact: &'a Artifact,
}

#[derive(Deserialize)]
struct ReadHead {
    key: String,
    artifact: Artifact,
}

impl Codec<CompiledKernel> for KernelCodec {
    fn encode(&self, value: &CompiledKernel) -> Result<Vec<u8>, String> {
        let mut bare = value.artifact.clone();
        let code = std::mem::take(&mut bare.code);
        let head = WrittenHead {
            key: &value.key,
            artifact: &bare,
        };
        let head = serde_json::to_vec(&head).map_err(|error| error.to_string())?;
        let len = u32::try_from(head.len()).map_err(|_| "the metadata are too long".to_owned())?;
        let mut bytes = Vec::with_capacity(4 + head.len() + code.len());
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(&code);
        Ok(bytes)
    }

    fn decode(&self, bytes: &[u8]) -> Result<CompiledKernel, String> {
        let short = || "the metadata are cut short".to_owned();
        let (len, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
        let len = usize::try_from(u32::from_le_bytes(*len)).map_err(|_| short())?;
        let (head, code) = rest.split_at_checked(len).ok_or_else(short)?;
        let ReadHead { key, mut artifact } =
            serde_json::from_slice(head).map_err(|error| error.to_string())?;
        artifact.code = code.to_vec();
        let loaded = self.executor.load(&artifact);
        let loaded = loaded.map_err(|error| error.to_string())?;
        Ok(CompiledKernel {
            artifact,
            loaded,
            key,
            quantities: ForkCell::new(),
        })
    }

    fn bytes(&self, value: &CompiledKernel) -> usize {
        // The code as data and as loaded, and metadata.
        2 * value.artifact.code.len() + 2048
    }
}
