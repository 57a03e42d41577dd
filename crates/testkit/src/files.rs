//! A cache folder in memory, so that a target can put any bytes in the place of an entry without touching a disk.

use kiln_kernel_cache::{FileInfo, FileKind, Folder, FolderFile, Fs};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the names of entries contain, and those of other files do not.
const ENTRY: &str = ".kiln";

/// A folder; clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct MemoryFs(Arc<Mutex<Files>>);

#[derive(Debug, Default)]
struct Files {
    by_name: BTreeMap<String, Vec<u8>>,
    /// The name of the entry that was renamed into place last.
    entry: Option<String>,
}

impl MemoryFs {
    /// An empty folder.
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes of the entry that was stored last.
    pub fn content(&self) -> Option<Vec<u8>> {
        let files = self.files();
        files.by_name.get(files.entry.as_ref()?).cloned()
    }

    /// Puts these bytes in the place of the entry that was stored last, if there was one.
    pub fn replace(&self, bytes: &[u8]) {
        let mut files = self.files();
        if let Some(name) = files.entry.clone() {
            files.by_name.insert(name, bytes.to_vec());
        }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        // Every change is one call on a map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, name: &str) -> Box<dyn FolderFile> {
        Box::new(MemoryFile {
            fs: self.clone(),
            name: name.to_owned(),
            at: 0,
        })
    }
}

impl Fs for MemoryFs {
    fn path(&self) -> &Path {
        Path::new("memory")
    }

    fn user(&self) -> u32 {
        0
    }

    fn make(&self) -> io::Result<()> {
        Ok(())
    }

    fn open(&self) -> io::Result<Box<dyn Folder>> {
        Ok(Box::new(self.clone()))
    }

    fn info(&self) -> io::Result<FileInfo> {
        Ok(info(FileKind::Folder, 0))
    }
}

impl Folder for MemoryFs {
    fn info(&self) -> io::Result<FileInfo> {
        Ok(info(FileKind::Folder, 0))
    }

    fn info_of(&self, name: &str) -> io::Result<FileInfo> {
        let files = self.files();
        let file = files.by_name.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(info(FileKind::Regular, file.len()))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn FolderFile>> {
        self.info_of(name).map(|_| self.file(name))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn FolderFile>> {
        let mut files = self.files();
        if files.by_name.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        files.by_name.insert(name.to_owned(), Vec::new());
        Ok(self.file(name))
    }

    fn open_or_create(&self, name: &str) -> io::Result<Box<dyn FolderFile>> {
        self.files().by_name.entry(name.to_owned()).or_default();
        Ok(self.file(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.files();
        let file = files.by_name.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.by_name.insert(to.to_owned(), file);
        if to.contains(ENTRY) {
            files.entry = Some(to.to_owned());
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let removed = self.files().by_name.remove(name);
        removed.map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files().by_name.keys().cloned().collect())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// An open file: where the next byte is read.
struct MemoryFile {
    fs: MemoryFs,
    name: String,
    at: usize,
}

impl FolderFile for MemoryFile {
    fn info(&self) -> io::Result<FileInfo> {
        self.fs.info_of(&self.name)
    }

    fn read(&mut self, n_bytes: usize) -> io::Result<Vec<u8>> {
        let files = self.fs.files();
        let file = files.by_name.get(&self.name);
        let rest = file
            .and_then(|file| file.get(self.at..))
            .unwrap_or_default();
        let bytes = rest.get(..n_bytes).unwrap_or(rest).to_vec();
        self.at += bytes.len();
        Ok(bytes)
    }

    fn read_into(&mut self, target: &mut [u8]) -> io::Result<()> {
        let bytes = self.read(target.len())?;
        if bytes.len() < target.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        target.copy_from_slice(&bytes);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut files = self.fs.files();
        let file = files.by_name.get_mut(&self.name);
        file.ok_or(io::ErrorKind::NotFound)?
            .extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn touch(&self) -> io::Result<()> {
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        Ok(true)
    }
}

fn info(kind: FileKind, bytes: usize) -> FileInfo {
    FileInfo {
        kind,
        owner: 0,
        mode: 0o700,
        links: 1,
        bytes: bytes as u64,
        used: 0,
        identity: (0, 0),
    }
}
