//! Compiled kernels as bytes: the artifact's metadata as JSON, then its code.
//!
//! ```text
//! 4 length of the metadata, little-endian; metadata: key and artifact without code; code
//! ```
//! Decoding requires the device that loads the code, but no compiler.
#![allow(unsafe_code, reason = "encoded artifacts are made and believed here")]

use std::sync::Arc;

use kiln_backend::{Artifact, ArtifactParts, KernelExecutor};
use kiln_kernel_cache::{Codec, Content, Payload};
use serde::{Deserialize, Serialize};

use super::CompiledKernel;

/// Decodes artifacts into loaded code of a device.
pub(crate) struct KernelCodec {
    pub(crate) executor: Arc<dyn KernelExecutor>,
}

#[derive(Serialize)]
struct WrittenHead<'a> {
    key: &'a str,
    artifact: &'a ArtifactParts,
}

#[derive(Deserialize)]
struct ReadHead {
    key: String,
    artifact: ArtifactParts,
}

impl Codec<CompiledKernel> for KernelCodec {
    fn encode(&self, value: &CompiledKernel) -> Result<Payload, String> {
        let mut bare = value.artifact.to_parts();
        let code = std::mem::take(&mut bare.code);
        let head = WrittenHead {
            key: &value.key,
            artifact: &bare,
        };
        let head = serde_json::to_vec(&head).map_err(|error| error.to_string())?;
        let len = u32::try_from(head.len()).map_err(|_| "the metadata is too long".to_owned())?;
        let mut bytes = Vec::with_capacity(4 + head.len() + code.len());
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(&code);
        // SAFETY: they are an artifact's, as read by `decode`.
        Ok(unsafe { Payload::code(bytes) })
    }

    fn decode(&self, content: Content<'_>) -> Result<CompiledKernel, String> {
        if !content.is_code() {
            return Err(
                "expected compiled code, found data: its store does not vouch for it".to_owned(),
            );
        }
        let bytes = content.bytes();
        let short = || "the metadata is truncated".to_owned();
        let (len, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
        let len = usize::try_from(u32::from_le_bytes(*len)).map_err(|_| short())?;
        let (head, code) = rest.split_at_checked(len).ok_or_else(short)?;
        let ReadHead { key, mut artifact } =
            serde_json::from_slice(head).map_err(|error| error.to_string())?;
        artifact.code = code.to_vec();
        // SAFETY: it is code, so it is the output of `encode` for an artifact.
        let artifact = unsafe { Artifact::trusted(artifact) };
        let loaded = self.executor.load(&artifact);
        let loaded = loaded.map_err(|error| error.to_string())?;
        Ok(CompiledKernel {
            artifact,
            loaded,
            key,
        })
    }

    fn bytes(&self, value: &CompiledKernel) -> usize {
        // The code as data and as loaded, and metadata.
        2 * value.artifact.code.len() + 2048
    }
}
