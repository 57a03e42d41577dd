//! Packages: a compiled kernel as a bundle, with metadata next to it.
//!
//! A package is a folder with two files. The bundle is sealed; the metadata is for people and tools, and nothing in it is
//! trusted: the sealed graph names the key that it was packaged under, and opening checks that.

use crate::blueprint::Blueprint;
use crate::compile::KEY_ENTRY;
use crate::error::ServiceError;
use crate::optimize::OptimizedKernel;
use crate::validate::{Outcome, ValidationResult};
use kiln::{Cache, Compiling, Model, Options, SealKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// The version of the format that this build writes. It reads this and older ones.
pub const PACKAGE_FORMAT: u32 = 1;

/// The files of a package.
const METADATA: &str = "package.json";
const BUNDLE: &str = "kernel.kiln-bundle";
/// The maximum length of a metadata file.
const MAX_METADATA_BYTES: u64 = 1 << 20;

/// The metadata of a package: its contents and its origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PackageMetadata {
    /// The version of the package's format.
    pub format: u32,
    /// The key: the digest of the blueprint and the target.
    pub key: String,
    /// The blueprint's name.
    pub name: String,
    /// The version of Kiln that compiled it.
    pub kiln: String,
    /// The digest of the blueprint.
    pub blueprint: String,
    /// The device that it is for.
    pub device: String,
    /// The level of the device.
    pub level: String,
    /// Threads of a call, as measured to be the fastest.
    pub threads: usize,
    /// The time from the blueprint to the checked kernel, in milliseconds.
    pub compile_ms: u64,
    /// The time of a call at likely sizes, in nanoseconds.
    pub time_ns: u64,
    /// The time of the plain candidate, in nanoseconds.
    pub plain_ns: u64,
    /// Bytes of the bundle.
    pub bundle_bytes: u64,
    /// The digest of the bundle.
    pub bundle: String,
    /// Each check, and its result.
    pub checks: BTreeMap<String, String>,
    /// The program that compiled it, and when.
    pub provenance: Provenance,
}

/// The program that compiled a package, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The program that compiled it.
    pub tool: String,
    /// The origin of the blueprint, as given by the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Seconds since 1970.
    pub created: u64,
}

impl Provenance {
    pub(crate) fn new(origin: Option<String>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            tool: concat!("kiln-service ", env!("CARGO_PKG_VERSION")).to_owned(),
            origin,
            created: now.unwrap_or_default().as_secs(),
        }
    }
}

impl PackageMetadata {
    pub(crate) fn new(
        key: &str,
        blueprint: &Blueprint,
        kernel: &OptimizedKernel,
        validation: &ValidationResult,
        compile_time: Duration,
        provenance: Provenance,
    ) -> Self {
        let checks = validation.checks.iter().map(|(kind, outcome)| {
            let outcome = match outcome {
                Outcome::Passed(how) => format!("passed: {how}"),
                Outcome::Failed(failure) => format!("failed: {failure}"),
                Outcome::NotApplicable(why) => format!("not applicable: {why}"),
            };
            (kind.to_string(), outcome)
        });
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            format: PACKAGE_FORMAT,
            key: key.to_owned(),
            name: blueprint.name.clone(),
            kiln: env!("CARGO_PKG_VERSION").to_owned(),
            blueprint: blueprint.digest(),
            device: kernel.model.device().key().to_owned(),
            level: kernel.choice.level.clone(),
            threads: kernel.choice.threads,
            compile_ms: u64::try_from(compile_time.as_millis()).unwrap_or(u64::MAX),
            time_ns: nanoseconds(kernel.profile.time),
            plain_ns: nanoseconds(kernel.plain.time),
            bundle_bytes: 0,
            bundle: String::new(),
            checks: checks.collect(),
            provenance,
        }
    }
}

/// A package in a folder.
#[derive(Clone, Debug)]
pub struct Package {
    metadata: PackageMetadata,
    folder: PathBuf,
    /// Removes the folder of a package that has not been stored.
    _temporary: Option<Arc<TempDir>>,
}

impl Package {
    /// Writes a package to a temporary folder.
    pub(crate) fn write(
        mut metadata: PackageMetadata,
        model: &Model,
        seal: &SealKey,
    ) -> Result<Self, ServiceError> {
        let folder = tempfile::tempdir();
        let folder = folder.map_err(ServiceError::store("make", std::env::temp_dir()))?;
        let bundle = folder.path().join(BUNDLE);
        let saved = model.save_bundle(&bundle, Some(seal));
        metadata.bundle_bytes = saved.map_err(ServiceError::stage("package"))?;
        let bytes = std::fs::read(&bundle).map_err(ServiceError::store("read", &bundle))?;
        metadata.bundle = blake3::hash(&bytes).to_hex().to_string();
        let path = folder.path().join(METADATA);
        let text = serde_json::to_string_pretty(&metadata).unwrap_or_default();
        std::fs::write(&path, text).map_err(ServiceError::store("write", &path))?;
        Ok(Self {
            metadata,
            folder: folder.path().to_owned(),
            _temporary: Some(Arc::new(folder)),
        })
    }

    /// The package in a folder, according to its metadata; `None` if there is no such folder.
    ///
    /// # Errors
    /// E1425 for metadata that is damaged, or of a newer format.
    pub(crate) fn read(folder: &Path, key: &str) -> Result<Option<Self>, ServiceError> {
        let path = folder.join(METADATA);
        let refused = |reason: String| ServiceError::PackageRefused {
            key: key.to_owned(),
            reason,
        };
        let bytes = match std::fs::metadata(&path) {
            Ok(info) => info.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ServiceError::store("read", path)(error)),
        };
        if bytes > MAX_METADATA_BYTES {
            return Err(refused(format!(
                "expected metadata of at most {MAX_METADATA_BYTES} bytes, found {bytes}"
            )));
        }
        let text = std::fs::read(&path).map_err(ServiceError::store("read", &path))?;
        #[derive(Deserialize)]
        struct Header {
            format: u32,
        }
        let header: Header = serde_json::from_slice(&text)
            .map_err(|error| refused(format!("its metadata is damaged: {error}")))?;
        if header.format > PACKAGE_FORMAT {
            let found = header.format;
            return Err(refused(format!(
                "expected a package of format {PACKAGE_FORMAT} or older, found format {found}"
            )));
        }
        let metadata: PackageMetadata = serde_json::from_slice(&text)
            .map_err(|error| refused(format!("its metadata is damaged: {error}")))?;
        if metadata.key != key {
            return Err(refused(
                "its metadata are those of another package".to_owned(),
            ));
        }
        Ok(Some(Self {
            metadata,
            folder: folder.to_owned(),
            _temporary: None,
        }))
    }

    /// The package as bytes: the length of its metadata in eight bytes, its metadata, its bundle.
    pub(crate) fn pack(&self) -> Result<Vec<u8>, ServiceError> {
        let metadata = serde_json::to_vec(&self.metadata).unwrap_or_default();
        let path = self.bundle();
        let bundle = std::fs::read(&path).map_err(ServiceError::store("read", path))?;
        let length = (metadata.len() as u64).to_le_bytes();
        Ok([&length[..], &metadata, &bundle].concat())
    }

    /// The package of a key in bytes that [`pack`](Self::pack) returned, in a temporary folder.
    ///
    /// # Errors
    /// E1425 for other bytes, and metadata that [`read`](Self::read) refuses; E1426 when the system fails.
    pub(crate) fn unpack(bytes: &[u8], key: &str) -> Result<Self, ServiceError> {
        let parts = bytes.split_first_chunk().and_then(|(length, rest)| {
            let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
            rest.split_at_checked(length)
        });
        let Some((metadata, bundle)) = parts else {
            return Err(ServiceError::PackageRefused {
                key: key.to_owned(),
                reason: format!(
                    "expected metadata and a bundle, found {} bytes",
                    bytes.len()
                ),
            });
        };
        let folder = tempfile::tempdir();
        let folder = folder.map_err(ServiceError::store("make", std::env::temp_dir()))?;
        for (name, content) in [(METADATA, metadata), (BUNDLE, bundle)] {
            let path = folder.path().join(name);
            std::fs::write(&path, content).map_err(ServiceError::store("write", path))?;
        }
        let package = Self::read(folder.path(), key)?;
        let package = package.ok_or_else(|| ServiceError::PackageRefused {
            key: key.to_owned(),
            reason: "it has no metadata".to_owned(),
        })?;
        Ok(Self {
            _temporary: Some(Arc::new(folder)),
            ..package
        })
    }

    /// Its metadata.
    pub fn metadata(&self) -> &PackageMetadata {
        &self.metadata
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its bundle.
    pub fn bundle(&self) -> PathBuf {
        self.folder.join(BUNDLE)
    }

    /// Opens its kernel, with the key with which it was sealed.
    ///
    /// # Errors
    /// E1425 for a bundle that is damaged, not sealed with the key, made by a different version of Kiln, for a level
    /// that this machine lacks, or stored under another key.
    pub fn open(&self, seal: &SealKey) -> Result<Model, ServiceError> {
        let refused = |reason: String| ServiceError::PackageRefused {
            key: self.metadata.key.clone(),
            reason,
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let compiling = Compiling {
            variants: None,
            threads: Some(1),
            ..Compiling::default()
        };
        let options = Options::new()
            .threads(self.metadata.threads.clamp(1, cores))
            .cache(Cache::off())
            .compiling(compiling);
        let model = Model::open_sealed_bundle(self.bundle(), seal, options)
            .map_err(|error| refused(format!("{}: {error}", error.code())))?;
        match model.metadata().get(KEY_ENTRY) {
            Some(key) if *key == self.metadata.key => Ok(model),
            _ => Err(refused("its bundle is that of another package".to_owned())),
        }
    }
}
