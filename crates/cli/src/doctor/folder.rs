//! The folder of compiled code: whether it can be used, and how to repair it.

use super::Check;
use anyhow::{Context, Error};
use kiln::Cache;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A step that fixes the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Repair {
    /// Creates it.
    Make(PathBuf),
    /// Removes write permission from all users except its owner.
    Restrict(PathBuf),
}

impl Repair {
    pub(super) fn run(&self) -> Result<(), Error> {
        match self {
            Self::Make(folder) => {
                fs::create_dir_all(folder)
                    .with_context(|| format!("cannot make {}", folder.display()))?;
                set_mode(folder, 0o700)
            }
            Self::Restrict(folder) => set_mode(folder, 0o700),
        }
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Make(folder) => write!(f, "mkdir -p -m 700 {}", folder.display()),
            Self::Restrict(folder) => write!(f, "chmod 700 {}", folder.display()),
        }
    }
}

/// The default folder.
pub(super) fn check() -> Check {
    match Cache::default().path() {
        Some(folder) => of(folder),
        None => Check::absent(
            "cache",
            "none: compiled code is not kept",
            "set HOME or KILN_CACHE_DIR to a folder of yours",
        ),
    }
}

fn of(folder: &Path) -> Check {
    let metadata = match fs::metadata(folder) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let repair = Repair::Make(folder.to_owned());
            let found = format!(
                "{} does not exist; the first compile makes it",
                folder.display()
            );
            return Check {
                repair: Some(repair),
                ..Check::ok("cache", found)
            };
        }
        Err(error) => {
            return Check::absent(
                "cache",
                format!("{}: {error}", folder.display()),
                "set KILN_CACHE_DIR to a folder of yours",
            );
        }
    };
    if !metadata.is_dir() {
        return Check::absent(
            "cache",
            format!("{} is not a folder", folder.display()),
            "set KILN_CACHE_DIR to a folder of yours",
        );
    }
    match writable_by_others(&metadata) {
        Some(mode) => Check::wrong(
            "cache",
            format!(
                "{} has mode {mode:o}: others may write to it, so what is in it is not used",
                folder.display()
            ),
            Repair::Restrict(folder.to_owned()),
        ),
        None => Check::ok("cache", folder.display().to_string()),
    }
}

/// The mode, if it allows other users to write.
#[cfg(unix)]
fn writable_by_others(metadata: &fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    let mode = metadata.permissions().mode() & 0o7777;
    (mode & 0o022 != 0).then_some(mode)
}

#[cfg(not(unix))]
fn writable_by_others(_metadata: &fs::Metadata) -> Option<u32> {
    None
}

#[cfg(unix)]
fn set_mode(folder: &Path, mode: u32) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(mode))
        .with_context(|| format!("cannot change the mode of {}", folder.display()))
}

#[cfg(not(unix))]
fn set_mode(_folder: &Path, _mode: u32) -> Result<(), Error> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[test]
    fn a_folder_that_others_write_to_is_restricted() {
        use std::os::unix::fs::PermissionsExt;
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("a/kiln");
        let missing = of(&folder);
        assert_eq!(missing.state, State::Ok);
        missing.repair.unwrap().run().unwrap();
        assert_eq!(of(&folder).repair, None);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let wrong = of(&folder);
        assert_eq!(wrong.state, State::Wrong);
        assert!(wrong.found.contains("mode 777"), "{}", wrong.found);
        wrong.repair.unwrap().run().unwrap();
        assert_eq!(of(&folder).state, State::Ok);
    }
}
