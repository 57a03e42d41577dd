//! Reads a model's file, and computes a digest of everything read for it: the file, and every part of the files it
//! refers to.

use super::ModelDigest;
use super::known::{self, Seen};
use super::opened::OpenedFile;
use crate::error::{Error, Failure};
use kiln_onnx::{DataFile, FileError, FileIdentity, Folder, Fs, Limits, Location, Model};
use kiln_tensor::zeroed_bytes;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A model that was read, its digest, and the identities of the files, if the system reports identities.
pub(super) struct Digested {
    pub(super) model: Model,
    pub(super) digest: ModelDigest,
    pub(super) seen: Option<Seen>,
}

/// Reads and digests a model; `None` if the files beside it cannot be read this way.
pub(super) fn read(
    path: &Path,
    own: &OpenedFile,
    limits: &Limits,
) -> Result<Option<Digested>, Error> {
    let Some(folder) = known::folder_of(path) else {
        return Ok(None);
    };
    let failed = |source| Failure::Read {
        file: super::file_name(path),
        source,
    };
    let size = usize::try_from(own.file.size());
    let size = size.map_err(|_| failed(io::ErrorKind::FileTooLarge.into()))?;
    let mut bytes = zeroed_bytes(size).map_err(|error| failed(error.into()))?;
    own.file.read_at(0, &mut bytes).map_err(failed)?;
    let shared = Arc::new(Shared {
        hasher: Mutex::new(blake3::Hasher::new()),
        seen: Mutex::default(),
    });
    shared.update("model", 0, &bytes);
    let files = Hashing {
        folder,
        shared: Arc::clone(&shared),
    };
    let model = Model::from_owned_bytes(bytes, &files, limits)?;
    let hasher = shared.hasher.lock().unwrap_or_else(PoisonError::into_inner);
    let seen = shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
    let beside = seen
        .iter()
        .map(|(location, identity)| Some((location.clone(), (*identity)?)));
    let beside: Option<Vec<_>> = beside.collect();
    let is_same = own.file.identity() == Some(own.identity);
    Ok(Some(Digested {
        model,
        digest: *hasher.finalize().as_bytes(),
        seen: beside.filter(|_| is_same).map(|beside| Seen {
            own: own.identity,
            beside,
        }),
    }))
}

struct Shared {
    hasher: Mutex<blake3::Hasher>,
    /// The files that were opened, with their identities when first opened.
    seen: Mutex<BTreeMap<Location, Option<FileIdentity>>>,
}

impl Shared {
    /// Each part is preceded by its name, offset and length, so that no two lists of parts give the same bytes.
    fn update(&self, name: &str, offset: u64, bytes: &[u8]) {
        let mut hasher = self.hasher.lock().unwrap_or_else(PoisonError::into_inner);
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
        hasher.update(&offset.to_le_bytes());
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    }
}

/// A folder whose files are digested as they are read.
struct Hashing {
    folder: Folder,
    shared: Arc<Shared>,
}

struct HashedFile {
    file: Box<dyn DataFile>,
    name: String,
    shared: Arc<Shared>,
}

impl Fs for Hashing {
    fn open(&self, location: &Location) -> Result<Box<dyn DataFile>, FileError> {
        let file = self.folder.open(location)?;
        let seen = self.shared.seen.lock();
        let mut seen = seen.unwrap_or_else(PoisonError::into_inner);
        seen.entry(location.clone())
            .or_insert_with(|| file.identity());
        Ok(Box::new(HashedFile {
            file,
            name: location.as_str().to_owned(),
            shared: Arc::clone(&self.shared),
        }))
    }
}

impl DataFile for HashedFile {
    fn size(&self) -> u64 {
        self.file.size()
    }

    fn identity(&self) -> Option<FileIdentity> {
        self.file.identity()
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, target)?;
        self.shared.update(&self.name, offset, target);
        Ok(())
    }
}
