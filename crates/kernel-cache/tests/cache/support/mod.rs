//! Test caches: texts under keys, in temporary folders.

pub(crate) mod children;
pub(crate) mod faulty;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kiln_kernel_cache::{
    BytesCodec, CacheKey, CacheOptions, Clock, DiskOptions, DiskTier, EntryKind, Fs, Tier,
    TieredCache,
};

/// A clock controlled by tests.
pub(crate) use kiln_timing::ManualClock;

pub(crate) type TestCache = TieredCache<Vec<u8>, String>;

/// Longer than any test takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The key of an item with this name: data, so that tests may create it.
pub(crate) fn key(name: &str) -> CacheKey {
    CacheKey::of_fields(
        EntryKind::PROGRAM,
        [("kernel", name), ("compiler", "llvm 19.1.7")],
    )
}

/// The compiled value for a name.
pub(crate) fn content(name: &str) -> Vec<u8> {
    format!("code of {name}. ").repeat(20).into_bytes()
}

pub(crate) fn clock() -> Arc<dyn Clock> {
    let begin = Instant::now();
    Arc::new(move || begin.elapsed())
}

/// A memory tier in front of these tiers.
pub(crate) fn cache_of(tiers: Vec<Arc<dyn Tier>>) -> TestCache {
    TieredCache::with_tiers(BytesCodec, clock(), CacheOptions::default(), tiers)
}

/// A memory tier in front of a folder.
pub(crate) fn cache_at(folder: &Path) -> TestCache {
    cache_of(vec![Arc::new(disk_at(folder))])
}

/// A folder on a file system with faults.
pub(crate) fn disk_with(fs: impl Fs + 'static, options: DiskOptions) -> DiskTier {
    // SAFETY: nothing that is read in these tests is run.
    unsafe { DiskTier::with_fs(fs, options) }
}

pub(crate) fn disk_at(folder: &Path) -> DiskTier {
    DiskTier::at(folder, DiskOptions::default())
}

/// Every file in a folder with this extension.
pub(crate) fn files(folder: &Path, ending: &str) -> Vec<std::path::PathBuf> {
    let Ok(items) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = items
        .map(|item| item.expect("the folder is there").path())
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    paths.sort();
    paths
}

/// The only entry in a folder.
pub(crate) fn only_entry(folder: &Path) -> std::path::PathBuf {
    let mut entries = files(folder, ".kiln2");
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries.remove(0)
}
