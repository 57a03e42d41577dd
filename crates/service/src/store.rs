//! Stores packages: each in a subfolder of a folder, written atomically; and in a store shared by several servers, if
//! there is one.
//!
//! *Invariant:* a package is written elsewhere and renamed into place, so no reader sees a partial one. If two writers
//! store the same key, the first one wins; both packages are valid.

mod shared;

pub(crate) use shared::Turn;

use crate::error::ServiceError;
use crate::package::Package;
use kiln::Tier;
use shared::Shared;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder of packages, which may be backed by a store that several servers share.
#[derive(Clone, Debug)]
pub struct PackageStore {
    folder: PathBuf,
    shared: Option<Shared>,
}

impl PackageStore {
    /// Opens the store in a folder, which is created if it does not exist, with access for this user only.
    ///
    /// # Errors
    /// E1426 when it cannot be created.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, ServiceError> {
        let folder = folder.into();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .create(&folder)
            .map_err(ServiceError::store("make", &folder))?;
        Ok(Self {
            folder,
            shared: None,
        })
    }

    /// Adds a store shared by several servers, such as `kiln::remote::open` returns: packages missing in the folder are
    /// looked up there, and kept in the folder; packages that one server makes are stored there for all. A server that
    /// is about to compile claims the package, if the store supports claims, and the others wait for it. Packages of
    /// other versions of Kiln, and of machines of another kind, are separate entries.
    #[must_use]
    pub fn shared_in(self, tier: Arc<dyn Tier>) -> Self {
        let shared = Some(Shared::new(tier));
        Self { shared, ..self }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The package of a key, if there is one: in the folder, or else in the shared store.
    ///
    /// # Errors
    /// E1425 for a package that this build does not read; E1426 when the folder fails; E1427 when the shared store does.
    pub fn get(&self, key: &str) -> Result<Option<Package>, ServiceError> {
        match self.get_own(key)? {
            Some(package) => Ok(Some(package)),
            None => self.fetch(key),
        }
    }

    /// The package in the folder.
    pub(crate) fn get_own(&self, key: &str) -> Result<Option<Package>, ServiceError> {
        match is_key(key) {
            true => Package::read(&self.folder.join(key), key),
            false => Ok(None),
        }
    }

    /// The package in the shared store, which is also copied to the folder if possible.
    pub(crate) fn fetch(&self, key: &str) -> Result<Option<Package>, ServiceError> {
        let found = match &self.shared {
            Some(shared) if is_key(key) => shared.get(key)?,
            _ => None,
        };
        Ok(found.map(|package| match self.put_own(&package) {
            Ok(kept) => kept,
            Err(error) => {
                tracing::warn!(code = error.code(), %error, "service.store");
                package
            }
        }))
    }

    /// Waits while another server makes the package of a key.
    pub(crate) fn turn(&self, key: &str, is_cancelled: impl Fn() -> bool) -> Turn {
        match &self.shared {
            Some(shared) => shared.turn(key, is_cancelled),
            None => Turn::Compile(None),
        }
    }

    /// Stores a package; replaces one of the same key. The shared store may write it in the background.
    ///
    /// # Errors
    /// E1426 when the folder fails; E1427 when the shared store does, in which case the package is only in the folder.
    pub fn put(&self, package: &Package) -> Result<Package, ServiceError> {
        let own = self.put_own(package);
        // Other servers need it even if this folder is full.
        if let Some(shared) = &self.shared {
            shared.put(package)?;
        }
        own
    }

    fn put_own(&self, package: &Package) -> Result<Package, ServiceError> {
        let key = &package.metadata().key;
        let place = self.folder.join(key);
        let fail = |action| ServiceError::store(action, place.clone());
        let staged = tempfile::Builder::new()
            .prefix(".incoming-")
            .tempdir_in(&self.folder)
            .map_err(fail("make"))?;
        for entry in fs::read_dir(package.folder()).map_err(fail("read"))? {
            let entry = entry.map_err(fail("read"))?;
            let to = staged.path().join(entry.file_name());
            fs::copy(entry.path(), &to).map_err(fail("write"))?;
            let file = fs::File::open(&to).and_then(|file| file.sync_all());
            file.map_err(fail("write"))?;
        }
        // A rename cannot replace a folder with content, so the existing one is moved aside first.
        let aside = staged.path().with_extension("replaced");
        match fs::rename(&place, &aside) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(fail("replace")(error)),
        }
        let staged = staged.keep();
        let renamed = fs::rename(&staged, &place);
        let _ = fs::remove_dir_all(&aside);
        if let Err(error) = renamed {
            let _ = fs::remove_dir_all(&staged);
            // Another writer was faster; its package is equivalent.
            return match self.get_own(key) {
                Ok(Some(package)) => Ok(package),
                _ => Err(fail("write")(error)),
            };
        }
        self.get_own(key)?
            .ok_or_else(|| fail("read")(ErrorKind::NotFound.into()))
    }

    /// Removes the package of a key, also from the shared store; returns whether there was one in the folder.
    ///
    /// # Errors
    /// E1426 when the folder fails.
    pub fn remove(&self, key: &str) -> Result<bool, ServiceError> {
        let place = self.folder.join(key);
        if let Some(shared) = self.shared.as_ref().filter(|_| is_key(key)) {
            shared.remove(key);
        }
        match is_key(key) {
            false => Ok(false),
            true => match fs::remove_dir_all(&place) {
                Ok(()) => Ok(true),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
                Err(error) => Err(ServiceError::store("remove", place)(error)),
            },
        }
    }

    /// The keys of all packages in the folder, sorted.
    ///
    /// # Errors
    /// E1426 when the folder fails.
    pub fn keys(&self) -> Result<Vec<String>, ServiceError> {
        let fail = || ServiceError::store("list", self.folder.clone());
        let mut keys = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(fail())? {
            let name = entry.map_err(fail())?.file_name();
            keys.extend(name.to_str().filter(|name| is_key(name)).map(str::to_owned));
        }
        keys.sort();
        Ok(keys)
    }
}

/// Whether a text is a key; file names are made of keys.
fn is_key(key: &str) -> bool {
    key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit())
}
