//! File systems without a disk: a map of names to bytes, and none at all.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::{DataFile, FileError, Fs, Location, Refusal};

/// Data files held in memory, for models from a network or an archive.
#[derive(Clone, Debug, Default)]
pub struct MemoryFiles(BTreeMap<String, Arc<[u8]>>);

/// No data files: every tensor must be inside the model.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl MemoryFiles {
    /// No files yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file, replacing one with the same name.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, bytes: impl Into<Arc<[u8]>>) -> Self {
        self.0.insert(name.into(), bytes.into());
        self
    }
}

impl Fs for MemoryFiles {
    fn open(&self, location: &Location) -> Result<Box<dyn DataFile>, FileError> {
        match self.0.get(location.as_str()) {
            Some(bytes) => Ok(Box::new(MemoryFile(Arc::clone(bytes)))),
            None => Err(FileError::Io(io::ErrorKind::NotFound.into())),
        }
    }
}

impl Fs for NoFiles {
    fn open(&self, _location: &Location) -> Result<Box<dyn DataFile>, FileError> {
        Err(Refusal::NoFiles.into())
    }
}

struct MemoryFile(Arc<[u8]>);

impl DataFile for MemoryFile {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).ok();
        let range = start.and_then(|start| Some(start..start.checked_add(target.len())?));
        let source = range
            .and_then(|range| self.0.get(range))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        target.copy_from_slice(source);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_name_and_read_by_offset() {
        let files = MemoryFiles::new().with("a", [1, 2, 3]);
        let file = files.open(&Location::parse("a").unwrap()).unwrap();
        let mut target = [0; 2];
        file.read_at(1, &mut target).unwrap();
        assert_eq!((file.size(), target), (3, [2, 3]));
        for offset in [2, 3, u64::MAX] {
            assert_eq!(
                file.read_at(offset, &mut target).unwrap_err().kind(),
                io::ErrorKind::UnexpectedEof
            );
        }
        assert!(files.open(&Location::parse("b").unwrap()).is_err());
    }
}
