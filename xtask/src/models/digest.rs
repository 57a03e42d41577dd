//! SHA-256 of files, as lower-case hexadecimal.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

/// Whether the file at `path` exists and has this digest.
pub(crate) fn matches(path: &Path, expected: &str) -> Result<bool> {
    match File::open(path) {
        Ok(file) => {
            Ok(of(file).with_context(|| format!("cannot read {}", path.display()))? == expected)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot open {}", path.display())),
    }
}

/// Fails unless the file at `path` has this digest; `name` is its name in the error.
pub(crate) fn require(path: &Path, expected: &str, name: &str) -> Result<()> {
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    let found = of(file).with_context(|| format!("cannot read {name}"))?;
    if found != expected {
        bail!(
            "{name}: expected digest {expected}, found {found}; it is not the pinned file, so it is not used"
        );
    }
    Ok(())
}

fn of(mut from: impl Read) -> std::io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n_bytes = from.read(&mut buffer)?;
        if n_bytes == 0 {
            break;
        }
        hasher.update(&buffer[..n_bytes]);
    }
    Ok(hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha256_matches_the_published_vector() {
        let empty = of(std::io::empty()).unwrap();
        assert_eq!(
            empty,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        let foo = of(&b"foo"[..]).unwrap();
        assert_eq!(
            foo,
            "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
        );
    }

    #[test]
    fn an_absent_file_matches_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!matches(&folder.path().join("absent"), "").unwrap());
    }
}
