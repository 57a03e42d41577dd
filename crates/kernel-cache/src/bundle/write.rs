//! Writing a bundle: a draft next to the target, then a rename, so readers see a whole bundle or none.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;

use crate::collected::Collected;
use crate::entry::{self, DIGEST};
use crate::error::CacheError;
use crate::seal::SealKey;

use super::{Bundle, FORMAT, INDEXED, MAGIC, PRELUDE};

impl Bundle {
    /// Writes a bundle of these entries, replacing any file at the path, and returns its length. With a key, the bundle
    /// is sealed. Equal manifests, entries and keys give equal files.
    ///
    /// # Errors
    /// A file that cannot be written, an entry that is too large, or data under the key of code.
    pub fn write(
        path: impl AsRef<Path>,
        manifest: &[u8],
        entries: &[Collected],
        seal: Option<&SealKey>,
    ) -> Result<u64, CacheError> {
        let path = path.as_ref();
        let failed = |error: io::Error| CacheError::BundleIo {
            path: path.to_owned(),
            doing: "writing",
            kind: error.kind(),
            message: error.to_string(),
        };
        let refused = |problem: String| failed(io::Error::new(ErrorKind::InvalidInput, problem));
        let mut entries: Vec<&Collected> = entries.iter().collect();
        entries.sort_by_key(|entry| entry.key.digest());
        let mut fronts = Vec::with_capacity(entries.len());
        for Collected { key, time, content } in &entries {
            let checked = content.content().for_key(key);
            let front =
                checked.and_then(|bytes| entry::front(key, *time, bytes.len(), seal.is_some()));
            fronts.push(front.map_err(|problem| refused(problem.to_string()))?);
        }
        let n_entries = u32::try_from(entries.len());
        let n_entries = n_entries.map_err(|_| refused("too many entries".to_owned()))?;
        let n_seals = 1 + usize::from(seal.is_some());
        let begin = PRELUDE + manifest.len() + entries.len() * INDEXED + n_seals * DIGEST;
        let mut index = Vec::with_capacity(entries.len() * INDEXED);
        let mut end = begin as u64;
        for (entry, front) in entries.iter().zip(&fronts) {
            let bytes = (front.len() + entry.content.len() + n_seals * DIGEST) as u64;
            index.extend(entry.key.digest().as_bytes());
            index.extend(end.to_le_bytes());
            index.extend(bytes.to_le_bytes());
            end += bytes;
        }
        let mut before = Vec::with_capacity(begin);
        before.extend(MAGIC);
        before.extend(FORMAT.to_le_bytes());
        before.extend(n_entries.to_le_bytes());
        before.extend((manifest.len() as u64).to_le_bytes());
        before.extend(end.to_le_bytes());
        before.extend(u64::from(seal.is_some()).to_le_bytes());
        before.extend(manifest);
        before.extend(index);
        let digest = blake3::hash(&before);
        before.extend(digest.as_bytes());
        if let Some(key) = seal {
            let code = key.hasher().update(&before).finalize();
            before.extend(code.as_bytes());
        }
        // The hasher's keys are the standard library's random numbers.
        let number = RandomState::new().build_hasher().finish();
        let mut draft = path.as_os_str().to_owned();
        draft.push(format!(".{number:016x}.draft"));
        let draft = Path::new(&draft);
        let write = || {
            let mut file = BufWriter::new(File::create_new(draft)?);
            file.write_all(&before)?;
            for (entry, front) in entries.iter().zip(&fronts) {
                file.write_all(front)?;
                file.write_all(&entry.content)?;
                file.write_all(&entry::seal(front, &entry.content, seal))?;
            }
            file.into_inner().map_err(io::Error::from)?.sync_all()?;
            fs::rename(draft, path)
        };
        match write() {
            Ok(()) => Ok(end),
            Err(error) => {
                let _ = fs::remove_file(draft);
                Err(failed(error))
            }
        }
    }
}
