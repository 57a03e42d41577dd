//! The files of a model, kept open: elements of constants are read on demand.
//!
//! Invariant: the bytes read are those that the model was loaded from. If a file may have changed since, their digest
//! is checked.

use kiln_ir::{Constant, Digest};
use kiln_onnx::{DataFile, FileIdentity, Location, TensorPlace};
use kiln_tensor::{DType, Tensor, TensorError};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A model's own file and those beside it.
pub(crate) struct OpenedFiles {
    own: OpenedFile,
    beside: BTreeMap<Location, OpenedFile>,
}

/// An open file, with the identity it had when the model was made from it.
pub(super) struct OpenedFile {
    pub(super) file: Box<dyn DataFile>,
    pub(super) identity: FileIdentity,
}

/// The model's own file, named by the caller.
pub(super) struct ModelFile {
    pub(super) file: File,
    pub(super) bytes: u64,
}

impl DataFile for ModelFile {
    fn size(&self) -> u64 {
        self.bytes
    }

    fn identity(&self) -> Option<FileIdentity> {
        FileIdentity::of(&self.file).ok()
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(target, offset)
    }
}

impl OpenedFiles {
    pub(super) fn new(
        own: OpenedFile,
        beside: impl IntoIterator<Item = (Location, OpenedFile)>,
    ) -> Self {
        Self {
            own,
            beside: beside.into_iter().collect(),
        }
    }

    /// A tensor whose elements are at a place, read on demand; `None` if there is no such file.
    pub(crate) fn tensor(
        self: &Arc<Self>,
        place: &TensorPlace,
        dtype: DType,
        shape: &[usize],
        digest: Digest,
    ) -> Option<Tensor> {
        self.file(place.file.as_ref())?;
        let (files, place, sizes) = (Arc::clone(self), place.clone(), shape.to_vec());
        let load = move || files.read(&place, dtype, &sizes, digest);
        Tensor::deferred(dtype, shape, load).ok()
    }

    fn file(&self, location: Option<&Location>) -> Option<&OpenedFile> {
        match location {
            None => Some(&self.own),
            Some(location) => self.beside.get(location),
        }
    }

    fn read(
        &self,
        place: &TensorPlace,
        dtype: DType,
        shape: &[usize],
        digest: Digest,
    ) -> Result<Tensor, TensorError> {
        let Some(opened) = self.file(place.file.as_ref()) else {
            unreachable!("the file of a deferred tensor is open");
        };
        let tensor = Tensor::filled_by(dtype, shape, |bytes| {
            let read = opened.file.read_at(place.offset, bytes);
            read.map_err(|error| TensorError::Deferred(error.into()))
        })?;
        // Checked after reading, to detect a change meanwhile.
        if opened.file.identity() == Some(opened.identity)
            || Constant::new(tensor.clone())?.digest() == digest
        {
            return Ok(tensor);
        }
        Err(TensorError::Deferred(
            "the model's file has changed since it was loaded; load the model again".into(),
        ))
    }
}
