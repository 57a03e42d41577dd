//! A model's file with a digest of all that was read for it: the file, and every part of the files that it names.

use crate::error::Error;
use kiln_onnx::{DataFile, FileError, Folder, Fs, Limits, Location, Model};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A digest of a model's file and of what it names.
pub(crate) type ModelDigest = [u8; 32];

/// Loads a model and digests what it is made of. No digest where the file is none that can be read so: then the
/// model's own loader says what is wrong.
pub(super) fn load(path: &Path, limits: &Limits) -> Result<(Model, Option<ModelDigest>), Error> {
    let Some((bytes, folder)) = read(path, limits) else {
        return Ok((Model::load_with(path, limits)?, None));
    };
    let hasher = Arc::new(Mutex::new(blake3::Hasher::new()));
    update(&hasher, "model", 0, &bytes);
    let files = Hashing {
        folder,
        hasher: Arc::clone(&hasher),
    };
    let model = Model::from_bytes_with(&bytes, &files, limits)?;
    let digest = hasher.lock().unwrap_or_else(PoisonError::into_inner);
    Ok((model, Some(*digest.finalize().as_bytes())))
}

/// The file's bytes and its folder.
fn read(path: &Path, limits: &Limits) -> Option<(Vec<u8>, Folder)> {
    let file = File::open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > limits.model_bytes {
        return None;
    }
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(usize::try_from(metadata.len()).ok()?)
        .ok()?;
    file.take(metadata.len()).read_to_end(&mut bytes).ok()?;
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    Some((bytes, Folder::open(parent).ok()?))
}

type Shared = Arc<Mutex<blake3::Hasher>>;

/// Each part with its name, place and length in front, so that no two lists of parts give the same bytes.
fn update(hasher: &Shared, name: &str, offset: u64, bytes: &[u8]) {
    let mut hasher = hasher.lock().unwrap_or_else(PoisonError::into_inner);
    hasher.update(&(name.len() as u64).to_le_bytes());
    hasher.update(name.as_bytes());
    hasher.update(&offset.to_le_bytes());
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// A folder whose files are digested as they are read.
struct Hashing {
    folder: Folder,
    hasher: Shared,
}

struct HashedFile {
    file: Box<dyn DataFile>,
    name: String,
    hasher: Shared,
}

impl Fs for Hashing {
    fn open(&self, location: &Location) -> Result<Box<dyn DataFile>, FileError> {
        Ok(Box::new(HashedFile {
            file: self.folder.open(location)?,
            name: location.as_str().to_owned(),
            hasher: Arc::clone(&self.hasher),
        }))
    }
}

impl DataFile for HashedFile {
    fn size(&self) -> u64 {
        self.file.size()
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, target)?;
        update(&self.hasher, &self.name, offset, target);
        Ok(())
    }
}
