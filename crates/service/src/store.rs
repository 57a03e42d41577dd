//! Packages in a folder: one folder each, put there whole.
//!
//! *Invariant:* a package is written elsewhere and renamed into place, so no reader sees part of one. Of two writers of one
//! key the first to arrive wins, and both packages are good.

use crate::error::ServiceError;
use crate::package::Package;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A folder of packages.
#[derive(Clone, Debug)]
pub struct PackageStore {
    folder: PathBuf,
}

impl PackageStore {
    /// The store in a folder, which is made if it does not exist, for this user alone.
    ///
    /// # Errors
    /// E1426 when it cannot be made.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, ServiceError> {
        let folder = folder.into();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .create(&folder)
            .map_err(ServiceError::store("make", &folder))?;
        Ok(Self { folder })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The package of a key, if there is one.
    ///
    /// # Errors
    /// E1425 for a package that this build does not read; E1426 when the folder fails.
    pub fn get(&self, key: &str) -> Result<Option<Package>, ServiceError> {
        match is_key(key) {
            true => Package::read(&self.folder.join(key), key),
            false => Ok(None),
        }
    }

    /// Stores a package; replaces one of the same key.
    ///
    /// # Errors
    /// E1426 when the folder fails.
    pub fn put(&self, package: &Package) -> Result<Package, ServiceError> {
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
        // A folder with content cannot be renamed over: what is there is moved aside first.
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
            // Another writer was faster; its package is as good.
            return match self.get(key) {
                Ok(Some(package)) => Ok(package),
                _ => Err(fail("write")(error)),
            };
        }
        self.get(key)?
            .ok_or_else(|| fail("read")(ErrorKind::NotFound.into()))
    }

    /// Removes the package of a key; whether there was one.
    ///
    /// # Errors
    /// E1426 when the folder fails.
    pub fn remove(&self, key: &str) -> Result<bool, ServiceError> {
        let place = self.folder.join(key);
        match is_key(key) {
            false => Ok(false),
            true => match fs::remove_dir_all(&place) {
                Ok(()) => Ok(true),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
                Err(error) => Err(ServiceError::store("remove", place)(error)),
            },
        }
    }

    /// The keys of all packages, sorted.
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

/// Whether a text is a key: names of files are made of it.
fn is_key(key: &str) -> bool {
    key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit())
}
