//! Digests of files by identity: a file that has been digested once is recognised without being read again.
//!
//! An identity is a file's device, inode number, size, and times of last change, one of which no program can set. Two
//! changes within one tick of the file system's clock cannot be told apart, so files changed a moment ago are not recorded.
//! Only the digest of a file is recorded; the keys of programs and code contain digests alone.

use super::ModelDigest;
use super::opened::{ModelFile, OpenedFile, OpenedFiles};
use kiln_kernel_cache::{CacheKey, Content, EntryKind, KeyDigest, Tier, open_regular};
use kiln_onnx::{FileIdentity, Folder, Fs, Limits, Location};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a file must have been unchanged for its identity to identify its content: file systems record times in steps of
/// up to two seconds.
const SETTLED: Duration = Duration::from_secs(4);

/// The record of a model's file.
#[derive(Serialize, Deserialize)]
struct Noted {
    digest: String,
    /// The names and identities of the files beside it.
    beside: Vec<(String, String)>,
}

/// The files that were read for a model, with their identities at that time.
pub(super) struct Seen {
    pub(super) own: FileIdentity,
    pub(super) beside: Vec<(Location, FileIdentity)>,
}

/// A model's own file, opened; `None` if it cannot be read this way.
pub(super) fn open(path: &Path, limits: &Limits) -> Option<OpenedFile> {
    let file = open_regular(path).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > limits.model_bytes {
        return None;
    }
    let identity = FileIdentity::of(&file).ok()?;
    Some(OpenedFile {
        file: Box::new(ModelFile {
            file,
            bytes: metadata.len(),
        }),
        identity,
    })
}

/// The folder of a model's file.
pub(super) fn folder_of(path: &Path) -> Option<Folder> {
    let parent = path.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    Folder::open(parent.unwrap_or(Path::new("."))).ok()
}

/// The digest of a file and its open files, if all are unchanged since it was recorded.
pub(super) fn recognise(
    path: &Path,
    own: OpenedFile,
    disk: &dyn Tier,
) -> Result<(ModelDigest, OpenedFiles), OpenedFile> {
    let noted = || {
        let entry = disk.get(&key(own.identity)).ok()?;
        let noted: Noted = serde_json::from_slice(&entry.payload).ok()?;
        let digest = KeyDigest::from_hex(&noted.digest)?;
        let folder = match noted.beside.is_empty() {
            true => None,
            false => Some(folder_of(path)?),
        };
        let beside = noted.beside.iter().map(|(name, identity)| {
            let location = Location::parse(name).ok()?;
            let file = folder.as_ref()?.open(&location).ok()?;
            let found = file.identity()?;
            let opened = OpenedFile {
                file,
                identity: found,
            };
            (found.to_string() == *identity).then_some((location, opened))
        });
        let beside: Vec<(Location, OpenedFile)> = beside.collect::<Option<_>>()?;
        Some((*digest.as_bytes(), beside))
    };
    match noted() {
        Some((digest, beside)) => Ok((digest, OpenedFiles::new(own, beside))),
        None => Err(own),
    }
}

/// Records the digest of files that were read, unless one has changed meanwhile or only just before.
pub(super) fn note(
    path: &Path,
    digest: &ModelDigest,
    seen: &Seen,
    disk: &dyn Tier,
    now: SystemTime,
) {
    let is_same = || {
        let own = FileIdentity::of(&open_regular(path).ok()?).ok()?;
        let folder = folder_of(path)?;
        let mut beside = seen.beside.iter();
        let same = own == seen.own
            && beside.all(|(location, identity)| {
                let file = folder.open(location).ok();
                file.and_then(|file| file.identity()) == Some(*identity)
            });
        same.then_some(())
    };
    let now = now.duration_since(UNIX_EPOCH);
    let Ok(now) = i128::try_from(now.unwrap_or_default().as_nanos()) else {
        return;
    };
    let limit = now - SETTLED.as_nanos() as i128;
    let is_settled = |identity: &FileIdentity| identity.modified.max(identity.changed) < limit;
    let mut all = seen.beside.iter().map(|(_, identity)| identity);
    if !is_settled(&seen.own) || !all.all(is_settled) || is_same().is_none() {
        return;
    }
    let noted = Noted {
        digest: KeyDigest::from(*digest).to_string(),
        beside: seen
            .beside
            .iter()
            .map(|(location, identity)| (location.as_str().to_owned(), identity.to_string()))
            .collect(),
    };
    if let Ok(bytes) = serde_json::to_vec(&noted)
        && let Err(problem) = disk.put(&key(seen.own), Duration::ZERO, Content::data(&bytes))
    {
        tracing::debug!(%problem, "a file's digest was not recorded");
    }
}

fn key(identity: FileIdentity) -> CacheKey {
    CacheKey::of_fields(EntryKind::FILE, [("file", identity.to_string())])
}
