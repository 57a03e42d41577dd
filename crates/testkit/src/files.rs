//! A cache folder in memory: an entry's bytes can be replaced without touching a disk, and all operations are recorded, so
//! that [`power_cut`](crate::power_cut) can enumerate the possible states of a disk.

use kiln_kernel_cache::{FileInfo, FileKind, Folder, FolderFile, Fs};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A substring that only names of entries have.
const ENTRY: &str = ".kiln";

/// A folder; clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryFs(Arc<Mutex<Files>>);

/// A change of a folder, or of a file in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new file was created with this name.
    Create(String, FileNumber),
    /// Bytes were appended.
    Write(FileNumber, Vec<u8>),
    /// A file's bytes were synced.
    SyncFile(FileNumber),
    /// A file was renamed from the first name to the second.
    Rename(String, String, FileNumber),
    /// A name was removed.
    Remove(String),
    /// The names were synced to disk.
    SyncFolder,
}

/// The identity of a file, independent of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNumber(usize);

#[derive(Debug, Default)]
struct Files {
    by_name: BTreeMap<String, FileNumber>,
    contents: Vec<Vec<u8>>,
    changes: Vec<Change>,
    /// The name of the entry that was renamed into place last.
    entry: Option<String>,
}

impl Files {
    fn number(&self, name: &str) -> io::Result<FileNumber> {
        Ok(*self.by_name.get(name).ok_or(io::ErrorKind::NotFound)?)
    }

    fn content(&self, file: FileNumber) -> &[u8] {
        self.contents.get(file.0).map_or(&[], Vec::as_slice)
    }

    /// A new file with a name.
    fn add(&mut self, name: &str, content: Vec<u8>) -> FileNumber {
        let file = FileNumber(self.contents.len());
        self.contents.push(content);
        self.by_name.insert(name.to_owned(), file);
        file
    }

    fn create(&mut self, name: &str) -> FileNumber {
        let file = self.add(name, Vec::new());
        self.changes.push(Change::Create(name.to_owned(), file));
        file
    }
}

impl MemoryFs {
    /// An empty folder.
    pub fn new() -> Self {
        Self::default()
    }

    /// A folder with these files.
    pub fn holding<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let fs = Self::new();
        for (name, content) in files {
            fs.files().add(name, content.to_vec());
        }
        fs
    }

    /// The operations so far.
    pub fn changes(&self) -> Vec<Change> {
        self.files().changes.clone()
    }

    /// The bytes of the most recently stored entry.
    pub fn content(&self) -> Option<Vec<u8>> {
        let files = self.files();
        let file = files.number(files.entry.as_ref()?).ok()?;
        Some(files.content(file).to_vec())
    }

    /// Replaces the bytes of the most recently stored entry, if there was one.
    pub fn replace(&self, bytes: &[u8]) {
        let mut files = self.files();
        if let Some(name) = files.entry.clone() {
            files.add(&name, bytes.to_vec());
        }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        // Every change is one call on a map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, number: FileNumber) -> Box<dyn FolderFile> {
        Box::new(MemoryFile {
            fs: self.clone(),
            number,
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
        let file = files.number(name)?;
        Ok(info(FileKind::Regular, files.content(file).len()))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn FolderFile>> {
        let file = self.files().number(name)?;
        Ok(self.file(file))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn FolderFile>> {
        let mut files = self.files();
        if files.by_name.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(self.file(files.create(name)))
    }

    fn open_or_create(&self, name: &str) -> io::Result<Box<dyn FolderFile>> {
        let mut files = self.files();
        let file = files.number(name).unwrap_or_else(|_| files.create(name));
        Ok(self.file(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.files();
        let file = files.number(from)?;
        files.by_name.remove(from);
        files.by_name.insert(to.to_owned(), file);
        let change = Change::Rename(from.to_owned(), to.to_owned(), file);
        files.changes.push(change);
        if to.contains(ENTRY) {
            files.entry = Some(to.to_owned());
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut files = self.files();
        files.number(name)?;
        files.by_name.remove(name);
        files.changes.push(Change::Remove(name.to_owned()));
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files().by_name.keys().cloned().collect())
    }

    fn sync(&self) -> io::Result<()> {
        self.files().changes.push(Change::SyncFolder);
        Ok(())
    }
}

/// An open file: the read position.
struct MemoryFile {
    fs: MemoryFs,
    number: FileNumber,
    at: usize,
}

impl FolderFile for MemoryFile {
    fn info(&self) -> io::Result<FileInfo> {
        let files = self.fs.files();
        Ok(info(FileKind::Regular, files.content(self.number).len()))
    }

    fn read(&mut self, n_bytes: usize) -> io::Result<Vec<u8>> {
        let files = self.fs.files();
        let rest = files.content(self.number).get(self.at..);
        let rest = rest.unwrap_or_default();
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
        let content = files.contents.get_mut(self.number.0);
        content
            .ok_or(io::ErrorKind::NotFound)?
            .extend_from_slice(bytes);
        files
            .changes
            .push(Change::Write(self.number, bytes.to_vec()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.fs.files().changes.push(Change::SyncFile(self.number));
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
